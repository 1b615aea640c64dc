"""An upstream of many manners, chosen by the path's last word: `python -m tests.bench.soak.upstream PORT`.

`slow` answers late, `silent` when nobody waits any more, `reset` not at all, `short` less than it said, `garbage` no
HTTP, `early` before the body came, `chunks` piece by piece, `stream` for minutes. Else: two bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys

import uvloop

OK = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n"
PIECE = b"400\r\n" + b"x" * 1024 + b"\r\n"
PIECES_S = 0.02


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        while await answer(reader, writer):
            pass
    writer.close()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """One request; whether the connection goes on."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    manner = head.split(b" ", 2)[1].partition(b"?")[0].rpartition(b"/")[2]
    if manner == b"early":
        writer.write(OK + b"content-length: 2\r\nconnection: close\r\n\r\nok")
        return False
    await take_body(reader, head)
    if manner in (b"slow", b"silent"):
        await asyncio.sleep(0.3 if manner == b"slow" else 3.0)
    elif manner == b"reset":
        writer.transport.abort()
        return False
    elif manner == b"garbage":
        writer.write(b"\x00\x01 no http\r\n\r\n")
        return False
    elif manner == b"short":
        writer.write(OK + b"content-length: 100\r\n\r\nok")
        return False
    elif manner in (b"chunks", b"stream"):
        writer.write(OK + b"transfer-encoding: chunked\r\n\r\n")
        for _ in range(5 if manner == b"chunks" else 10_000):
            writer.write(PIECE)
            await writer.drain()
            await asyncio.sleep(PIECES_S)
        writer.write(b"0\r\n\r\n")
        return True
    writer.write(OK + b"content-length: 2\r\n\r\n" + (b"" if head.startswith(b"head ") else b"ok"))
    await writer.drain()
    return True


async def take_body(reader: asyncio.StreamReader, head: bytes) -> None:
    if length := re.search(rb"\r\ncontent-length: *(\d+)", head):
        left = int(length[1])
        while left:
            data = await reader.read(min(left, 65_536))
            if not data:
                raise ConnectionError("the body ended early")
            left -= len(data)
    elif b"\r\ntransfer-encoding:" in head:
        while size := int(await reader.readuntil(b"\r\n"), 16):
            await reader.readexactly(size + 2)
        await reader.readexactly(2)


async def main(port: int) -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(int(sys.argv[1])))
