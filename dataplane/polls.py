"""When something in the shared state is looked at again: from time to time, and sooner where a hint says so."""

from __future__ import annotations

import asyncio

POLL_S = 0.8
"""The pointer is read at least once a second (§3.4), and so is all else that replicas watch."""
_AFTER_HINT_S = 0.02
"""Between a hint and the look: changes that follow each other are seen by one, and a flood of hints asks little."""


class Polls:
    """Says when the next poll of one watcher is due. Hints make it sooner and never later."""

    def __init__(self, every_s: float = POLL_S) -> None:
        self._every_s = every_s
        self._hinted = asyncio.Event()

    def hint(self) -> None:
        """The next poll is due now. One that runs already is followed by another: it may have been too early."""
        self._hinted.set()

    async def due(self) -> None:
        """Returns when it is time for the next poll."""
        try:
            async with asyncio.timeout(self._every_s):
                await self._hinted.wait()
                await asyncio.sleep(_AFTER_HINT_S)
        except TimeoutError:
            pass
        self._hinted.clear()
