"""Route-table revisions and the audit trail in this process's memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import astuple

from common.state.hints import Wake
from common.state.table_store import (
    ALL_ENTRIES,
    ActiveTable,
    AuditEntry,
    AuditFilter,
    AuditPage,
    NewAuditEntry,
    PointerMove,
    Revision,
)

_LOOKED_AT_MOST = 10_000
"""Entries of the trail looked at for one page: a few milliseconds."""


class MemoryRouteTable:
    """Implements `RouteTableWriter`; for one process that is both planes, and for tests of either."""

    _now_ms: Callable[[], int]

    def __init__(self) -> None:
        self._revisions: list[tuple[Revision, bytes]] = []
        self._audit: list[AuditEntry] = []
        self._wakes: list[Wake] = []

    def on_hint(self, wake: Wake) -> None:
        """See `HintSource.on_hint`."""
        self._wakes.append(wake)

    def _hint(self) -> None:
        for wake in self._wakes:
            wake()

    async def read_table(self, known_revision: int = 0) -> ActiveTable:
        """See `RouteTableReader.read_table`."""
        active = len(self._revisions)
        return ActiveTable(active, None if active in (0, known_revision) else self._revisions[-1][1])

    async def move_pointer(self, expected: int, document: bytes, entry: NewAuditEntry) -> PointerMove:
        """See `RouteTableWriter.move_pointer`."""
        active = len(self._revisions)
        if active != expected:
            return PointerMove(moved=False, revision=active)
        self._revisions.append((Revision(active + 1, self._now_ms(), entry.operator, entry.action), document))
        self._append(entry)
        self._hint()
        return PointerMove(moved=True, revision=active + 1)

    async def read_revision(self, revision: int) -> tuple[Revision, bytes] | None:
        """See `RouteTableWriter.read_revision`."""
        return self._revisions[revision - 1] if 0 < revision <= len(self._revisions) else None

    async def list_revisions(self, before: int | None, limit: int) -> list[Revision]:
        """See `RouteTableWriter.list_revisions`."""
        newest = len(self._revisions) if before is None else min(before - 1, len(self._revisions))
        return [self._revisions[place - 1][0] for place in range(newest, max(newest - limit, 0), -1)]

    async def append_audit(self, entry: NewAuditEntry) -> AuditEntry:
        """See `RouteTableWriter.append_audit`."""
        return self._append(entry)

    async def list_audit(self, before: int | None, limit: int, only: AuditFilter = ALL_ENTRIES) -> AuditPage:
        """See `RouteTableWriter.list_audit`."""
        audit = self._audit
        newest = len(audit) if before is None else min(max(before - 1, 0), len(audit))
        if only.to_ms is not None:
            newest = min(newest, bisect_left(audit, only.to_ms, key=_time_of))
        oldest = 0 if only.from_ms is None else bisect_left(audit, only.from_ms, key=_time_of)
        last = max(oldest, newest - _LOOKED_AT_MOST)
        found: list[AuditEntry] = []
        for place in range(newest, last, -1):
            entry = audit[place - 1]
            if only.action in ("", entry.action) and only.operator in ("", entry.operator):
                if len(found) == limit:
                    return AuditPage(tuple(found), found[-1].id)
                found.append(entry)
        return AuditPage(tuple(found), last + 1 if last > oldest else None)

    def _append(self, entry: NewAuditEntry) -> AuditEntry:
        time_ms = max(self._now_ms(), self._audit[-1].time_ms if self._audit else 0)
        stored = AuditEntry(len(self._audit) + 1, time_ms, *astuple(entry))
        self._audit.append(stored)
        return stored


def _time_of(entry: AuditEntry) -> int:
    return entry.time_ms
