"""What callers can do to the control plane with bytes: each gets its answer, and the next caller theirs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from common.routetable.document import MAX_TABLE_BYTES
from common.serving import Server, listening_socket
from controlplane import reading
from tests.support.control import TOKENS, Control, route_table
from tests.support.gateway import DEADLINE_S, Answer, Caller

TABLE = json.dumps(route_table()).encode()
BASE = f"host: control\r\nauthorization: Bearer {TOKENS['config']}\r\ncontent-type: application/json\r\n"
PUT = f'PUT /v1/config HTTP/1.1\r\n{BASE}if-match: "%d"\r\n'
VALIDATE = f"POST /v1/config/validate HTTP/1.1\r\n{BASE}"


@asynccontextmanager
async def served(control: Control) -> AsyncIterator[Callable[[], AbstractAsyncContextManager[Caller]]]:
    """The plane on a socket of its own; calling gives a connection."""
    sock = listening_socket("127.0.0.1", 0)
    port = sock.getsockname()[1]
    server = Server(control.plane.app, drain_s=1)
    task = asyncio.ensure_future(server.serve(sockets=[sock]))
    await server.listening.wait()

    @asynccontextmanager
    async def connect() -> AsyncIterator[Caller]:
        caller = Caller(*await asyncio.open_connection("127.0.0.1", port))
        try:
            yield caller
        finally:
            caller.close()

    try:
        yield connect
    finally:
        server.end()
        await task
        control.plane.close()


async def ask(control: Control, *pieces: bytes) -> Answer:
    """One request, written piece by piece."""
    async with served(control) as connect, connect() as caller:
        for piece in pieces:
            await caller.send(piece)
        return await caller.answer()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def test_a_chunked_table_is_read_like_any_other() -> None:
    pieces = [chunk(TABLE[at : at + 7]) for at in range(0, len(TABLE), 7)]
    control = Control()
    answer = await ask(control, f"{PUT % 0}transfer-encoding: chunked\r\n\r\n".encode(), *pieces, b"0\r\n\r\n")
    assert (answer.status, answer.value("etag")) == (201, '"1"')
    stored = await control.state.read_revision(1)
    assert stored is not None
    assert stored[1] == TABLE


async def test_a_chunked_body_that_grows_too_large_is_cut_at_the_bound() -> None:
    control = Control()
    half = chunk(b" " * (MAX_TABLE_BYTES // 2 + 1))
    answer = await ask(control, f"{PUT % 0}transfer-encoding: chunked\r\n\r\n".encode(), half, half)
    assert (answer.status, answer.json["error"]) == (413, "payload_too_large")
    assert answer.value("connection") == "close"


async def test_a_length_over_the_bound_is_refused_before_a_byte_of_it() -> None:
    answer = await ask(Control(), f"{PUT % 0}content-length: {MAX_TABLE_BYTES + 1}\r\n\r\n".encode())
    assert (answer.status, answer.json["error"]) == (413, "payload_too_large")
    assert answer.value("connection") == "close"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GARBAGE\r\n\r\n",
        b"GET /v1/config HTTP/1.1\r\n\r\n",
        b"GET /v1/config HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"GET /v1 config HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET /v1/config HTTP/1.1\r\nhost: a\r\nx y: 1\r\n\r\n",
        f"{PUT % 0}content-length: -1\r\n\r\n".encode(),
        f"{PUT % 0}content-length: 1\r\ncontent-length: 2\r\n\r\n".encode(),
        f"{PUT % 0}transfer-encoding: gzip, chunked\r\n\r\n".encode(),
    ],
)
async def test_what_is_no_http_is_400_in_json_and_closes(request_bytes: bytes) -> None:
    async with served(Control()) as connect:
        async with connect() as caller:
            answer = await caller.ask(request_bytes)
            assert (answer.status, answer.json["error"]) == (400, "bad_request")
            assert answer.value("content-type") == "application/json"
            assert len(answer.value("x-request-id")) == 36
            assert await caller.rest() == b""
        async with connect() as next_one:
            assert (await next_one.ask(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")).status == 200


@pytest.mark.parametrize(
    ("version", "lines"),
    [
        ("1.1", "content-length: 4\r\ntransfer-encoding: chunked\r\n"),
        ("1.1", "transfer-encoding: chunked\r\nContent-Length: 0\r\n"),
        ("1.0", "transfer-encoding: chunked\r\nconnection: keep-alive\r\n"),
    ],
)
async def test_a_body_that_two_readers_could_end_in_two_places_is_refused_and_hides_no_request(
    version: str, lines: str
) -> None:
    """Behind a proxy the hidden request would come with the rights of whoever is next on the connection."""
    control = Control()
    head = (PUT % 0).replace("HTTP/1.1", f"HTTP/{version}")
    async with served(control) as connect, connect() as caller:
        await caller.send(f"{head}{lines}\r\n".encode() + chunk(TABLE) + b"0\r\n\r\n")
        await caller.send(f"GET /v1/config HTTP/1.1\r\n{BASE}\r\n".encode())
        answer = await caller.answer()
        assert (answer.status, answer.json["error"]) == (400, "bad_request")
        assert await caller.rest() == b""
    assert (await control.state.read_table()).revision == 0


async def test_a_broken_chunk_writes_nothing() -> None:
    control = Control()
    head = f"{PUT % 0}transfer-encoding: chunked\r\n\r\n".encode()
    async with served(control) as connect, connect() as caller:
        await caller.send(head + chunk(TABLE) + b"zz\r\n")
        await caller.rest()
    assert (await control.state.read_table()).revision == 0


async def test_a_caller_that_leaves_in_the_middle_of_the_body_writes_nothing() -> None:
    control = Control()
    async with served(control) as connect:
        async with connect() as caller:
            await caller.send(f"{PUT % 0}content-length: {len(TABLE) + 1}\r\n\r\n".encode() + TABLE)
            caller.vanish()
        async with asyncio.timeout(DEADLINE_S):
            while not control.lines:
                await asyncio.sleep(0)
        async with connect() as next_one:
            assert (await next_one.ask(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")).status == 200
    assert (await control.state.read_table()).revision == 0
    assert control.events()[0]["error"] == "bad_request"


async def test_a_body_that_is_held_back_is_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BODY_TIMEOUT_S", 0.05)
    answer = await ask(Control(), f"{VALIDATE}content-length: 100\r\n\r\n".encode(), b"{")
    assert (answer.status, answer.json["error"]) == (408, "request_timeout")
    assert answer.value("connection") == "close"


async def test_a_stranger_s_body_is_not_waited_for() -> None:
    head = "PUT /v1/config HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n"
    answer = await ask(Control(), head.encode())
    assert (answer.status, answer.json["error"]) == (401, "unauthorized")


async def test_several_requests_on_one_connection_are_answered_in_order() -> None:
    async with served(Control()) as connect, connect() as caller:
        one = f"{VALIDATE}content-length: {len(TABLE)}\r\n\r\n".encode() + TABLE
        await caller.send(one * 3)
        assert [(await caller.answer()).json["valid"] for _ in range(3)] == [True] * 3


async def test_a_forwarded_address_is_not_believed() -> None:
    """Who may claim another address has as many guesses as they like."""
    control = Control()
    lines = "x-forwarded-for: 198.51.100.9\r\nforwarded: for=198.51.100.9\r\nx-real-ip: 198.51.100.9\r\n"
    async with served(control) as connect, connect() as caller:
        await caller.ask(f"GET /v1/config HTTP/1.1\r\n{BASE}{lines}\r\n".encode())
    assert control.events()[0]["client"] == "127.0.0.1"
