"""Decisions that replicas share: what the state holds of them, as this process may use it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from common.state.ports import StateUnavailable
from dataplane.access.protocol import AccessDecision, kept_decision

if TYPE_CHECKING:
    from common.state.ports import DecisionKey, State


@dataclass(frozen=True, slots=True)
class Found:
    """A stored decision. `asked_at` is when its question was sent, in monotonic seconds of this process."""

    decision: AccessDecision
    asked_at: float


class SharedDecisions:
    """Reads and writes decisions in a state that replicas share. Nothing fails here: this is a cache and no authority,
    and while the state is away Access is asked.

    `clock` gives monotonic seconds.
    """

    def __init__(self, state: State, clock: Callable[[], float]) -> None:
        self._state = state
        self._clock = clock
        self._writes: set[asyncio.Task[None]] = set()

    def now_ms(self) -> int:
        """The time of a question, for `keep`: never later than the server's own."""
        return self._state.now_ms()

    async def find(self, key: DecisionKey) -> Found | None:
        """The stored decision. The time on the way is counted so that an allow is as old as it can be, and a denial as
        young: neither serves longer than it may on a slow network.
        """
        sent = self._clock()
        try:
            stored = await self._state.read_decision(key)
        except StateUnavailable:
            return None
        if stored is None:
            return None
        decision = kept_decision(stored.allow, stored.reason_code)
        since = sent if decision.allow else self._clock()
        return Found(decision, since - stored.age_ms / 1000)

    def keep(self, key: DecisionKey, decision: AccessDecision, *, asked_at_ms: int, keep_ms: int) -> None:
        """Store a decision, while nobody waits for that."""
        task = asyncio.get_running_loop().create_task(self._write(key, decision, asked_at_ms, keep_ms))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def close(self) -> None:
        """Give up what is still being written."""
        for task in self._writes:
            task.cancel()
        await asyncio.gather(*self._writes, return_exceptions=True)

    async def _write(self, key: DecisionKey, decision: AccessDecision, asked_at_ms: int, keep_ms: int) -> None:
        try:
            await self._state.write_decision(
                key, allow=decision.allow, reason_code=decision.reason, asked_at_ms=asked_at_ms, keep_ms=keep_ms
            )
        except (StateUnavailable, ValueError):
            # The next replica asks Access, as it would have without this one.
            return
