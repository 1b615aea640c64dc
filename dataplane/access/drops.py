"""Dropped decisions, noticed: what an operator drops, every replica forgets (CONTRACT §12.7)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from common.state.ports import StateUnavailable
from dataplane.net.tasks import TaskKeeper
from dataplane.polls import POLL_S, Polls

if TYPE_CHECKING:
    from common.state.ports import State
    from common.telemetry.log import Log


class DecisionDrops:
    """Calls `forget` when the shared state says that decisions were dropped: within a second, or at once by a hint.

    A state that is away tells nothing. What happened to it meanwhile is noticed when it answers again.
    """

    def __init__(self, state: State, forget: Callable[[], None], log: Log, *, poll_s: float = POLL_S) -> None:
        self._state = state
        self._forget = forget
        self._log = log
        self._polls = Polls(poll_s)
        self._seen: int | None = None
        self._tasks = TaskKeeper(self._died)

    async def start(self) -> None:
        """Learn how often decisions were dropped so far, before the first is kept; then watch."""
        self._state.on_hint(self._polls.hint)
        with contextlib.suppress(StateUnavailable):
            self._seen = await self._state.decisions_dropped()
        self._tasks.spawn(self._watch(), "watcher of dropped decisions")

    async def stop(self) -> None:
        """Watch no longer."""
        await self._tasks.cancel_all()

    async def _watch(self) -> None:
        while True:
            await self._polls.due()
            with contextlib.suppress(StateUnavailable):
                self._take(await self._state.decisions_dropped())

    def _take(self, dropped: int) -> None:
        # A number that fell is of a server that lost what it held, and what was dropped there after it.
        if dropped != self._seen:
            self._seen = dropped
            self._forget()
            self._log.info("decisions of Access were dropped: those that are kept are forgotten")

    def _died(self, name: str, error: BaseException) -> None:
        self._log.error("a task died: dropped decisions are kept until their time is over", task=name, exc=error)
