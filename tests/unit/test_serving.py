"""Servers on uvicorn hold no connection of a caller who sends no request."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest

from common import connections, serving
from common.connections import Places
from common.serving import Server, listening_socket
from tests.support.control import Control

WITHIN_S = 20


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """A server that gives 50 ms for a head."""
    monkeypatch.setattr(serving, "HEAD_TIMEOUT_S", 0.05)
    server = Server(Control().plane.app, drain_s=1)
    with listening_socket("127.0.0.1", 0) as sock:
        running = asyncio.create_task(server.serve(sockets=[sock]))
        await server.listening.wait()
        yield int(sock.getsockname()[1])
        server.end()
        await running


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHos"])
async def test_a_head_that_does_not_come_ends_the_connection(port: int, sent: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    async with asyncio.timeout(WITHIN_S):
        assert await reader.read() == b""
    writer.close()


async def test_so_does_the_rest_of_a_body_behind_its_answer(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"PUT /v1/config HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
    async with asyncio.timeout(WITHIN_S):
        assert b" 401 " in await reader.readline()
        writer.write(b"x")
        await reader.read()
    writer.close()


async def test_a_request_in_time_is_answered_however_long_its_body_takes(port: int) -> None:
    """Its own limit is the body's; the head's time is over with the head."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(serving.HEAD_TIMEOUT_S * 4, over.set)
    token = b"config-token-0123456789abcdefghijkl"
    writer.write(
        b"POST /v1/config/validate HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "
        + token
        + b"\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{"
    )
    async with asyncio.timeout(WITHIN_S):
        await over.wait()
        writer.write(b"}")
        assert b" 200 " in await reader.readline()
    writer.close()


PROBE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


async def asked(port: int, request: bytes = PROBE) -> tuple[bytes, asyncio.StreamWriter]:
    """The status line of an answer, over a connection that stays open."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(WITHIN_S):
        writer.write(request)
        return await reader.readline(), writer


@dataclass
class Few:
    """A server of few connections."""

    server: Server
    port: int

    async def until(self, condition: Callable[[int], bool]) -> None:
        """Wait until this is so of the number of its connections."""
        while not condition(len(self.server.server_state.connections)):
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def serving_few(monkeypatch: pytest.MonkeyPatch, most: int) -> AsyncIterator[Few]:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", most)
    server = Server(Control().plane.app, drain_s=1)
    with listening_socket("127.0.0.1", 0) as sock:
        running = asyncio.create_task(server.serve(sockets=[sock]))
        await server.listening.wait()
        yield Few(server, int(sock.getsockname()[1]))
        server.end()
        await running


async def test_a_connection_beyond_the_bound_is_told_503_in_json_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else whoever opens enough of them takes the descriptors that the program needs for itself."""
    async with serving_few(monkeypatch, 8) as few:
        port = few.port
        open_ones = [await asked(port) for _ in range(8)]
        assert {line for line, _ in open_ones} == {b"HTTP/1.1 200 OK\r\n"}
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(WITHIN_S):
            writer.write(PROBE + b"PUT /v1/config HTTP/1.1\r\n" + b"x" * 100_000)
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert {b"retry-after: 1", b"connection: close", b"content-type: application/json"} <= set(head.split(b"\r\n"))
        assert json.loads(body)["error"] == "overloaded"
        writer.close()
        open_ones[0][1].close()
        async with asyncio.timeout(WITHIN_S):
            line, again = await asked(port)
            while b" 503 " in line:  # until the end of the other connection is seen
                again.close()
                line, again = await asked(port)
        assert b" 200 " in line
        for _, each in [*open_ones, (b"", again)]:
            each.close()


async def test_a_flood_of_connections_leaves_the_next_caller_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving_few(monkeypatch, 8) as few:
        port = few.port
        flood = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
        for _, writer in flood:
            writer.transport.abort()
        async with asyncio.timeout(WITHIN_S):
            line, last = await asked(port)
            while b" 200 " not in line:
                last.close()
                line, last = await asked(port)
        last.close()


def test_one_host_has_its_share_and_others_have_the_rest() -> None:
    places = Places(8, 2)
    assert [places.take("a") for _ in range(3)] == [True, True, False]
    assert [places.take(host) for host in "bbcc"] == [True] * 4
    assert [places.take(host) for host in "ddee"] == [True, True, False, False]
    places.leave("a")
    assert [places.take("b"), places.take("e"), places.take("a")] == [False, True, False]


def test_descriptors_are_left_for_the_program_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    for soft, most in ((1_024, 924), (200, 100), (64, 8), (resource.RLIM_INFINITY, 1_000), (65_536, 1_000)):
        monkeypatch.setattr(resource, "getrlimit", lambda _kind, soft=soft: (soft, soft))
        assert connections.connections_max() == most


async def test_a_caller_who_does_not_take_its_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of the reference is over a megabyte, and needs no token: such callers could hold every connection."""
    monkeypatch.setattr(serving, "STALLED_S", 0.05)
    async with serving_few(monkeypatch, 8) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n" * 12)
        async with asyncio.timeout(WITHIN_S):
            await server.until(lambda open_ones: open_ones == 1)
            await server.until(lambda open_ones: open_ones == 0)
        line, other = await asked(server.port)
        assert b" 200 " in line
        other.close()
        writer.transport.abort()


async def test_a_body_in_very_many_tiny_chunks_is_400_and_closes(port: int) -> None:
    """Each chunk costs some 20 microseconds: a megabyte of them would stop everybody for half a minute."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = b"POST /v1/config/validate HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer config-token-0123456789abcdefghijkl"
    writer.write(head + b"\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    writer.write(b"1\r\n \r\n" * (serving.PIECES_FREE + 1))
    async with asyncio.timeout(WITHIN_S):
        assert await reader.readline() == b"HTTP/1.1 400 Bad Request\r\n"
        await reader.read()
    writer.close()
