"""The difference of two route tables, for people who read it and programs that act on it (CONTRACT §12.7).

    two documents -> canonical form -> settings field by field, routes by id -> TableDifference

What is compared is what was written: a default that is written out differs from one that is inherited, though the
routes behave alike, and a changed default is a change of the settings, not of the routes that inherit it. What carries
no meaning is no difference: the order of keys, of routes, and of lists that are sets. Pure, and linear in the size of
the documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from common.routetable.canonical import Document, Route, canonical, in_order, redacted_pair
from common.routetable.unified import Unified, compared, compared_entries, height, written

__all__ = ["Document", "FieldChange", "RouteChange", "TableDifference", "table_difference"]


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field that differs. None stands for a field that is not written: a table never holds null."""

    path: str
    """Inside its route, or inside the table for a setting: `match.methods`. A list is one field."""
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class RouteChange:
    """A route that both tables have, and its fields that differ."""

    id: str
    fields: tuple[FieldChange, ...]


@dataclass(frozen=True, slots=True)
class TableDifference:
    """Routes sorted by id, fields in the order of the schema. Credentials in URLs are redacted throughout.

    `dataclasses.asdict` gives the fields as the control plane's API names them.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[RouteChange, ...]
    settings: tuple[FieldChange, ...]
    """What differs outside the routes."""
    unified: str
    """Both canonical texts as a unified diff, `""` without a difference. Each hunk lies in one route, and names it."""

    def __bool__(self) -> bool:
        """Whether there is a difference."""
        return bool(self.unified)


def table_difference(
    before: Document | None, after: Document | None, *, names: tuple[str, str] = ("before", "after")
) -> TableDifference:
    """What turns `before` into `after`; None is the table of an empty store.

    There is no difference exactly when the canonical documents are equal. Raises nothing for tables that
    `load_route_table` takes. `names` stand in the head of the unified diff. Takes some 50 µs a route, 150 µs for one
    that changed: large tables are compared off the event loop.
    """
    old, new = _Table(before), _Table(after)
    ids = sorted(old.routes.keys() | new.routes.keys())
    pairs = [(route_id, *_shown_pair(old.routes.get(route_id), new.routes.get(route_id))) for route_id in ids]
    return TableDifference(
        added=tuple(route_id for route_id, was, _ in pairs if was is None),
        removed=tuple(route_id for route_id, _, now in pairs if now is None),
        changed=tuple(
            RouteChange(route_id, tuple(_fields(was, now)))
            for route_id, was, now in pairs
            if was is not None and now is not None and was != now
        ),
        settings=tuple(_fields(old.settings, new.settings)),
        unified=_unified(old, new, pairs).text(names),
    )


_Pair = tuple[str, Route | None, Route | None]


class _Table:
    """A canonical document, taken apart; the table of an empty store has neither settings nor routes."""

    def __init__(self, document: Document | None) -> None:
        self.exists = document is not None
        self.settings: dict[str, Any] = {} if document is None else canonical(document)
        self.routes: dict[str, Route] = {route["id"]: route for route in self.settings.pop("routes", ())}


def _shown_pair(before: Route | None, after: Route | None) -> tuple[Route | None, Route | None]:
    # Most routes of most pairs are the same, and are not shown.
    return (before, after) if before == after else redacted_pair(before, after)


def _fields(before: Any, after: Any, path: str = "") -> Iterator[FieldChange]:
    if before == after:
        return
    old, new = _as_object(before, after), _as_object(after, before)
    if old is None or new is None:
        yield FieldChange(path, before, after)
        return
    for key in in_order(old, new):
        yield from _fields(old.get(key), new.get(key), f"{path}.{key}" if path else key)


def _as_object(value: Any, other: Any) -> dict[str, Any] | None:
    """The value to be compared key by key: an object, or nothing where the other one has keys to show."""
    if isinstance(value, dict):
        return value
    return {} if value is None and isinstance(other, dict) and other else None


def _unified(old: _Table, new: _Table, pairs: list[_Pair]) -> Unified:
    unified = Unified()
    if old.exists != new.exists:
        mark, whole = ("+", new) if new.exists else ("-", old)
        routes = [was or now for _, was, now in pairs]
        unified.add("the whole table", [(mark, line) for line in written({**whole.settings, "routes": routes}, 0)])
        return unified
    unified.skip(1)  # the bracket around everything
    unified.add("settings", list(compared_entries(old.settings, new.settings, 1)))
    unified.skip(1)  # the line of "routes"
    for route_id, was, now in pairs:
        if was == now:
            unified.skip(height(was))
        else:
            unified.add(f"route {route_id}", list(compared(was, now, 2)))
    return unified
