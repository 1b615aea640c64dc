"""Route-table revisions and the audit trail on Postgres (`common.state.table_store`)."""

from __future__ import annotations

from dataclasses import astuple

from common.state.postgres.asking import Asking
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

_HIGHEST = 2**63 - 1

LIST_REVISIONS = (
    "SELECT revision, time_ms, operator, action FROM revisions WHERE revision < $1 ORDER BY revision DESC LIMIT $2"
)


class PostgresRouteTable:
    """Implements `RouteTableWriter`; with the data plane's credentials only what `RouteTableReader` has succeeds."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def read_table(self, known_revision: int = 0) -> ActiveTable:
        """See `RouteTableReader.read_table`."""
        with self._asking.measure("read_table"):
            rows = await self._asking.rows("SELECT * FROM read_table($1)", known_revision)
            return ActiveTable(*rows[0]) if rows else ActiveTable(0, None)

    async def move_pointer(self, expected: int, document: bytes, entry: NewAuditEntry) -> PointerMove:
        """See `RouteTableWriter.move_pointer`."""
        with self._asking.measure("move_pointer"):
            rows = await self._asking.rows(
                "SELECT * FROM move_pointer($1, $2, $3, $4, $5, $6, $7, $8)", expected, document, *astuple(entry)
            )
            return PointerMove(*rows[0])

    async def read_revision(self, revision: int) -> tuple[Revision, bytes] | None:
        """See `RouteTableWriter.read_revision`."""
        with self._asking.measure("read_revision"):
            rows = await self._asking.rows(
                "SELECT revision, time_ms, operator, action, document FROM revisions WHERE revision = $1", revision
            )
            return (Revision(*rows[0][:4]), rows[0][4]) if rows else None

    async def list_revisions(self, before: int | None, limit: int) -> list[Revision]:
        """See `RouteTableWriter.list_revisions`."""
        with self._asking.measure("list_revisions"):
            rows = await self._asking.rows(LIST_REVISIONS, _HIGHEST if before is None else before, limit)
            return [Revision(*row) for row in rows]

    async def append_audit(self, entry: NewAuditEntry) -> AuditEntry:
        """See `RouteTableWriter.append_audit`."""
        with self._asking.measure("append_audit"):
            rows = await self._asking.rows("SELECT * FROM append_audit($1, $2, $3, $4, $5, $6)", *astuple(entry))
            return AuditEntry(*rows[0], *astuple(entry))

    async def list_audit(self, before: int | None, limit: int, only: AuditFilter = ALL_ENTRIES) -> AuditPage:
        """See `RouteTableWriter.list_audit`."""
        asked = {"action": only.action, "operator": only.operator}
        asked = {column: value for column, value in asked.items() if value}
        with self._asking.measure("list_audit"):
            rows = await self._asking.rows(
                audit_statement(*asked),
                limit + 1,
                _HIGHEST if before is None else before - 1,
                only.from_ms,
                only.to_ms,
                *asked.values(),
            )
            entries = tuple(AuditEntry(*row) for row in rows[:limit])
            return AuditPage(entries, entries[-1].id if len(rows) > limit else None)


def audit_statement(*columns: str) -> str:
    """Entries by the values of some columns ($5 and on), newest first: at most $1, from number $2 on, from time $3
    (in) to $4 (out).

    Time never falls with the number, so both ends of a span are numbers. All of it is one stretch of the index over
    the columns and the number; comparing whole rows leaves the planner no other way, whatever it thinks is frequent.
    """
    by = ", ".join((*columns, "id"))
    values = "".join(f"${place}, " for place in range(5, 5 + len(columns)))
    after = "SELECT id FROM audit WHERE time_ms < $3 ORDER BY time_ms DESC, id DESC LIMIT 1"
    until = "SELECT id - 1 FROM audit WHERE time_ms >= $4 ORDER BY time_ms, id LIMIT 1"
    return (
        "SELECT id, time_ms, action, target, operator, scope, client, request_id FROM audit "  # noqa: S608
        f"WHERE ({by}) > ({values}coalesce(({after}), 0)) AND ({by}) <= ({values}least($2, ({until}))) "
        f"ORDER BY {by.replace(',', ' DESC,')} DESC LIMIT $1"
    )
