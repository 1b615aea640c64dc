"""ASGI applications served on loopback inside the caller's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Generator

import uvicorn
from starlette.types import ASGIApp

_DRAIN_S = 2
_BACKLOG = 128


class _Server(uvicorn.Server):
    """A uvicorn server that leaves the process's signals to whoever runs the loop, and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


def loopback_socket(port: int = 0) -> socket.socket:
    """A socket on 127.0.0.1, bound and listening, so that callers may come before its server runs. 0: any free port."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
        sock.listen(_BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def origin_of(sock: socket.socket) -> str:
    """`http://127.0.0.1:PORT` of a bound socket."""
    return f"http://127.0.0.1:{sock.getsockname()[1]}"


@contextlib.asynccontextmanager
async def serving(app: ASGIApp, sock: socket.socket) -> AsyncIterator[asyncio.Task[None]]:
    """Serve `app` on `sock` for the length of the block; the task ends early only if the server dies.

    On leaving, connections get a short time to finish, then they are cut. The socket is closed either way.
    """
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_DRAIN_S,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[sock]))
    task.add_done_callback(lambda _: server.listening.set())
    try:
        await server.listening.wait()
        yield task
    finally:
        server.should_exit = True
        await asyncio.gather(task, return_exceptions=True)
        sock.close()
