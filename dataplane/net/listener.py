"""The listening sockets and what their connections share: handler, limits, timers, and the way to an orderly end."""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from dataplane.http1.readers import request_reader
from dataplane.net.accepting import AcceptingServer
from dataplane.net.connection import DownstreamConnection
from dataplane.net.shared import ConnectionLimits, Handler
from dataplane.net.stepped import Turns
from dataplane.net.tasks import TaskKeeper
from dataplane.net.timers import TimerWheel
from dataplane.net.tls_server import Handshakes, ServerTls

if TYPE_CHECKING:
    from common.telemetry.log import Log

# While it drains, a connection that no request runs on may still ask once more (its answer says `close`): a proxy in
# front that reuses it at that moment must not meet a reset. After this time, or a third of the drain, it is closed.
IDLE_GRACE_S = 5.0
# Connections that wait to be accepted when the drain begins are still taken: closing the socket would reset them, and
# their requests with them. Where more come all the time, no longer than this.
ACCEPT_REST_S = 0.25
# Turns of the loop from the acceptance of a connection to its being registered; uvloop takes one, asyncio three.
ACCEPTING_TURNS = 4


class HttpListener:
    """One plain listener, and beside it one of TLS where `start_tls` opens it. `drain` once ends both.

    Their connections are one set, with one bound.
    """

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
        self.turns = Turns()
        self.draining = False
        self._connections: set[DownstreamConnection] = set()
        self._servers: list[AcceptingServer] = []
        self._tls_servers: list[AcceptingServer] = []
        self._handshakes: Handshakes | None = None
        self._emptied: asyncio.Event = asyncio.Event()

    async def start(self, host: str, port: int, sockets: Sequence[socket.socket] = ()) -> None:
        """Bind and listen; where there are `sockets`, bound ones of the caller's, on those instead.

        Raises `OSError` when the address cannot be had.
        """
        self._servers += await self._listen(self._connection, host, port, sockets)

    async def start_tls(
        self,
        host: str,
        port: int,
        sockets: Sequence[socket.socket] = (),
        *,
        context: Callable[[], ssl.SSLContext],
        log: Log,
    ) -> None:
        """The same over TLS, on a port of its own. `context` is asked for each handshake, which has the budget of a
        request head.
        """
        self._handshakes = handshakes = Handshakes(
            self._secure_connection,
            context,
            self.wheel,
            log,
            handshake_s=self.limits.head_timeout_s,
            on_over=self._left,
        )
        self._tls_servers += await self._listen(lambda: ServerTls(handshakes), host, port, sockets)

    async def _listen(
        self, make_protocol: Callable[[], asyncio.Protocol], host: str, port: int, sockets: Sequence[socket.socket]
    ) -> list[AcceptingServer]:
        servers = []
        for bound in sockets or (None,):
            servers.append(AcceptingServer(make_protocol, self.tasks))
            await servers[-1].start(host, port, bound)
        return servers

    def _connection(self) -> DownstreamConnection:
        return DownstreamConnection(self)

    def _secure_connection(self) -> DownstreamConnection:
        return DownstreamConnection(self, secure=True)

    @property
    def port(self) -> int:
        """The plain port that is listened on; after `start`."""
        return _port_of(self._servers)

    @property
    def tls_port(self) -> int:
        """The port of TLS that is listened on; after `start_tls`."""
        return _port_of(self._tls_servers)

    @property
    def open_connections(self) -> int:
        """Those in their TLS handshake included."""
        return len(self._connections) + (0 if self._handshakes is None else len(self._handshakes))

    def opened(self, connection: DownstreamConnection) -> bool:
        """Register a connection; False when there is no room for it."""
        if len(self._connections) >= self.limits.max_connections:
            return False
        self._connections.add(connection)
        return True

    def closed(self, connection: DownstreamConnection) -> None:
        self._connections.discard(connection)
        self._left()

    def _left(self) -> None:
        if self.draining and not self.open_connections:
            self._emptied.set()

    async def drain(self, timeout_s: float, at_deadline: Callable[[], Awaitable[None]]) -> None:
        """Accept who waits already and nobody else, let open connections finish within `timeout_s`, then cut what is
        left.

        `at_deadline` comes before the cut, and may take a little longer to end something in order.
        """
        self.draining = True
        await self._accept_rest()
        for server in (*self._servers, *self._tls_servers):
            server.close()
        if self.open_connections:
            grace_s = min(IDLE_GRACE_S, timeout_s / 3)
            if not await self._emptied_within(grace_s):
                if self._handshakes is not None:
                    self._handshakes.abort_all()
                for connection in [c for c in self._connections if c.idle]:
                    connection.close()
                if not await self._emptied_within(timeout_s - grace_s):
                    await at_deadline()
        await self.tasks.cancel_all()
        for connection in list(self._connections):
            connection.abort()

    async def _accept_rest(self) -> None:
        poll = select.poll()
        for server in (*self._servers, *self._tls_servers):
            for sock in server.sockets:
                poll.register(sock.fileno(), select.POLLIN)
        until = self.wheel.clock() + ACCEPT_REST_S
        while poll.poll(0) and self.wheel.clock() < until:  # noqa: ASYNC110 (the kernel's queue tells no event)
            await asyncio.sleep(0)
        for _ in range(ACCEPTING_TURNS):
            await asyncio.sleep(0)

    async def _emptied_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._emptied.wait()
        except TimeoutError:
            return False
        return True


def _port_of(servers: Sequence[AcceptingServer]) -> int:
    port: int = servers[0].sockets[0].getsockname()[1]
    return port
