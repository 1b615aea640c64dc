"""Cached decisions on Postgres (`common.state.ports.DecisionStore`), and their end by an operator."""

from __future__ import annotations

import asyncio
from dataclasses import astuple

import asyncpg

from common.state.digests import short_digest
from common.state.ports import Decision, DecisionKey
from common.state.postgres.asking import Asking
from common.state.postgres.lane import Lane, fail_all
from common.state.table_store import NewAuditEntry

MOST_READ = 128
"""Decisions read by one statement."""

_Read = tuple[bytes, asyncio.Future[Decision | None]]


class PostgresDecisions:
    """Implements `DecisionStore`, `DecisionDrops` and `DecisionAdministration`."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._decision_reads: Lane[_Read] = Lane(
            asking.pool,
            self._read_decisions,
            fail_all,
            name="read_decision",
            watch=asking.watch,
            most=MOST_READ,
            at_once=2,
        )

    def read_decision(self, key: DecisionKey) -> asyncio.Future[Decision | None]:
        """See `DecisionStore.read_decision`."""
        future: asyncio.Future[Decision | None] = asyncio.get_running_loop().create_future()
        try:
            self._decision_reads.add((key.inputs, future))
        except Exception as error:  # noqa: BLE001 (told to whoever awaits it)
            fail_all([(key.inputs, future)], error)
        return future

    async def _read_decisions(self, connection: asyncpg.Connection, reads: list[_Read]) -> None:
        inputs = list(dict.fromkeys(each for each, _ in reads))
        *rows, last = await connection.fetch("SELECT * FROM read_decisions($1)", inputs)
        self._asking.clock.heard(last["told"])
        found = {key: Decision(allow, reason_code, age_ms) for key, allow, reason_code, age_ms, _ in rows}
        for each, future in reads:
            if not future.done():
                future.set_result(found.get(each))

    async def write_decision(
        self, key: DecisionKey, *, allow: bool, reason_code: str, asked_at_ms: int, keep_ms: int
    ) -> None:
        """See `DecisionStore.write_decision`."""
        with self._asking.measure("write_decision"):
            now = await self._asking.value(
                "SELECT write_decision($1, $2, $3, $4, $5, $6, $7)",
                key.inputs,
                short_digest(key.subject),
                b"" if key.workspace_id is None else short_digest(key.workspace_id),
                allow,
                reason_code,
                asked_at_ms,
                keep_ms,
            )
            self._asking.clock.heard(now)

    async def drop_decisions(self, subject: str | None, workspace_id: str | None, entry: NewAuditEntry) -> int:
        """See `DecisionAdministration.drop_decisions`."""
        with self._asking.measure("drop_decisions"):
            dropped = await self._asking.value(
                "SELECT drop_decisions($1, $2, $3, $4, $5, $6, $7, $8)",
                None if subject is None else short_digest(subject),
                None if workspace_id is None else short_digest(workspace_id),
                *astuple(entry),
            )
            return int(dropped)

    async def decisions_dropped(self) -> int:
        """See `DecisionDrops.decisions_dropped`."""
        with self._asking.measure("decisions_dropped"):
            return int(await self._asking.value("SELECT decisions_dropped()"))
