"""Route-table revisions and the audit trail on Redis (`common.state.table_store`).

All keys share a hash tag, so in a cluster too a revision, the pointer and the audit entry are written by one script.
"""

from __future__ import annotations

from common.state.ports import StateUnavailable
from common.state.redis.asking import Asking
from common.state.redis.records import Foreign, audit_payload, read_audit_record
from common.state.redis.scripts import APPEND_AUDIT, LIST_AUDIT, LIST_REVISIONS, MOVE_POINTER, READ_TABLE
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

_LOOKED_AT_MOST = 2_000
"""Entries of the trail looked at for one page: other clients wait for these few milliseconds."""


class RedisRouteTable:
    """Implements `RouteTableWriter`; with the data plane's credentials only what `RouteTableReader` has succeeds."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def read_table(self, known_revision: int = 0) -> ActiveTable:
        """See `RouteTableReader.read_table`. A pointer or revision that is not ours is `StateUnavailable`: an empty
        store would fall back to the file, and a damaged one may not.
        """
        asking, keys = self._asking, self._asking.keys
        with asking.measure("read_table") as measured:
            foreign, revision, *document = await asking.script(
                READ_TABLE, (keys.active,), known_revision, keys.revision_prefix
            )
            measured.found_foreign(foreign)
            if foreign:
                raise StateUnavailable(f"the pointer or revision {revision} of the route table is damaged")
            return ActiveTable(revision, document[0] if document else None)

    async def move_pointer(self, expected: int, document: bytes, entry: NewAuditEntry) -> PointerMove:
        """See `RouteTableWriter.move_pointer`."""
        asking, keys = self._asking, self._asking.keys
        with asking.measure("move_pointer"):
            moved, revision = await asking.script(
                MOVE_POINTER,
                (keys.active, keys.history, f"{keys.revision_prefix}{expected + 1}", keys.audit, keys.audit_count),
                expected,
                document,
                entry.operator,
                entry.action,
                audit_payload(entry),
                keys.hints,
            )
            return PointerMove(bool(moved), revision)

    async def read_revision(self, revision: int) -> tuple[Revision, bytes] | None:
        """See `RouteTableWriter.read_revision`."""
        asking = self._asking
        key = f"{asking.keys.revision_prefix}{revision}".encode()
        with asking.measure("read_revision") as measured:
            values = await asking.command(key, "HMGET", key, "document", "time", "operator", "action")
            if values[0] is None:
                return None
            try:
                return _revision(revision, *values[1:]), values[0]
            except Foreign:
                measured.found_foreign()
                return None

    async def list_revisions(self, before: int | None, limit: int) -> list[Revision]:
        """See `RouteTableWriter.list_revisions`."""
        asking, keys = self._asking, self._asking.keys
        with asking.measure("list_revisions") as measured:
            foreign, *values = await asking.script(
                LIST_REVISIONS, (keys.history,), before or 0, limit, keys.revision_prefix
            )
            measured.found_foreign(foreign)
            return [_revision(*four) for four in zip(*[iter(values)] * 4, strict=True)]

    async def append_audit(self, entry: NewAuditEntry) -> AuditEntry:
        """See `RouteTableWriter.append_audit`."""
        asking, keys = self._asking, self._asking.keys
        with asking.measure("append_audit"):
            number, time_ms = await asking.script(APPEND_AUDIT, (keys.audit, keys.audit_count), audit_payload(entry))
            return AuditEntry(
                number, time_ms, entry.action, entry.target, entry.operator, entry.scope, entry.client, entry.request_id
            )

    async def list_audit(self, before: int | None, limit: int, only: AuditFilter = ALL_ENTRIES) -> AuditPage:
        """See `RouteTableWriter.list_audit`."""
        asking, keys = self._asking, self._asking.keys
        if before is not None and before <= 1:
            return AuditPage((), None)
        with asking.measure("list_audit") as measured:
            foreign, next_before, *values = await asking.script(
                LIST_AUDIT,
                (keys.audit,),
                before or 0,
                limit,
                only.action,
                only.operator,
                "" if only.from_ms is None else only.from_ms,
                "" if only.to_ms is None else only.to_ms,
                _LOOKED_AT_MOST,
            )
            measured.found_foreign(foreign)
            found = []
            for value in values:
                try:
                    found.append(read_audit_record(value))
                except Foreign:
                    measured.found_foreign()
            return AuditPage(tuple(found), next_before or None)


def _revision(number: int, time_ms: bytes | None, operator: bytes | None, action: bytes | None) -> Revision:
    try:
        if time_ms is None or operator is None or action is None:
            raise Foreign("a revision")
        return Revision(int(number), int(time_ms), operator.decode(), action.decode())
    except ValueError:
        raise Foreign("a revision") from None
