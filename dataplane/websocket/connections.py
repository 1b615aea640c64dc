"""How many WebSockets there are, whose they are, and the end of them all."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Protocol

from dataplane.errors import GatewayError
from dataplane.websocket.relay import GOING_AWAY, Verdict

DRAIN_S = 2.0
"""How long a drain waits for the WebSockets that it closes. Each end has a bound of its own, which is shorter."""


class Open(Protocol):
    """A WebSocket that can be closed."""

    def close(self, verdict: Verdict) -> None: ...


class Connections:
    """The bounds of §10: of all WebSockets of this process, and of one caller's. 0 bounds nothing.

    A handshake counts from its begin, so that no more of them are under way than may be open.
    """

    def __init__(self, max_connections: int, max_per_caller: int) -> None:
        self._max = max_connections
        self._max_per_caller = max_per_caller
        self._of_caller: dict[Hashable, int] = {}
        self._taken = 0
        self._stopped = False
        self._emptied = asyncio.Event()
        self.open: set[Open] = set()

    def take(self, caller: Hashable) -> Place:
        """A place, to be left. Raises `gateway_overloaded` or `too_many_requests`, and takes nothing."""
        if self._stopped:
            raise GatewayError("gateway_overloaded", "the gateway stops")
        if self._taken >= self._max > 0:
            raise GatewayError("gateway_overloaded", f"{self._taken} WebSockets")
        of_caller = self._of_caller.get(caller, 0)
        if of_caller >= self._max_per_caller > 0:
            raise GatewayError(
                "too_many_requests",
                f"{of_caller} WebSockets of one caller",
                message="You have too many open connections. Close one before you open another.",
            )
        self._taken += 1
        self._of_caller[caller] = of_caller + 1
        return Place(self, caller)

    async def close_all(self) -> None:
        """Close every WebSocket with 1001 and wait for their ends, at most `DRAIN_S`; no further one may open."""
        self._stopped = True
        for websocket in list(self.open):
            websocket.close(Verdict("drain", GOING_AWAY, "the gateway stops"))
        try:
            async with asyncio.timeout(DRAIN_S):
                while self.open:
                    self._emptied.clear()
                    await self._emptied.wait()
        except TimeoutError:
            return

    def _give_back(self, caller: Hashable) -> None:
        self._taken -= 1
        remaining = self._of_caller[caller] - 1
        if remaining:
            self._of_caller[caller] = remaining
        else:
            del self._of_caller[caller]


class Place:
    """One WebSocket's place, from its handshake to its end."""

    __slots__ = ("_caller", "_connections", "_left", "_websocket")

    def __init__(self, connections: Connections, caller: Hashable) -> None:
        self._connections = connections
        self._caller = caller
        self._websocket: Open | None = None
        self._left = False

    def opened(self, websocket: Open) -> None:
        """The handshake is done: a drain closes it from now on."""
        self._websocket = websocket
        self._connections.open.add(websocket)

    def leave(self) -> None:
        """Give the place back; once more changes nothing."""
        if self._left:
            return
        self._left = True
        if self._websocket is not None:
            self._connections.open.discard(self._websocket)
            self._websocket = None
        self._connections._give_back(self._caller)
        if not self._connections.open:
            self._connections._emptied.set()
