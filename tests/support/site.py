"""The documentation as a site, built as `make docs` builds it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.deployments import DEPLOY


def build_site(folder: Path) -> Path:
    """Build it into a folder; a warning of any kind fails."""
    program = Path(sys.executable).with_name("mkdocs")
    built = subprocess.run(
        [program, "build", "--strict", "--quiet", "-f", DEPLOY / "docs/mkdocs.yml", "-d", folder],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder
