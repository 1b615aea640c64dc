"""A proxy in front of a server that cuts a connection at a chosen moment of a chosen operation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

When = Literal["before the request", "before the answer"]


class CuttingProxy:
    """Passes bytes on, until it is armed: then the connection whose request holds `marker` is cut.

    `before the request`: the server sees no byte of it. `before the answer`: the server has all of it, and nobody hears
    what it said.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._marker: bytes | None = None
        self._when: When = "before the request"
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server
        self.cut = asyncio.Event()
        self.port = 0

    def arm(self, marker: str, when: When) -> None:
        self._marker = marker.encode()
        self._when = when
        self.cut.clear()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        to_server: asyncio.StreamWriter | None = None
        back: asyncio.Task[None] | None = None
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._target)
            deaf = asyncio.Event()
            back = asyncio.create_task(self._pass_back(from_server, writer, deaf))
            while chunk := await reader.read(65_536):
                if self._marker is not None and self._marker in chunk:
                    self._marker = None
                    if self._when == "before the request":
                        break
                    deaf.set()
                to_server.write(chunk)
                await to_server.drain()
        except OSError:
            pass
        finally:
            for each in (writer, to_server):
                if each is not None:
                    each.transport.abort()
            if back is not None:
                back.cancel()
            self.cut.set()

    async def _pass_back(
        self, from_server: asyncio.StreamReader, writer: asyncio.StreamWriter, deaf: asyncio.Event
    ) -> None:
        while chunk := await from_server.read(65_536):
            if deaf.is_set():
                writer.transport.abort()
                return
            writer.write(chunk)


@asynccontextmanager
async def cutting_proxy(target: int) -> AsyncIterator[CuttingProxy]:
    """A proxy in front of a port of this machine."""
    proxy = CuttingProxy(target)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()
