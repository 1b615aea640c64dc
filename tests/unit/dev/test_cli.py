"""The program `gateway`: what it knows, and that asking it for help costs little."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from dataplane.cli.app import build

COMMANDS = ("run", "dev", "check", "explain", "identity-key", "sessions")


def test_help_names_every_command_with_an_example() -> None:
    result = CliRunner().invoke(build(), ["--help"])
    assert result.exit_code == 0
    assert "gateway dev" in result.output
    for command in COMMANDS:
        assert command in result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example(command: str) -> None:
    result = CliRunner().invoke(build(), [command, "--help"])
    assert result.exit_code == 0
    assert f"gateway {command}" in result.output.partition("Examples:")[2]


def test_an_unknown_command_is_wrong_usage() -> None:
    assert CliRunner().invoke(build(), ["serve"]).exit_code == 2


def test_the_version_is_printed_alone() -> None:
    result = CliRunner().invoke(build(), ["--version"])
    assert result.exit_code == 0
    assert result.output.startswith("wicketgate ")
    assert result.output.count("\n") == 1


def test_no_other_command_brings_in_the_development_provider_or_a_web_framework() -> None:
    """A deployment's process should hold no code that lets anyone in."""
    script = (
        "import sys; from dataplane.cli.app import build; build(); import dataplane.gateway; "
        "print([name for name in sys.modules if name.startswith(('dataplane.dev', 'starlette', 'uvicorn'))])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True)
    assert result.stdout == "[]\n"
