"""ASGI applications served on loopback inside the caller's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

from starlette.types import ASGIApp

from common.serving import Server, listening_socket

_DRAIN_S = 2


def loopback_socket(port: int = 0) -> socket.socket:
    """A socket that listens on 127.0.0.1; 0: any free port."""
    return listening_socket("127.0.0.1", port)


def origin_of(sock: socket.socket) -> str:
    """`http://127.0.0.1:PORT` of a bound socket."""
    return f"http://127.0.0.1:{sock.getsockname()[1]}"


@contextlib.asynccontextmanager
async def serving(app: ASGIApp, sock: socket.socket) -> AsyncIterator[asyncio.Task[None]]:
    """Serve `app` on `sock` for the length of the block; the task ends early only if the server dies.

    On leaving, connections get a short time to finish, then they are cut. The socket is closed either way.
    """
    server = Server(app, drain_s=_DRAIN_S)
    task = asyncio.create_task(server.serve(sockets=[sock]))
    task.add_done_callback(lambda _: server.listening.set())
    try:
        await server.listening.wait()
        yield task
    finally:
        server.end()
        await asyncio.gather(task, return_exceptions=True)
        sock.close()
