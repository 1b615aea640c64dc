"""Raw-socket upstreams: each connection runs a script that reads requests and writes exact bytes.

A script is an async function of a `Peer`; the named ones below misbehave in one way each.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

DEADLINE_S = 10.0


@dataclass
class Request:
    """A request as its bytes came."""

    head: bytes
    body: bytes = b""

    @property
    def line(self) -> str:
        return self.head.split(b"\r\n", 1)[0].decode("latin-1")

    def headers(self) -> list[tuple[bytes, bytes]]:
        lines = self.head.split(b"\r\n")[1:-2]
        return [(name.lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]

    def values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers() if key == name]


class Peer:
    """One accepted connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstream: Upstream) -> None:
        self.reader = reader
        self.writer = writer
        self.upstream = upstream

    async def read_head(self) -> Request:
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), DEADLINE_S)
        request = Request(head)
        self.upstream.requests.append(request)
        self.upstream.arrived.set()
        return request

    async def read_request(self) -> Request:
        """A request with its whole body, whichever way it is framed."""
        request = await self.read_head()
        length = request.values(b"content-length")
        if length:
            request.body = await asyncio.wait_for(self.reader.readexactly(int(length[0])), DEADLINE_S)
        elif request.values(b"transfer-encoding"):
            request.body = await self.read_chunked()
        return request

    async def read_chunked(self) -> bytes:
        body = b""
        while True:
            size = int(await asyncio.wait_for(self.reader.readuntil(b"\r\n"), DEADLINE_S), 16)
            data = await asyncio.wait_for(self.reader.readexactly(size + 2), DEADLINE_S)
            assert data.endswith(b"\r\n")
            if size == 0:
                return body
            body += data[:-2]

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def closed_by_gateway(self) -> bytes:
        """What still came until the other side closed."""
        try:
            return await asyncio.wait_for(self.reader.read(-1), DEADLINE_S)
        except ConnectionError:
            return b""

    def reset(self) -> None:
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Script = Callable[[Peer], Awaitable[None]]


@dataclass
class Upstream:
    """A listening upstream: what it was sent, and how often it was connected to."""

    port: int
    scheme: str = "http"
    host: str = "127.0.0.1"
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a connection's script has ended."""
    errors: list[BaseException] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


@asynccontextmanager
async def upstream(
    script: Script, host: str = "127.0.0.1", *, tls: ssl.SSLContext | None = None, name: str = "127.0.0.1"
):
    """Run `script` for each connection to a fresh port of a loopback address; with `tls`, behind its handshake."""
    state = Upstream(0, "http" if tls is None else "https", name)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        state.connections += 1
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await script(Peer(reader, writer, state))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except (Exception, asyncio.CancelledError) as error:  # the test looks at it
            state.errors.append(error)
        finally:
            state.gone.set()
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, host, 0, ssl=tls)
    state.port = server.sockets[0].getsockname()[1]
    try:
        yield state
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


def ok(body: bytes = b"ok", extra: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n%b\r\n%b" % (len(body), extra, body)


async def answers(peer: Peer) -> None:
    """Keeps the connection and answers each request with `ok`."""
    while True:
        await peer.read_request()
        await peer.write(ok())


def answers_with(response: bytes) -> Script:
    """Answers each request with the same bytes, keeping the connection."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.read_request()
            await peer.write(response)

    return script


def answers_and_closes(response: bytes) -> Script:
    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(response)

    return script


async def echoes(peer: Peer) -> None:
    """Answers with the body it was sent."""
    while True:
        request = await peer.read_request()
        await peer.write(ok(request.body))


async def never_answers(peer: Peer) -> None:
    await peer.read_request()
    await peer.closed_by_gateway()


async def closes_without_answer(peer: Peer) -> None:
    await peer.read_request()


async def resets_without_answer(peer: Peer) -> None:
    await peer.read_request()
    peer.reset()


async def resets_mid_body(peer: Peer) -> None:
    await peer.read_request()
    await peer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
    await asyncio.sleep(0)
    peer.reset()


async def cuts_chunked_body(peer: Peer) -> None:
    await peer.read_request()
    await peer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n")


async def answers_early(peer: Peer) -> None:
    """Answers 413 behind the head, reads nothing more, and closes."""
    await peer.read_head()
    await peer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 5\r\nconnection: close\r\n\r\nlarge")


async def closes_kept_connection(peer: Peer) -> None:
    """Answers once as if it kept the connection, then closes it at the next request."""
    await peer.read_request()
    await peer.write(ok())
    await peer.read_head()
