"""docs/configuration.md is what the tables of variables make of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from common.settings.reference import configuration_reference
from common.settings.variables import VARIABLES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "configuration.md"


def test_the_reference_is_the_one_that_the_tables_make() -> None:
    """Otherwise run: python -m common.settings.reference docs/configuration.md."""
    assert PAGE.read_text(encoding="utf-8") == configuration_reference()


def test_every_variable_has_a_row_and_a_meaning() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for variable in VARIABLES:
        assert f"| `{variable.name}`" in page
        assert variable.meaning.endswith(".")


def test_the_generator_writes_the_page(tmp_path: Path) -> None:
    target = tmp_path / "configuration.md"
    subprocess.run([sys.executable, "-m", "common.settings.reference", str(target)], check=True, cwd=ROOT, timeout=60)
    assert target.read_text(encoding="utf-8") == configuration_reference()
