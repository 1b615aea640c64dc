"""Route-table revisions and the audit trail in this process's memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple

from common.state.table_store import ActiveTable, AuditEntry, NewAuditEntry, PointerMove, Revision


class MemoryRouteTable:
    """Implements `RouteTableWriter`; for one process that is both planes, and for tests of either."""

    _now_ms: Callable[[], int]

    def __init__(self) -> None:
        self._revisions: list[tuple[Revision, bytes]] = []
        self._audit: list[AuditEntry] = []

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

    async def list_audit(self, before: int | None, limit: int) -> list[AuditEntry]:
        """See `RouteTableWriter.list_audit`."""
        newest = len(self._audit) if before is None else min(before - 1, len(self._audit))
        return [self._audit[place - 1] for place in range(newest, max(newest - limit, 0), -1)]

    def _append(self, entry: NewAuditEntry) -> AuditEntry:
        stored = AuditEntry(len(self._audit) + 1, self._now_ms(), *astuple(entry))
        self._audit.append(stored)
        return stored
