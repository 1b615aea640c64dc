"""What the documents call by a name exists: variables, commands and their options, metrics, codes, log lines, files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

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


@each_page
def test_every_variable_that_a_page_names_exists(page: Path) -> None:
    # What Kubernetes injects is told as what is ignored.
    named = re.findall(r"\b((?:GATEWAY(?:CTL)?|ACCESS)_[A-Z0-9_]*[A-Z0-9])\b(?![…*<_])", page.read_text())
    assert {name for name in named if "_SERVICE_" not in name} <= KNOWN


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
def test_every_code_stands_beside_its_own_status(page: Path) -> None:
    answers = {(str(spec.status), code) for code, spec in ERRORS.items()}
    answers |= {(str(kind.status), code) for code, kind in KINDS.items()}
    assert set(re.findall(r"\b([45]\d\d) `([a-z_]+)`", page.read_text())) <= answers


@each_page
def test_every_line_of_the_log_that_a_page_quotes_is_written(page: Path) -> None:
    source = "\n".join(path.read_text() for part in ("common", "dataplane") for path in (ROOT / part).rglob("*.py"))
    text = page.read_text()
    quoted = re.findall(r'"msg": "([^"]+)"', text) + re.findall(r'\.msg [!=]= "([^"]+)"', text)
    quoted += re.findall(r'\.msg \| startswith\("([^"]+)"', text)
    assert [line for line in quoted if f'"{line}' not in source] == []


@each_page
def test_every_file_of_the_repository_that_a_page_names_is_there(page: Path) -> None:
    named = re.findall(
        r"`((?:alembic|common|controlplane|dataplane|deploy|docs|openapi|tests)/[\w./*-]+)`", page.read_text()
    )
    # What `make-secrets` writes, or a person puts there.
    made = {f"deploy/compose/{name}" for name in ("secrets", ".env", "tls")}
    assert [name for name in named if name not in made and not list(ROOT.glob(name.rstrip("/")))] == []


@pytest.mark.parametrize(
    ("quoted", "written"),
    [
        ("session: missing", 'f"session: {refused.reason}"'),
        ("iss is another issuer", '"iss is another issuer"'),
        ("aud is not this audience", '"aud is not this audience"'),
        ("no key of the provider made its signature", '"no key of the provider made its signature"'),
        ("Access denied: missing_role", 'f"Access denied: {decision.reason}"'),
        ("certificates refused", '"certificates refused,'),
        ("the shared state on redis does not answer; callers", "does not answer; callers who need it are denied"),
    ],
)
def test_the_causes_that_incidents_are_told_by_are_given(quoted: str, written: str) -> None:
    """Somebody searches the log for these words."""
    assert quoted in (ROOT / "docs/incidents.md").read_text()
    assert any(written in path.read_text() for path in [*ROOT.glob("dataplane/**/*.py"), *ROOT.glob("common/**/*.py")])
