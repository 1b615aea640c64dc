"""ASGI applications on uvicorn, for every program but the data plane, which speaks HTTP itself."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Generator
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_BACKLOG = 1_024


class Server(uvicorn.Server):
    """Serves one application until it is told to end, and leaves the process's signals to whoever runs the loop.

    No header changes the address of a caller, none says what serves, and nothing is logged: that is the application's.
    """

    def __init__(self, app: ASGIApp, *, drain_s: float) -> None:
        """`drain_s` (at least 1) is what open requests get when it ends; then they are cut off."""
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=max(1, round(drain_s)),
        )
        super().__init__(config)
        self.listening = asyncio.Event()
        """Set once it accepts connections."""

    def end(self) -> None:
        """Let open requests finish; told a second time, wait for none."""
        self.force_exit = self.should_exit
        self.should_exit = True

    def end_at_signals(self) -> None:
        """`end` at SIGTERM and SIGINT, so that a stop that was asked for is no failure of the process."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.end)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at the first address of a host, so that callers may come before its server runs; raises
    `OSError`. Port 0 is any free one.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock
