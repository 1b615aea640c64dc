"""Cached decisions on Postgres (`common.state.ports.DecisionStore`), and their end by an operator."""

from __future__ import annotations

from dataclasses import astuple

from common.state.digests import short_digest
from common.state.ports import Decision, DecisionKey
from common.state.postgres.asking import Asking
from common.state.table_store import NewAuditEntry


class PostgresDecisions:
    """Implements `DecisionStore`, `DecisionDrops` and `DecisionAdministration`."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def read_decision(self, key: DecisionKey) -> Decision | None:
        """See `DecisionStore.read_decision`."""
        with self._asking.measure("read_decision"):
            rows = await self._asking.rows("SELECT * FROM read_decision($1)", key.inputs)
            return Decision(*rows[0]) if rows else None

    async def write_decision(self, key: DecisionKey, *, allow: bool, reason_code: str, keep_ms: int) -> None:
        """See `DecisionStore.write_decision`."""
        with self._asking.measure("write_decision"):
            decided = await self._asking.value(
                "SELECT write_decision($1, $2, $3, $4, $5, $6)",
                key.inputs,
                short_digest(key.subject),
                b"" if key.workspace_id is None else short_digest(key.workspace_id),
                allow,
                reason_code,
                keep_ms,
            )
            self._asking.clock.heard(decided)

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
