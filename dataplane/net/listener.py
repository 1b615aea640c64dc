"""The listening socket and what its connections share: handler, limits, timers, and the way to an orderly end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from dataplane.http1.readers import request_reader
from dataplane.net.connection import ConnectionLimits, DownstreamConnection, Handler
from dataplane.net.tasks import TaskKeeper
from dataplane.net.timers import TimerWheel

BACKLOG = 2048
# While it drains, a connection that no request runs on may still ask once more (its answer says `close`): a proxy in
# front that reuses it at that moment must not meet a reset. After this time, or a third of the drain, it is closed.
IDLE_GRACE_S = 5.0


class HttpListener:
    """One plain listener. `start`, then `drain` once, which also ends it."""

    def __init__(
        self,
        handler: Handler,
        limits: ConnectionLimits,
        wheel: TimerWheel,
        tasks: TaskKeeper,
        *,
        fast_lane: bool,
    ) -> None:
        self.handler = handler
        self.limits = limits
        self.read_head = request_reader(limits.max_headers, fast_lane=fast_lane)
        self.wheel = wheel
        self.tasks = tasks
        self.draining = False
        self._connections: set[DownstreamConnection] = set()
        self._server: asyncio.Server | None = None
        self._emptied: asyncio.Event = asyncio.Event()

    async def start(self, host: str, port: int, *, reuse_port: bool = False) -> None:
        """Bind and listen. `OSError` when the address cannot be had."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: DownstreamConnection(self), host, port, backlog=BACKLOG, reuse_port=reuse_port or None
        )

    @property
    def port(self) -> int:
        """The port that is listened on."""
        assert self._server is not None  # noqa: S101 (asked after `start`)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def open_connections(self) -> int:
        return len(self._connections)

    def opened(self, connection: DownstreamConnection) -> bool:
        """Register a connection; False when there is no room for it."""
        if len(self._connections) >= self.limits.max_connections:
            return False
        self._connections.add(connection)
        return True

    def closed(self, connection: DownstreamConnection) -> None:
        self._connections.discard(connection)
        if self.draining and not self._connections:
            self._emptied.set()

    async def drain(self, timeout_s: float, at_deadline: Callable[[], Awaitable[None]]) -> None:
        """Stop accepting, let open connections finish within `timeout_s`, then cut what is left.

        `at_deadline` comes before the cut, and may take a little longer to end something in order.
        """
        self.draining = True
        if self._server is not None:
            self._server.close()
        if self._connections:
            grace_s = min(IDLE_GRACE_S, timeout_s / 3)
            if not await self._emptied_within(grace_s):
                for connection in [c for c in self._connections if c.idle]:
                    connection.close()
                if not await self._emptied_within(timeout_s - grace_s):
                    await at_deadline()
        await self.tasks.cancel_all()
        for connection in list(self._connections):
            connection.abort()

    async def _emptied_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._emptied.wait()
        except TimeoutError:
            return False
        return True
