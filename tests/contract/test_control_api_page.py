"""docs/control-api.md is what the code of the control plane makes of itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from controlplane.app import build_api
from controlplane.openapi import openapi
from controlplane.reference import control_api_reference

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "control-api.md"


def test_the_page_is_the_one_that_the_code_makes() -> None:
    """Otherwise run: python -m controlplane.reference docs/control-api.md."""
    assert PAGE.read_text(encoding="utf-8") == control_api_reference(build_api())


def test_every_operation_is_on_it_with_who_may_use_it() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for path, methods in openapi(build_api())["paths"].items():
        for method in methods:
            assert f"`{method.upper()} {path}`. " in page
    assert "`PUT /v1/config`. Scope: `config`." in page
    assert "`DELETE /v1/sessions/{handle}`. Scope: `operate`." in page


def test_the_generator_writes_the_page(tmp_path: Path) -> None:
    target = tmp_path / "control-api.md"
    subprocess.run([sys.executable, "-m", "controlplane.reference", str(target)], check=True, cwd=ROOT, timeout=60)
    assert target.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
