"""Cached decisions on Redis (`common.state.ports.DecisionStore`)."""

from __future__ import annotations

from common.state.ports import Decision, DecisionKey
from common.state.redis.asking import Asking
from common.state.redis.records import Foreign, read_decision_record
from common.state.redis.scripts import WRITE_DECISION


class RedisDecisions:
    """Implements `DecisionStore`."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def read_decision(self, key: DecisionKey) -> Decision | None:
        """See `DecisionStore.read_decision`."""
        asking = self._asking
        with asking.measure("read_decision") as measured:
            value = await asking.text(asking.keys.decision(key.inputs), measured)
            if value is None:
                return None
            try:
                return read_decision_record(value)
            except Foreign:
                measured.found_foreign()
                return None

    async def write_decision(self, key: DecisionKey, *, allow: bool, reason_code: str, keep_ms: int) -> None:
        """See `DecisionStore.write_decision`."""
        asking = self._asking
        with asking.measure("write_decision"):
            asking.clock.heard(
                await asking.script(
                    WRITE_DECISION, (asking.keys.decision(key.inputs),), int(allow), reason_code, keep_ms
                )
            )
