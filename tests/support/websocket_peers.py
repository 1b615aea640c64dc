"""Both ends of a relayed WebSocket over real sockets: callers and upstreams that speak frames byte for byte, and those
of the `websockets` package."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from dataplane.websocket.handshake import accept_of
from tests.support.gateway import DEADLINE_S, Answer, Caller, Running, parse_head
from tests.support.upstreams import Peer, Request, Script
from tests.support.websocket_frames import CLOSE, MASK, TEXT, Frame, close, frame, parse

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = accept_of(KEY.encode()).decode()


class FrameStream:
    """Reads and writes frames on one end. `mask` is what its frames are masked with: a caller's are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, mask: bytes | None) -> None:
        self.reader = reader
        self.writer = writer
        self.mask = mask

    async def raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def send(self, opcode: int, payload: bytes = b"", *, fin: bool = True, rsv: int = 0) -> None:
        await self.raw(frame(opcode, payload, fin=fin, rsv=rsv, mask=self.mask))

    async def text(self, payload: bytes) -> None:
        await self.send(TEXT, payload)

    async def close(self, code: int | None = None, reason: bytes = b"") -> None:
        await self.raw(close(code, reason, mask=self.mask))

    async def read(self) -> Frame:
        """The next frame."""
        head = await self._exactly(2)
        length = head[1] & 0x7F
        extended = {126: 2, 127: 8}.get(length, 0)
        head += await self._exactly(extended)
        if extended:
            length = int.from_bytes(head[2:], "big")
        head += await self._exactly((4 if head[1] & 0x80 else 0) + length)
        (read,) = parse(head)
        return read

    async def closed(self) -> tuple[int | None, bytes]:
        """Code and reason of the Close frame that must come next; it is answered, and nothing follows."""
        got = await self.read()
        assert got.opcode == CLOSE, got
        await self.close(got.code)
        assert await self.rest() == b""
        return got.code, got.payload[2:]

    async def rest(self) -> bytes:
        """Everything until the connection ends."""
        try:
            return await asyncio.wait_for(self.reader.read(-1), DEADLINE_S)
        except ConnectionError:
            return b""

    async def _exactly(self, size: int) -> bytes:
        return await asyncio.wait_for(self.reader.readexactly(size), DEADLINE_S)


class Socket(FrameStream):
    """A caller's end, after the 101 that `answer` is."""

    def __init__(self, caller: Caller, answer: Answer) -> None:
        super().__init__(caller.reader, caller.writer, MASK)
        self.caller = caller
        self.answer = answer


def handshake(target: str = "/", *headers: str, host: str = "app.test", key: str = KEY, version: str = "13") -> bytes:
    """A caller's handshake as bytes."""
    own = (f"host: {host}", "connection: Upgrade", "upgrade: websocket")
    own += (f"sec-websocket-key: {key}", f"sec-websocket-version: {version}")
    return (f"GET {target} HTTP/1.1\r\n" + "".join(f"{line}\r\n" for line in (*own, *headers)) + "\r\n").encode()


async def ask(gw: Running, target: str = "/", *headers: str, behind: bytes = b"") -> tuple[Caller, Answer]:
    """Send a handshake, with what a hasty caller sends behind it; the answer, whatever it is."""
    caller = await gw.connect()
    await caller.send(handshake(target, *headers) + behind)
    head = await asyncio.wait_for(caller.reader.readuntil(b"\r\n\r\n"), DEADLINE_S)
    status, pairs = parse_head(head)
    if status == 101:
        return caller, Answer(status, pairs, b"", head)
    length = int(dict(pairs).get("content-length", "0"))
    body = await asyncio.wait_for(caller.reader.readexactly(length), DEADLINE_S)
    return caller, Answer(status, pairs, body, head)


async def opened(gw: Running, target: str = "/", *headers: str, behind: bytes = b"") -> Socket:
    """An open WebSocket through the gateway."""
    caller, answer = await ask(gw, target, *headers, behind=behind)
    assert answer.status == 101, answer
    assert answer.value("sec-websocket-accept") == ACCEPT
    return Socket(caller, answer)


async def refused(gw: Running, target: str = "/", *headers: str) -> Answer:
    """The answer to a handshake that is refused; the connection closes behind it."""
    caller, answer = await ask(gw, target, *headers)
    assert answer.status != 101
    assert answer.value("connection") == "close"
    assert await caller.rest() == b""
    return answer


class Switched(FrameStream):
    """The upstream's end."""

    def __init__(self, peer: Peer, request: Request) -> None:
        super().__init__(peer.reader, peer.writer, None)
        self.peer = peer
        self.request = request


async def switch(peer: Peer, *lines: str, behind: bytes = b"") -> Switched:
    """Read the gateway's handshake and answer it as an upstream does."""
    request = await peer.read_head()
    (key,) = request.values(b"sec-websocket-key")
    own = ("upgrade: websocket", "connection: Upgrade", f"sec-websocket-accept: {accept_of(key).decode()}")
    head = "HTTP/1.1 101 Switching Protocols\r\n" + "".join(f"{line}\r\n" for line in (*own, *lines)) + "\r\n"
    await peer.write(head.encode() + behind)
    return Switched(peer, request)


def switches(*lines: str) -> Script:
    """An upstream that echoes each frame, and answers a Close with the same."""

    async def script(peer: Peer) -> None:
        end = await switch(peer, *lines)
        while True:
            got = await end.read()
            await end.send(got.opcode, got.payload, fin=got.fin)
            if got.opcode == CLOSE:
                return

    return script


async def stays(peer: Peer) -> None:
    """Switches, then reads and says nothing until the gateway closes."""
    await switch(peer)
    await peer.closed_by_gateway()


@asynccontextmanager
async def echo_server(**options: object) -> AsyncIterator[str]:
    """The echo of the `websockets` package; its URL as an upstream."""

    async def echo(connection: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for message in connection:
                await connection.send(message)

    async with serve(echo, "127.0.0.1", 0, **options) as server:  # type: ignore[arg-type]
        (listening,) = server.sockets
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


async def nothing_left(gw: Running) -> None:
    """No WebSocket, no connection, no task."""
    await gw.settled()
    async with asyncio.timeout(DEADLINE_S):
        while gw.metric("gateway_websockets") or len(gw.gateway.tasks) or gw.metric("gateway_connections"):
            await asyncio.sleep(0.005)


async def close_line(gw: Running, count: int = 1) -> dict[str, object]:
    """The `count`-th line of a WebSocket that ended, as soon as it is written."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            lines = [line for line in gw.lines if line["msg"] == "websocket closed"]
            if len(lines) >= count:
                return lines[count - 1]
            await asyncio.sleep(0.005)
