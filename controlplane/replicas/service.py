"""What replicas serve, over the shared state."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from common.state.coordination import Heartbeat
from common.state.ports import StateUnavailable
from common.state.table_store import Revision

POLL_S = 0.1
"""Replicas take a revision within a second; this is how late their arrival is seen."""


class ReplicaState(Protocol):
    """As much of the state as the view of the replicas needs."""

    def now_ms(self) -> int: ...

    async def list_heartbeats(self) -> list[Heartbeat]: ...

    async def list_revisions(self, before: int | None, limit: int) -> list[Revision]: ...


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica beside the active revision."""

    heartbeat: Heartbeat
    behind: int
    age_ms: int


@dataclass(frozen=True, slots=True)
class Arrived:
    """The replicas that serve a revision or a later one, and those that do not."""

    serving: tuple[Heartbeat, ...] = ()
    lagging: tuple[Heartbeat, ...] = ()
    known: bool = True

    @property
    def converged(self) -> bool:
        return self.known and not self.lagging


class ReplicasService:
    """Reads what replicas say of themselves; one that is silent is forgotten by the state."""

    def __init__(
        self, state: ReplicaState, *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep, poll_s: float = POLL_S
    ) -> None:
        self._state = state
        self._pause = pause
        self._poll_s = poll_s
        self._ended = asyncio.Event()

    def end(self) -> None:
        """Wait for no replica any more."""
        self._ended.set()

    async def view(self) -> tuple[int, list[Replica]]:
        """The active revision, and every replica that is alive."""
        newest = await self._state.list_revisions(None, 1)
        active = newest[0].revision if newest else 0
        now_ms = self._state.now_ms()
        return active, [
            Replica(one, max(0, active - one.revision), max(0, now_ms - one.time_ms)) for one in await self._alive()
        ]

    async def _alive(self) -> list[Heartbeat]:
        """What every replica says of itself. Whoever may write to the store could say what none does."""
        return [one for one in await self._state.list_heartbeats() if one.revision >= 0]

    async def arrival(self, revision: int, timeout_s: float) -> Arrived:
        """Who serves a revision: as soon as every replica does, or when the time is over or the process ends.

        The revision is written, so a state that does not answer now is no failure: nothing is known then.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        arrived = Arrived(known=False)
        while True:
            with contextlib.suppress(StateUnavailable):
                alive = await self._alive()
                arrived = Arrived(
                    tuple(one for one in alive if one.revision >= revision),
                    tuple(one for one in alive if one.revision < revision),
                )
            if arrived.converged or loop.time() >= deadline or self._ended.is_set():
                return arrived
            await self._pause(self._poll_s)
