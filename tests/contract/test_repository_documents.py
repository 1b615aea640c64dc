"""What the documents show works when it is done as shown."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


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
