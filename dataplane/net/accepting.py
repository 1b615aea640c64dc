"""A listening server that takes many callers in one turn of the loop.

uvloop's takes one. A turn that serves hundreds of requests lasts tens of milliseconds, so a second's worth of new
callers would wait for many seconds, the longer the more of them there are.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataplane.net.tasks import TaskKeeper

BACKLOG = 2048
# So many take a few milliseconds, which the requests of those who were accepted before wait for.
ACCEPTED_A_TURN = 64


class AcceptingServer:
    """`asyncio.Server`, and behind each connection that it accepts the others that wait at that moment."""

    def __init__(self, make_protocol: Callable[[], asyncio.Protocol], tasks: TaskKeeper) -> None:
        self._make_protocol = make_protocol
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._server: asyncio.Server
        self.sockets: list[socket.socket] = []
        """Those that are listened on."""

    async def start(self, host: str, port: int, bound: socket.socket | None = None) -> None:
        """Bind and listen, on a `bound` socket where there is one. Raises `OSError` when an address cannot be had."""
        loop, made = self._loop, self._accepted
        if bound is None:
            self._server = await loop.create_server(made, host, port, backlog=BACKLOG)
        else:
            self._server = await loop.create_server(made, sock=bound, backlog=BACKLOG)
        self.sockets = [socket.socket(fileno=os.dup(sock.fileno())) for sock in self._server.sockets]

    def close(self) -> None:
        """Listen no more; what was accepted stays."""
        self._server.close()
        for sock in self.sockets:
            sock.close()  # as long as one descriptor is open, the kernel goes on taking callers
        self.sockets = []

    def _accepted(self) -> asyncio.Protocol:
        for sock in self.sockets:
            self._accept_those_behind(sock)
        return self._make_protocol()

    def _accept_those_behind(self, sock: socket.socket) -> None:
        for _ in range(ACCEPTED_A_TURN):
            try:
                connection, _ = sock.accept()
            except OSError:
                return  # nobody waits; or there is no descriptor, which the server sees in its turn
            connection.setblocking(False)
            self._tasks.spawn(self._connect(connection), "accepted connection")

    async def _connect(self, connection: socket.socket) -> None:
        await self._loop.connect_accepted_socket(self._make_protocol, connection)
