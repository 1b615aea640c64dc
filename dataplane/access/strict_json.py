"""JSON read strictly: one meaning or none."""

from __future__ import annotations

import json
from typing import NoReturn


def strict_json(data: bytes) -> object:
    """The value that `data` spells, or `ValueError` with the reason.

    Refused beyond what the grammar of RFC 8259 refuses: bytes that are not UTF-8, a byte order mark, a name that
    stands twice in one object (two readers may each take another one), `NaN` and `Infinity`, and nesting that is
    deeper than the interpreter follows.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the name {json.dumps(twice[:64])} stands twice in one object")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
