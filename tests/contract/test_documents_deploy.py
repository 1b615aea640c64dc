"""What the documents have an operator do with Helm, Docker, Compose, kubectl and systemd fits what `deploy/` holds."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.test_deploy_chart import CHART, LEAST, WITH_A_RESPONDER, objects
from tests.contract.test_documents_names import PAGES, ROOT, each_page, wrong
from tests.support.counterparts import require_package
from tests.support.deployments import DEPLOY, told
from tests.support.helm import ask_helm, render

DEPLOYMENT = ROOT / "docs/deployment.md"
CONTAINERFILE = (DEPLOY / "container/Containerfile").read_text()
UNITS = {path.stem: path.read_text() for path in (DEPLOY / "systemd").glob("*.service")}
# Comments in these say how they are used.
USED_BY_HAND = [path for path in DEPLOY.rglob("*") if path.name == "Containerfile" or path.suffix == ".yaml"]


def commands(program: str) -> list[list[str]]:
    """The words behind a program's name wherever it is shown, up to the next program of a pipe."""
    found = []
    for path in (*PAGES, *USED_BY_HAND):
        text = path.read_text().replace("\\\n", " ")
        for line in re.findall(rf"(?<![\w/-]){program} ([^`\n\"]+)", text):
            words = line.partition(" | ")[0].partition(" #")[0]
            # Otherwise it is a sentence that speaks of the program.
            if re.search(r" -|/", words):
                found.append(shlex.split(words))
    assert found
    return found


def options(words: list[str], name: str) -> list[str]:
    """The values of an option."""
    return [value for word, value in pairwise(words) if word == name]


def merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Values as Helm lays one file over another."""
    return under | {
        name: merged(under[name], value) if isinstance(value, dict) and isinstance(under.get(name), dict) else value
        for name, value in over.items()
    }


def values_shown() -> list[dict[str, Any]]:
    """The values of the page on deployment: the least, and each other example over them."""
    shown = re.findall(r"^```yaml\n(.*?)^```$", DEPLOYMENT.read_text(), re.MULTILINE | re.DOTALL)
    least, *others = [yaml.safe_load(text) for text in shown]
    return [least, *(merged(least, other) for other in others)]


@pytest.mark.parametrize("values", values_shown(), ids=["least", "secret", "authority", "responder"])
def test_the_chart_takes_every_example_of_its_values(values: dict[str, Any]) -> None:
    """`helm install` would render the same."""
    (command,) = [words for words in commands("helm") if words[0] == "install"]
    assert ROOT / command[2] == CHART
    assert options(command, "-f")
    linted = ask_helm("lint", CHART, values)
    assert (linted.returncode, linted.stderr) == (0, "")
    assert any(each["kind"] == "Deployment" for each in objects(values))


@each_page
def test_every_value_of_the_chart_that_a_page_names_exists(page: Path) -> None:
    known = yaml.safe_load((CHART / "values.yaml").read_text())
    for name in re.findall(rf"`((?:{'|'.join(known)})(?:\.[A-Za-z]+)+)`", page.read_text()):
        files = {f"{path.stem}.{path.suffix[1:]}" for path in DEPLOY.rglob("*")} | {"gateway.env"}
        if name not in files:
            reduce(lambda part, key: part[key], name.split("."), known)


def test_docker_builds_from_a_file_and_a_folder_that_are_there() -> None:
    for words in [each[1:] for each in commands("docker") if each[0] == "build"]:
        (file,) = options(words, "-f")
        assert (ROOT / file).read_text() == CONTAINERFILE
        assert (ROOT / words[-1] / ".dockerignore").is_file()


def test_each_argument_that_the_image_is_said_to_take_is_declared() -> None:
    arguments = dict(re.findall(r"--build-arg (\w+)=([\w.-]+)", DEPLOYMENT.read_text()))
    assert set(arguments) == set(re.findall(r"^ARG (\w+)=", CONTAINERFILE, re.MULTILINE))
    # The lock must be there for the builder, and a line of the Containerfile brings it in.
    assert re.search(rf"^COPY .*{re.escape(arguments['LOCK'])}", CONTAINERFILE, re.MULTILINE)


@pytest.mark.parametrize(
    "words", [each[1:] for each in commands("docker") if each[0] == "compose"], ids=lambda words: " ".join(words)
)
def test_compose_takes_the_command_and_has_the_files_and_services(words: list[str]) -> None:
    files = options(words, "-f")
    assert files
    services: set[str] = set()
    for file in files:
        services |= set(yaml.load((ROOT / file).read_text(), _Compose)["services"])
    rest = words[2 * len(files) :]
    help_text = told(require_package("docker-compose"), rest[0], "--help").stdout
    known = {option for line in help_text.splitlines() for option in re.findall(r"(?<![\w-])--?[a-z][\w-]*", line[:40])}
    for number, word in enumerate(rest[1:], start=1):
        if word.startswith("-"):
            assert word in known
        elif rest[number - 1] != "--since":
            assert word in services


class _Compose(yaml.SafeLoader):
    """Reads the tags by which one file of Compose overrides another."""


_Compose.add_multi_constructor("!", lambda loader, _, node: loader.construct_sequence(node))


def labelled() -> Iterator[tuple[str, dict[str, str]]]:
    """Each kind of object that a release has, with its labels, and the pods of its workloads."""
    for each in objects(WITH_A_RESPONDER):
        yield each["kind"].lower(), each["metadata"]["labels"]
        if each["kind"] in ("Deployment", "Job"):
            yield "pod", each["spec"]["template"]["metadata"]["labels"]


def test_kubectl_makes_each_secret_with_the_keys_that_its_program_is_given() -> None:
    least = values_shown()[0]
    made = {
        words[3]: {word.removeprefix("--from-file=") for word in words[4:]}
        for words in commands("kubectl") if words[:3] == ["create", "secret", "generic"]
    }  # fmt: skip
    wanted = [each["spec"]["template"]["spec"] for each in objects(least) if each["kind"] in ("Deployment", "Job")]
    secrets = [volume["secret"] for pod in wanted for volume in pod["volumes"] if "secret" in volume]
    assert made == {each["secretName"]: {item["key"] for item in each["items"]} for each in secrets}


@pytest.mark.parametrize(
    "words", [words for words in commands("kubectl") if words[0] != "create"], ids=lambda words: " ".join(words)
)
def test_kubectl_selects_what_the_chart_makes(words: list[str]) -> None:
    (selector,) = options(words, "-l")
    name, _, value = selector.partition("=")
    kind = {"logs": "pod", "rollout": words[2]}[words[0]]
    assert [labels[name] for each, labels in labelled() if each == kind and labels[name] == value] == ["gateway"]


def test_what_helm_prints_at_the_end_leads_to_the_control_plane() -> None:
    notes = render(CHART, LEAST)["NOTES.txt"]
    ((place, port),) = re.findall(r"kubectl port-forward service/(\S+) (\d+)", notes)
    (service,) = [each for each in objects(LEAST) if each["kind"] == "Service" and each["metadata"]["name"] == place]
    assert [each["port"] for each in service["spec"]["ports"]] == [int(port)]
    (command,) = re.findall(r"(?<= )gatewayctl .*", notes)
    assert wrong(command.split()) == ""
    assert re.search(r"^Wicketgate answers at https://app.example.com", notes)


@each_page
def test_every_unit_that_a_page_names_is_there_and_can_do_it(page: Path) -> None:
    for verb, unit in re.findall(r"(systemctl \w+|journalctl -u) (wicketgate-\w+)", page.read_text()):
        assert unit in UNITS
        assert verb != "systemctl reload" or "ExecReload=" in UNITS[unit]
