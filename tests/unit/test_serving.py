"""Servers on uvicorn hold no connection of a caller who sends no request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from common import serving
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
