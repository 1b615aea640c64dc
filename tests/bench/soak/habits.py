"""What callers do, good and bad, each as one conversation over a connection of its own."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.bench.peers.websocket_load import frame
from tests.bench.stage import ONE_MB, SMALL
from tests.support.websocket_frames import BINARY, CLOSE, PING

PATIENCE_S = 8.0
LARGEST = 1 << 18


@dataclass
class World:
    """Whom they call, and with which credentials, which change while it runs."""

    port: int
    tls_port: int
    origin: str
    sessions: list[str]
    tokens: list[str]
    metrics_token: str

    def head(self, method: str, path: str, *lines: str, credential: bool = True) -> bytes:
        who = random.choice(
            [
                *[f"cookie: theme=dark; gateway_session={one}" for one in self.sessions[-8:]],
                *[f"authorization: Bearer {one}" for one in self.tokens[-2:]],
            ]
        )
        address = f"x-forwarded-for: 10.0.{random.randrange(64)}.{random.randrange(61)}"
        sent = [f"{method} {path} HTTP/1.1", "host: bench", f"origin: {self.origin}", address, *lines]
        return "\r\n".join([*sent, *([who] if credential else []), "", ""]).encode()


class Line:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self) -> bytes:
        """A head, and the body that it announces."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                await self._reader.readexactly(int(line.partition(b":")[2]))
            elif line.startswith(b"transfer-encoding:"):
                while size := int(await self._reader.readuntil(b"\r\n"), 16):
                    await self._reader.readexactly(size + 2)
                await self._reader.readexactly(2)
        return head

    async def some(self) -> bytes:
        return await self._reader.read(65_536)

    async def rest(self) -> None:
        while await self._reader.read(65_536):
            pass

    def end(self) -> None:
        """At random in order, or with a reset."""
        if random.random() < 0.5:
            self._writer.transport.abort()
        else:
            self._writer.close()


Habit = Callable[[World, Line], Awaitable[None]]


def _path(word: str = "") -> str:
    return f"/odd/{secrets.token_hex(4) if random.random() < 0.3 else 'a'}/{word}"


async def asks_again_and_again(world: World, line: Line) -> None:
    for _ in range(random.randint(1, 12)):
        await line.send(world.head("GET", f"{SMALL}?q={random.randrange(10**6)}"))
        await line.answer()


async def asks_before_it_is_answered(world: World, line: Line) -> None:
    count = random.randint(2, 6)
    await line.send(b"".join(world.head("GET", SMALL) for _ in range(count)))
    for _ in range(count):
        await line.answer()


async def uploads(world: World, line: Line) -> None:
    body = random.randbytes(random.choice((1, 100, 5_000, 70_000, LARGEST)))
    await line.send(world.head("POST", _path(), f"content-length: {len(body)}") + body)
    await line.answer()


async def uploads_in_chunks(world: World, line: Line) -> None:
    await line.send(world.head("PUT", _path(), "transfer-encoding: chunked"))
    for _ in range(random.randint(0, 8)):
        data = random.randbytes(random.randint(1, 9_000))
        await line.send(b"%x;note=1\r\n" % len(data) + data + b"\r\n")
    await line.send(random.choice((b"0\r\n\r\n", b"0\r\ntrailer: x\r\n\r\n", b"zz\r\n")))
    await line.answer()


async def expects_to_continue(world: World, line: Line) -> None:
    await line.send(world.head("POST", _path(), "content-length: 5", "expect: 100-continue"))
    await line.answer()
    await line.send(b"hello")
    await line.answer()


async def uploads_too_much(world: World, line: Line) -> None:
    await line.send(world.head("POST", _path(), f"content-length: {10**9}") + b"x" * 1000)
    await line.rest()


async def leaves_in_the_upload(world: World, line: Line) -> None:
    await line.send(world.head("POST", _path("slow"), "content-length: 50000") + b"x" * random.randrange(40_000))


async def leaves_in_the_head(world: World, line: Line) -> None:
    head = world.head("GET", SMALL)
    await line.send(head[: random.randrange(len(head))])
    await asyncio.sleep(random.choice((0, 0.05, 6)))


async def leaves_before_the_answer(world: World, line: Line) -> None:
    await line.send(world.head("GET", _path(random.choice(("slow", "silent", "chunks")))))
    await asyncio.sleep(random.random() / 5)


async def leaves_in_the_answer(world: World, line: Line) -> None:
    await line.send(world.head("GET", random.choice((ONE_MB, _path("stream")))))
    await line.some()
    await asyncio.sleep(random.random())


async def reads_slowly(world: World, line: Line) -> None:
    await line.send(world.head("GET", ONE_MB))
    for _ in range(8):
        await line.some()
        await asyncio.sleep(0.1)


