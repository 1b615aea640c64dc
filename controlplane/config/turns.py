"""Who works next: whoever may publish before whoever may only look."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator


class Turns:
    """So many at once. Whoever is first waits for what is being done, and for others that are first; each in their
    order. Belongs to one event loop.
    """

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._first: deque[asyncio.Future[None]] = deque()
        self._others: deque[asyncio.Future[None]] = deque()

    @contextlib.asynccontextmanager
    async def turn(self, *, first: bool) -> AsyncIterator[None]:
        """One of the turns, for the length of the block."""
        if self._free:
            self._free -= 1
        else:
            mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            (self._first if first else self._others).append(mine)
            try:
                await mine
            except asyncio.CancelledError:
                # Given and cancelled at once: it is the next one's.
                if not mine.cancelled():
                    self._pass_on()
                raise
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        for line in (self._first, self._others):
            while line:
                next_one = line.popleft()
                if not next_one.done():
                    next_one.set_result(None)
                    return
        self._free += 1
