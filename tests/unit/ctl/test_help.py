"""`gatewayctl` and its help: complete, by example, and cheap to ask for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controlplane.ctl.app import build
from tests.support.ctl import COMMANDS, examples_of, help_of


def test_help_names_every_command_and_variable_and_the_exit_codes() -> None:
    text = " ".join(help_of("").split())
    for word in ("config", "replicas", "sessions", "audit", "GATEWAYCTL_URL", "GATEWAYCTL_TOKEN_FILE", "GATEWAYCTL_CA"):
        assert word in text
    assert "Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 conflict." in text


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_examples_of_itself_and_takes_json(command: str) -> None:
    examples = examples_of(command)
    assert len(examples) >= 2
    assert all(example[: len(command.split())] == command.split() for example in examples)
    assert "--json" in help_of(command)


@pytest.mark.parametrize(
    "arguments", [["serve"], ["config"], ["config", "pull"], ["replicas", "--token", "x"], ["config", "rollback", "0"]]
)
def test_what_is_no_command_is_wrong_usage(arguments: list[str]) -> None:
    assert CliRunner().invoke(build(), arguments).exit_code == 2


def test_the_version_is_printed_alone() -> None:
    result = CliRunner().invoke(build(), ["--version"])
    assert result.exit_code == 0
    assert re.fullmatch(r"wicketgate \S.*\n", result.stdout)


def test_the_page_names_every_command_with_its_options() -> None:
    page = (Path(__file__).parents[3] / "docs" / "gatewayctl.md").read_text()
    for command in COMMANDS:
        (row,) = re.findall(rf"^\| `{command}\b.*", page, re.MULTILINE)
        options = set(re.findall(r"--[a-z]+", help_of(command))) - {"--help", "--json", "--limit", "--timeout"}
        assert set(re.findall(r"--[a-z]+", row.split(" | ")[0])) == options