async def meets_a_bad_upstream(world: World, line: Line) -> None:
    await line.send(world.head("GET", _path(random.choice(("reset", "garbage", "short", "silent", "early", "chunks")))))
    await line.answer()


async def says_nothing(world: World, line: Line) -> None:
    await asyncio.sleep(random.choice((0.01, 1, 7)))


async def waits_between_requests(world: World, line: Line) -> None:
    for pause_s in (0.1, 1.0, random.choice((2.0, 7.0))):
        await line.send(world.head("GET", SMALL))
        await line.answer()
        await asyncio.sleep(pause_s)


BAD_HEADS = (
    b"GET / HTTP/1.1\nhost: a\n\n",
    b"GET / HTTP/2.0\r\nhost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: a\r\nx: y\r\n z\r\n\r\n",
    b"GET /%00 HTTP/1.1\r\nhost: a\r\n\r\n",
    b"GET /a/../../b HTTP/1.1\r\nhost: a\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"\x00" * 100,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
)


async def speaks_badly(world: World, line: Line) -> None:
    await line.send(random.choice(BAD_HEADS))
    await line.rest()


async def says_too_much(world: World, line: Line) -> None:
    lines = random.choice(([f"x-{n}: {n}" for n in range(400)], ["x: " + "y" * 100_000]))
    await line.send(world.head("GET", SMALL, *lines))
    await line.rest()


async def has_other_headers_each_time(world: World, line: Line) -> None:
    for _ in range(6):
        lines = [f"x-{secrets.token_hex(4)}: {secrets.token_hex(random.randrange(1, 200))}" for _ in range(10)]
        await line.send(world.head(random.choice(("GET", "DELETE", "OPTIONS", "BREW")), SMALL, *lines))
        await line.answer()


async def has_no_right(world: World, line: Line) -> None:
    wrong = random.choice(
        (
            f"authorization: Bearer {secrets.token_hex(40)}",
            f"authorization: Bearer {random.choice(world.tokens)[:-4]}AAAA",
            f"cookie: gateway_session={secrets.token_urlsafe(32)}",
            "cookie: " + "; ".join(f"gateway_session={secrets.token_urlsafe(32)}" for _ in range(3)),
            "authorization: Basic Zm9vOmJhcg==",
        )
    )
    await line.send(world.head("GET", SMALL, wrong, credential=False))
    await line.answer()


async def looks_at_the_gateway(world: World, line: Line) -> None:
    path = random.choice(("/healthz", "/readyz", "/metrics", "/auth/session", "/auth/login", "/auth/callback?state=x"))
    shown = f"authorization: Bearer {world.metrics_token}"
    await line.send(world.head("GET", path, shown, credential=False))
    await line.answer()


async def opens_a_websocket(world: World, line: Line) -> None:
    key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="
    lines = ("connection: Upgrade", "upgrade: websocket", key, "sec-websocket-version: 13")
    await line.send(world.head("GET", "/ws/echo", *lines))
    if not (await line.answer()).startswith(b"HTTP/1.1 101 "):
        return
    for _ in range(random.randrange(12)):
        await line.send(frame(random.randbytes(random.choice((0, 10, 3_000, 60_000))), bytes(4)))
        await line.some()
    ends = (
        bytes((0x80 | CLOSE, 0x82)) + bytes(4) + b"\x03\xe8",
        bytes((0x80 | PING, 0x80)) + bytes(4),
        bytes((0x80 | BINARY, 0xFF)) + (1 << 40).to_bytes(8, "big") + bytes(4),
        b"\xff\xff\xff\xff",
        frame(b"x" * 5_000, bytes(4))[:3_000],
        b"",
    )
    await line.send(random.choice(ends))
    await asyncio.sleep(random.choice((0, 0, 0.2, 3)))


HABITS: tuple[tuple[Habit, int], ...] = (
    (asks_again_and_again, 6), (asks_before_it_is_answered, 3), (uploads, 4), (uploads_in_chunks, 3),
    (expects_to_continue, 2), (uploads_too_much, 1), (leaves_in_the_upload, 3), (leaves_in_the_head, 2),
    (leaves_before_the_answer, 4), (leaves_in_the_answer, 4), (reads_slowly, 1), (meets_a_bad_upstream, 3),
    (says_nothing, 2), (waits_between_requests, 2), (speaks_badly, 4), (says_too_much, 2),
    (has_other_headers_each_time, 4), (has_no_right, 4), (looks_at_the_gateway, 3), (opens_a_websocket, 6),
)  # fmt: skip
"""Each with how often it is chosen beside the others."""
