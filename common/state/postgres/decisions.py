"""Cached decisions on Postgres (`common.state.ports.DecisionStore`)."""

from __future__ import annotations

from common.state.ports import Decision, DecisionKey
from common.state.postgres.asking import Asking


class PostgresDecisions:
    """Implements `DecisionStore`."""

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
                "SELECT write_decision($1, $2, $3, $4)", key.inputs, allow, reason_code, keep_ms
            )
            self._asking.clock.heard(decided)
