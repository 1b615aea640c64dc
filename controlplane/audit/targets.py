"""What an audit entry says that something was done to."""

from __future__ import annotations

import orjson


def named(**values: str | None) -> str:
    """The values that are there, by name, such as `subject "ada", workspace "w"`.

    Each is a JSON string: whatever it holds, it reads as one value, and equal targets mean the same.
    """
    return ", ".join(f"{name} {orjson.dumps(value).decode()}" for name, value in values.items() if value is not None)
