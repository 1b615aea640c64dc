"""A hook of MkDocs: puts every decision into the navigation, in the order of their numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Fill `Decisions`, the last entry of the navigation's last section."""
    (*_, design) = config["nav"]
    found = sorted(Path(config["docs_dir"], "decisions").glob("*.md"))
    design["Design"][-1] = {"Decisions": [f"decisions/{path.name}" for path in found]}
    return config
