"""A server's clock as this process knows it."""

from __future__ import annotations

import time
from collections.abc import Callable


class ServerClock:
    """What the server last said the time was, and how long ago that was by a clock that never steps."""

    __slots__ = ("_monotonic_ms", "_offset_ms")

    def __init__(self, monotonic_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000) -> None:
        self._monotonic_ms = monotonic_ms
        # Until the server has spoken its clock is taken to be this machine's.
        self._offset_ms = time.time_ns() // 1_000_000 - monotonic_ms()

    def heard(self, server_ms: int) -> None:
        """The server says that it is `server_ms`, milliseconds since the epoch."""
        self._offset_ms = server_ms - self._monotonic_ms()

    def now_ms(self) -> int:
        return self._monotonic_ms() + self._offset_ms
