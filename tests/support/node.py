"""Node.js and the npm packages under tests/support/node: the real provider, and verifiers in another language."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.counterparts import find_program, missing

MODULES = Path(__file__).parent / "node"
"""Where the tests' own package.json stands; `npm ci` fills its node_modules."""

OLDEST_MAJOR = 20
"""oidc-provider 9 needs what Node.js 20.19 brought."""


@functools.cache
def find_node() -> tuple[str, int] | None:
    """The path and major version of a Node.js that is new enough, None without one.

    The environment's own is taken first: `deploy/run test` puts one there where the system's is missing or too old.
    """
    here = Path(sys.prefix) / "bin" / "node"
    candidates = [str(here) if here.exists() else None, find_program("node"), find_program("nodejs")]
    for program in candidates:
        if program is None:
            continue
        try:
            told = subprocess.run(
                [program, "--version"], capture_output=True, text=True, timeout=10, check=False
            ).stdout
        except (OSError, subprocess.TimeoutExpired):
            continue
        match = re.match(r"v(\d+)\.", told)
        if match is not None and int(match[1]) >= OLDEST_MAJOR:
            return program, int(match[1])
    return None


def require_node() -> str:
    """The path of a Node.js that is new enough; without one the test fails in CI and skips elsewhere."""
    found = find_node()
    if found is None:
        missing("node", f"no Node.js {OLDEST_MAJOR} or later")
    return found[0]


def require_module(name: str, folder: Path = MODULES) -> Path:
    """The folder of an installed npm package; without it the test fails in CI and skips elsewhere."""
    module = folder / "node_modules" / name
    if not (module / "package.json").exists():
        missing("node", f"npm package {name} is not installed in {folder.name} (`npm ci` there, or `deploy/run test`)")
    return module


def node_environment() -> dict[str, str]:
    """The environment for a Node.js child: no options of the developer's leak in, warnings stay readable."""
    keep = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL")
    return {**{name: os.environ[name] for name in keep if name in os.environ}, "NO_COLOR": "1"}
