"""Hints of a shared state: something that replicas watch has changed.

    whoever changes it -> the server's own publication -> every replica that listens -> `wake` -> it looks now

Nothing rests on a hint. It may be late, lost, repeated or forged, and says nothing of what changed; whoever is woken
reads the state, as it does from time to time without one.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

Wake: TypeAlias = Callable[[], None]

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 15.0
"""Between attempts to listen. The polls go on meanwhile."""


class HintSource(Protocol):
    """Tells soon of what would be found a little later anyway."""

    def on_hint(self, wake: Wake) -> None:
        """Call `wake` soon after the pointer moved or decisions were dropped, from now until the state is closed. It
        runs on the loop's thread and must neither block nor raise.
        """
        ...


class Hints:
    """Listens in the background from the start on, as soon as somebody wants hints; makes a lost connection again.

    `listen` connects, calls what it is given whenever something was published, and once when it has begun to listen,
    since it may have missed something before; it ends, in whatever way, with its connection.
    """

    def __init__(self, listen: Callable[[Wake], Awaitable[None]]) -> None:
        self._listen = listen
        self._wakes: list[Wake] = []
        self._started = False
        self._task: asyncio.Task[None] | None = None

    def want(self, wake: Wake) -> None:
        """See `HintSource.on_hint`."""
        self._wakes.append(wake)
        self._begin()

    def start(self) -> None:
        self._started = True
        self._begin()

    async def close(self) -> None:
        """Give the connection up."""
        self._started = False
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _begin(self) -> None:
        if self._started and self._wakes and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._keep(), name="state hints")

    async def _keep(self) -> None:
        pause_s = _FIRST_PAUSE_S

        def heard() -> None:
            nonlocal pause_s
            pause_s = _FIRST_PAUSE_S
            for wake in self._wakes:
                wake()

        while True:
            # An outage is told by the operations; without hints, polls do.
            with contextlib.suppress(Exception):
                await self._listen(heard)
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 (spreads replicas, hides nothing)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
