"""Cached decisions on Redis (`common.state.ports.DecisionStore`), and their end by an operator."""

from __future__ import annotations

import asyncio

from common.state.ports import Decision, DecisionKey
from common.state.redis.asking import Asking
from common.state.redis.link import Link
from common.state.redis.reads import Reads
from common.state.redis.records import audit_payload, read_decision_record
from common.state.redis.scripts import RAISE_DROPS, WRITE_DECISION
from common.state.table_store import NewAuditEntry

_SCANNED_AT_ONCE = 1_000
"""Keys that one SCAN looks at: other clients wait for a fraction of a millisecond."""


class RedisDecisions:
    """Implements `DecisionStore`, `DecisionDrops` and `DecisionAdministration`.

    The name of a decision's key says whose it is, so no index is kept where decisions are written; to drop some, all
    keys are gone through.
    """

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._decision_reads: Reads[DecisionKey, Decision] = Reads(
            asking, "read_decision", asking.keys.decision, _read_record, together=False
        )

    def read_decision(self, key: DecisionKey) -> asyncio.Future[Decision | None]:
        """See `DecisionStore.read_decision`."""
        return self._decision_reads.ask(key)

    async def write_decision(
        self, key: DecisionKey, *, allow: bool, reason_code: str, asked_at_ms: int, keep_ms: int
    ) -> None:
        """See `DecisionStore.write_decision`."""
        asking = self._asking
        with asking.measure("write_decision") as measured:
            now, foreign = await asking.script(
                WRITE_DECISION, (asking.keys.decision(key),), int(allow), reason_code, asked_at_ms, keep_ms
            )
            asking.clock.heard(now)
            measured.found_foreign(foreign)

    async def drop_decisions(self, subject: str | None, workspace_id: str | None, entry: NewAuditEntry) -> int:
        """See `DecisionAdministration.drop_decisions`."""
        asking, keys = self._asking, self._asking.keys
        pattern = keys.decisions_of(subject, workspace_id)
        with asking.measure("drop_decisions") as measured:
            masters = asking.servers.masters()
            foreign, _ = await asking.script(
                RAISE_DROPS, (keys.drops, keys.audit, keys.audit_count), keys.hints, audit_payload(entry)
            )
            measured.found_foreign(foreign)
            dropped = await asyncio.gather(*(self._drop(master, pattern) for master in masters))
            # Who forgot when it was raised first may have read one that was still there.
            await asking.script(RAISE_DROPS, (keys.drops,), keys.hints)
            return sum(dropped)

    async def _drop(self, master: Link, pattern: str) -> int:
        """Unlink what a master has of a pattern; how many there were."""
        asking = self._asking
        dropped, cursor = 0, b"0"
        while True:
            cursor, names = asking.answer(
                await master.execute("SCAN", cursor, "MATCH", pattern, "COUNT", _SCANNED_AT_ONCE)
            )
            # One by one, since in a cluster each lies in a slot of its own; they travel together.
            gone = await asyncio.gather(*(asking.command(name, "UNLINK", name) for name in names))
            dropped += sum(int(each) for each in gone)
            if cursor == b"0":
                return dropped

    async def decisions_dropped(self) -> int:
        """See `DecisionDrops.decisions_dropped`."""
        asking = self._asking
        with asking.measure("decisions_dropped") as measured:
            value = await asking.text(asking.keys.drops.encode(), measured)
            if value is not None and not (value.isdigit() and len(value) <= 15):
                measured.found_foreign()
                return 0
            return int(value or 0)


def _read_record(_key: DecisionKey, value: bytes, now: int) -> Decision | None:
    return read_decision_record(value, now)
