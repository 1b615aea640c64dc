"""An upstream that takes a fixed time for each request, however many there are: `slow_upstream.py PORT SERVICE_MS`."""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import uvloop

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok"


class Served(asyncio.Protocol):
    """One kept connection of the gateway. It sends one request at a time, without a body."""

    def __init__(self, service_s: float) -> None:
        self._service_s = service_s
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._held += data
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            self._held = self._held[end + 4 :]
            asyncio.get_running_loop().call_later(self._service_s, self._answer)

    def _answer(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(ANSWER)


async def main(port: int, service_ms: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Served(service_ms / 1000), "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(int(sys.argv[1]), int(sys.argv[2])))
