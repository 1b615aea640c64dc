"""What the documents show works when it is done as shown."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dataplane.cli.app import build

ROOT = Path(__file__).parents[2]


@pytest.fixture
def quickstart_table(tmp_path: Path) -> Path:
    (block,) = re.findall(r"```json\n(.*?)```", (ROOT / "docs/quickstart.md").read_text(), re.DOTALL)
    json.loads(block)
    table = tmp_path / "routes.json"
    table.write_text(block)
    return table


def test_the_table_of_the_quick_start_is_valid(quickstart_table: Path) -> None:
    result = CliRunner().invoke(build(), ["check", str(quickstart_table)])
    assert result.exit_code == 0, result.output


def test_the_quick_starts_question_is_answered(quickstart_table: Path) -> None:
    arguments = ["explain", str(quickstart_table), "GET", "http://localhost:8080/hello"]
    result = CliRunner().invoke(build(), arguments)
    assert result.exit_code == 0, result.output
    assert "everything" in result.output


def test_the_script_says_what_it_can_do() -> None:
    told = subprocess.run([ROOT / "deploy/run", "help"], capture_output=True, text=True, timeout=20, check=True).stdout
    for command in ("dev", "test", "check", "bench", "setup"):
        assert f"\n  {command} " in told


def test_an_unknown_command_of_the_script_is_wrong_usage() -> None:
    result = subprocess.run([ROOT / "deploy/run", "deploy"], capture_output=True, text=True, timeout=20, check=False)
    assert result.returncode == 2
    assert "deploy/run COMMAND" in result.stderr


def test_an_old_python_is_named_and_changes_nothing(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    result = subprocess.run(
        [ROOT / "deploy/run", "dev"],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        env={"PATH": "/usr/bin:/bin", "PYTHON": str(old), "VENV": str(tmp_path / "venv")},
    )
    assert result.returncode == 1
    assert f"PYTHON={old} is not a Python 3.11 or later" in result.stderr
    assert not (tmp_path / "venv").exists()


def test_make_lists_its_targets() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):.*## ", makefile, re.MULTILINE))
    assert targets >= {"dev", "check", "test", "bench", "lock", "clean", "help"}
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert set(phony.split()) == targets
