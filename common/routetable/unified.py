"""A unified diff of canonical documents, made from their structure: linear in their size, whatever they hold.

A general line diff is quadratic in bad cases and may pair the brackets of different routes. Here keys are compared with
their like and routes by id, so each hunk lies in one route and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

from common.json_text import json_text
from common.routetable.canonical import SETS, in_order
from common.telemetry.redact import escape_controls

CONTEXT_LINES = 3

Line = tuple[str, str]
"""A mark (`" "`, `"-"`, `"+"`) and a line of a canonical text."""


class Unified:
    """The hunks of two texts that are walked side by side from their first lines."""

    def __init__(self) -> None:
        self.hunks: list[str] = []
        self._before = 1
        self._after = 1

    def skip(self, lines: int) -> None:
        """Pass lines that both texts have and that are no context of anything."""
        self._before += lines
        self._after += lines

    def add(self, heading: str, lines: list[Line]) -> None:
        """Pass lines of which some differ; each of their hunks bears the heading."""
        at = 0
        for start, end in _spans(lines):
            self.skip(start - at)
            self._hunk(heading, lines[start:end])
            at = end
        self.skip(len(lines) - at)

    def text(self, names: tuple[str, str]) -> str:
        """The whole diff, `""` when nothing differed."""
        if not self.hunks:
            return ""
        heads = (f"{mark} {escape_controls(name)}" for mark, name in zip(("---", "+++"), names, strict=True))
        return "\n".join([*heads, *self.hunks, ""])

    def _hunk(self, heading: str, lines: list[Line]) -> None:
        before = sum(mark != "+" for mark, _ in lines)
        after = sum(mark != "-" for mark, _ in lines)
        places = f"-{_range(self._before, before)} +{_range(self._after, after)}"
        self.hunks += [f"@@ {places} @@ {heading}", *(mark + line for mark, line in lines)]
        self._before += before
        self._after += after


def written(value: Any, depth: int, key: str | None = None) -> Iterator[str]:
    """The lines of a value. Every entry ends in a comma, so that a new last one touches no other line."""
    indent = "  " * depth
    name = "" if key is None else f"{_scalar(key)}: "
    if isinstance(value, dict):
        yield f"{indent}{name}{{"
        for inner in in_order(value):
            yield from written(value[inner], depth + 1, inner)
        yield f"{indent}}},"
    elif isinstance(value, list):
        yield f"{indent}{name}["
        for item in value:
            yield from written(item, depth + 1)
        yield f"{indent}],"
    else:
        yield f"{indent}{name}{_scalar(value)},"


def height(value: Any) -> int:
    """How many lines `written` makes."""
    if isinstance(value, dict):
        return 2 + sum(map(height, value.values()))
    return 2 + sum(map(height, value)) if isinstance(value, list) else 1


def compared(before: Any, after: Any, depth: int, key: str | None = None) -> Iterator[Line]:
    """The lines of two values at one place, None for none: those of both once, what differs marked."""
    indent = "  " * depth
    name = "" if key is None else f"{_scalar(key)}: "
    if before == after:
        yield from ((" ", line) for line in written(before, depth, key))
    elif isinstance(before, dict) and isinstance(after, dict):
        yield " ", f"{indent}{name}{{"
        yield from compared_entries(before, after, depth + 1)
        yield " ", f"{indent}}},"
    elif isinstance(before, list) and isinstance(after, list):
        yield " ", f"{indent}{name}["
        items = _compared_sets(before, after) if key in SETS else _compared_sequences(before, after)
        yield from ((mark, line) for mark, item in items for line in written(item, depth + 1))
        yield " ", f"{indent}],"
    else:
        for mark, value in (("-", before), ("+", after)):
            if value is not None:
                yield from ((mark, line) for line in written(value, depth, key))


def compared_entries(before: dict[str, Any], after: dict[str, Any], depth: int) -> Iterator[Line]:
    """The lines of two objects, without the brackets around them."""
    for key in in_order(before, after):
        yield from compared(before.get(key), after.get(key), depth, key)


def _compared_sets(before: list[str], after: list[str]) -> Iterator[tuple[str, str]]:
    old, new = set(before), set(after)
    for item in sorted(old | new):
        yield ("+" if item not in old else "-" if item not in new else " "), item


def _compared_sequences(before: list[str], after: list[str]) -> Iterator[tuple[str, str]]:
    """Upstreams: a table bounds their number, so a quadratic comparison is cheap."""
    for kind, from_old, to_old, from_new, to_new in SequenceMatcher(None, before, after, False).get_opcodes():
        if kind == "equal":
            yield from ((" ", item) for item in before[from_old:to_old])
            continue
        yield from (("-", item) for item in before[from_old:to_old])
        yield from (("+", item) for item in after[from_new:to_new])


def _spans(lines: list[Line]) -> Iterable[tuple[int, int]]:
    """Where the hunks begin and end: each change with its context, joined where two contexts meet."""
    changes = [index for index, (mark, _) in enumerate(lines) if mark != " "]
    if not changes:
        return
    start = changes[0]
    for index, following in pairwise([*changes, len(lines) + 3 * CONTEXT_LINES]):
        if following - index > 2 * CONTEXT_LINES:
            yield max(start - CONTEXT_LINES, 0), min(index + 1 + CONTEXT_LINES, len(lines))
            start = following


def _range(first: int, count: int) -> str:
    """An empty range stands behind the line that it names."""
    return f"{first if count else first - 1},{count}"


def _scalar(value: Any) -> str:
    return json_text(value)
