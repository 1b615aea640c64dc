"""What every program has in common."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAMS = (
    "dataplane.cli.app:build()",
    "dataplane.accessservice.cli:app",
    "controlplane.cli:build()",
    "controlplane.ctl.app:build()",
)
HEAVY = (
    "alembic", "asyncpg", "cryptography", "fastapi", "h11", "httpx", "redis", "rich", "sqlalchemy",
    "starlette", "uvicorn",
)  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_asking_for_help_loads_nothing_that_only_the_work_needs(program: str) -> None:
    """A person who looks something up waits a fifth of a second; with all of it, up to seven times as long."""
    module, _, app = program.partition(":")
    script = (
        f"import sys; from typer.testing import CliRunner; from {module} import {app.removesuffix('()')} as app;"
        f"result = CliRunner().invoke({'app()' if app.endswith('()') else 'app'}, ['--help']);"
        "assert result.exit_code == 0 and 'Usage: ' in result.output;"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "[]\n"
