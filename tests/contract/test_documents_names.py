"""What the documents call by a name exists: variables, commands and their options, metrics, alerts, codes, files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from common.settings.access_service import ACCESS_SERVICE
from common.settings.acme import CHALLENGES
from common.settings.control_variables import CONTROL
from common.settings.ctl import CTL
from common.settings.variables import VARIABLES
from controlplane.cli import build as build_control
from controlplane.ctl.app import build as build_ctl
from controlplane.errors import KINDS
from controlplane.metrics import ControlMetrics
from dataplane.accessservice.cli import app as access_app
from dataplane.cli.app import build as build_gateway
from dataplane.errors import ERRORS
from dataplane.metrics import GatewayMetrics
from dataplane.tls.challenges import app as challenges_app

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("controlplane/**/*.md"))
    if "node_modules" not in path.parts
)
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))

PROGRAMS: dict[str, Any] = {
    "gateway": typer.main.get_command(build_gateway()),
    "gatewayctl": typer.main.get_command(build_ctl()),
    "gateway-control": typer.main.get_command(build_control()),
    "gateway-access": typer.main.get_command(access_app),
    "gateway-challenges": typer.main.get_command(challenges_app),
}
SECTIONS = (ACCESS_SERVICE, CHALLENGES, CONTROL, CTL)
TABLED = [*VARIABLES, *(variable for section in SECTIONS for variable in section.variables)]
KNOWN = {variable.name for variable in TABLED} | {f"{variable.name}_FILE" for variable in TABLED if variable.secret}
KNOWN |= {"ACCESS_TOKEN_FILE", "GATEWAYCTL_TOKEN_FILE"}

OF_THE_PROCESS = {
    line.split()[2] for line in GatewayMetrics().render().decode().splitlines() if line.startswith("# TYPE process_")
}


@each_page
def test_every_variable_that_a_page_names_exists(page: Path) -> None:
    # What Kubernetes injects is told as what is ignored.
    named = re.findall(r"\b((?:GATEWAY(?:CTL)?|ACCESS)_[A-Z0-9_]*[A-Z0-9])\b(?![…*<_])", page.read_text())
    assert {name for name in named if "_SERVICE_" not in name} <= KNOWN


@each_page
def test_every_default_that_a_page_puts_behind_a_variable_is_its_own(page: Path) -> None:
    defaults = {variable.name: variable.default for variable in TABLED}
    told = re.findall(r"`([A-Z_]+)` \((\d[\d ]*?) ?(ms|s|min|h|)\)", page.read_text())
    factor = {"": 1, "ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000}
    for name, number, unit in told:
        assert int(number.replace(" ", "")) * factor[unit] == int(defaults[name]), name
        assert not unit or name.endswith("_MS"), name


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command of ours that a page shows, in a block or in a line of text."""
    fenced = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
    lines = [
        line.strip()
        for language, block in fenced.findall(text)
        if language in ("", "sh", "text")
        for line in block.replace("\\\n", " ").splitlines()
    ]
    lines += re.findall(r"(?<!`)`([^`\n]+)`(?!`)", fenced.sub("", text))
    for line in lines:
        # Of a pipe, or of `$(…)`, each part is a command.
        for part in re.split(r"\||;|&&|\$\(|\)|>|<| #", line.replace("\\|", " ")):
            try:
                words = shlex.split(part)
            except ValueError:
                continue
            while words and re.match(r"(\w+=|export$|sudo$|exec$)", words[0]):
                words.pop(0)
            if words and (name := words[0].rpartition("/")[2]) in PROGRAMS:
                yield [name, *words[1:]]


def wrong(words: list[str]) -> str:
    """What of a command does not exist, `""` when all of it does. Words in capitals stand for something."""
    command = PROGRAMS[words[0]]
    known = {"--help"}
    for word in (one.strip("[]()…,.") for one in words[1:]):
        known |= {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
        if word.startswith("-") and word != "-":
            if word.partition("=")[0] not in known:
                return word
        elif (below := getattr(command, "commands", {})) and word and not word.isupper():
            if word not in below:
                return word
            command = below[word]
    return ""


@each_page
def test_every_command_that_a_page_shows_exists_with_its_options(page: Path) -> None:
    text = page.read_text()
    if page.name == "gatewayctl.md":
        text = re.sub(r"^\| `(?=[a-z])", "| `gatewayctl ", text, flags=re.MULTILINE)
    assert {" ".join(words): missing for words in commands(text) if (missing := wrong(words))} == {}


def test_the_search_for_commands_finds_what_is_wrong() -> None:
    text = "`gateway explode FILE` and\n\n```sh\nA=1 gatewayctl config push x --force | cat\ngateway run\n```\n"
    assert [wrong(words) for words in commands(text)] == ["--force", "", "explode"]


@each_page
def test_every_metric_that_a_page_names_exists_with_its_labels_and_their_values(page: Path) -> None:
    instruments = {one.name: one for plane in (ControlMetrics(), GatewayMetrics()) for one in plane.instruments()}
    words = {"gateway_session", "gateway_oidc_state", "gateway_data", "gateway_control", *ERRORS, *KINDS}
    assert set(re.findall(r"\b(process_\w+_(?:seconds_total|bytes|fds|seconds))\b", page.read_text())) <= OF_THE_PROCESS
    for name, selector in re.findall(r"\b(gateway_[a-z_]+)\b(?:\{([^}]*)\})?", page.read_text()):
        plain = re.sub(r"_(bucket|sum|count)$", "", name)
        assert name in instruments or plain in instruments or name in words, name
        for label, sign, value in re.findall(r'(\w+)(?:([=!~]+)"([^"]*)")?(?:,|$)', selector):
            instrument = instruments.get(name) or instruments[plain]
            labels: tuple[str, ...] = instrument.labels  # type: ignore[attr-defined]
            assert label in labels, (name, label)
            bound = instrument._bounds[labels.index(label)]  # type: ignore[attr-defined]
            if bound is not None and sign in ("=", "!="):
                assert str(bound(int(value) if value.isdigit() else value)) == value, (name, label, value)


@each_page
def test_every_alert_that_a_page_names_exists(page: Path) -> None:
    groups = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yaml").read_text())["groups"]
    alerts = {rule["alert"] for group in groups for rule in group["rules"]}
    assert set(re.findall(r"`(Wicketgate\w+)`", page.read_text())) <= alerts


@each_page
def test_every_code_stands_beside_its_own_status(page: Path) -> None:
    answers = {(str(spec.status), code) for code, spec in ERRORS.items()}
    answers |= {(str(kind.status), code) for code, kind in KINDS.items()}
    assert set(re.findall(r"\b([45]\d\d) `([a-z_]+)`", page.read_text())) <= answers


@each_page
def test_every_file_of_the_repository_that_a_page_names_is_there(page: Path) -> None:
    named = re.findall(
        r"`((?:alembic|common|controlplane|dataplane|deploy|docs|openapi|tests)/[\w./*-]+)`", page.read_text()
    )
    # What `make-secrets` writes, or a person puts there.
    made = {f"deploy/compose/{name}" for name in ("secrets", ".env", "tls")}
    assert [name for name in named if name not in made and not list(ROOT.glob(name.rstrip("/")))] == []
