"""The tables of §6, row by row, over real sockets: what Access does, what the gateway takes it as, what the breaker
learns. Run over the gateway's own pooled connections and over httpx, so that no row rests on one reader of bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from common.routetable.upstreams import parse_upstream
from common.settings.secret import Secret
from dataplane.access.breaker import Breaker
from dataplane.access.client import AccessClient, AccessTransport
from dataplane.access.protocol import ANSWER_MAX_BYTES, AccessDecision
from dataplane.access.transport import PooledAccessTransport
from dataplane.errors import GatewayError
from dataplane.metrics import GatewayMetrics
from dataplane.net.timers import TimerWheel
from dataplane.upstream.client import PooledClient
from dataplane.upstream.pool import UpstreamPool
from tests.support.access_transport import RawAccess, RecordedLog, http_answer, httpx_transport, raw_access, route
from tests.support.ports import closed_port

TOKEN = "token-of-the-gateway"
MakeTransport = Callable[..., contextlib.AbstractAsyncContextManager[AccessTransport]]


@contextlib.asynccontextmanager
async def pooled_transport(url: str, timeout_s: float = 30.0) -> AsyncIterator[AccessTransport]:
    wheel = TimerWheel(time.monotonic)
    wheel.start()
    pool = UpstreamPool(wheel)
    try:
        client = PooledClient(pool, wheel, parse_upstream(url, version=2), timeout_s=timeout_s)
        yield PooledAccessTransport(client, Secret(TOKEN))
    finally:
        pool.close()
        wheel.stop()


@contextlib.asynccontextmanager
async def over_httpx(url: str) -> AsyncIterator[AccessTransport]:
    async with httpx_transport(url, TOKEN) as transport:
        yield transport


@pytest.fixture(params=[pooled_transport, over_httpx], ids=["pooled", "httpx"])
def make_transport(request: pytest.FixtureRequest) -> MakeTransport:
    made: MakeTransport = request.param
    return made


class Asker:
    """A client of one service with a breaker that opens at the first failure."""

    def __init__(self, transport: AccessTransport, timeout_s: float = 10.0) -> None:
        self.metrics = GatewayMetrics()
        self.client = AccessClient(
            transport,
            url="http://access",
            timeout_s=timeout_s,
            cache_max=10,
            breaker=Breaker(1, 3_600),
            metrics=self.metrics,
            log=RecordedLog(),  # type: ignore[arg-type]
        )

    async def ask(self) -> AccessDecision | GatewayError:
        try:
            return await self.client.decide("u-1", "w-1", route(ttl_ms=0), ("dev",))
        except GatewayError as error:
            return error

    @property
    def breaker_open(self) -> bool:
        return bool(self.metrics.access_breaker_open.value())


@contextlib.asynccontextmanager
async def asked(make_transport: MakeTransport, **given: Any) -> AsyncIterator[tuple[RawAccess, Asker]]:
    async with raw_access() as service, make_transport(service.url) as transport:
        asker = Asker(transport, **given)
        yield service, asker
        await asker.client.close()


@contextlib.asynccontextmanager
async def served(
    handler: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """The URL of a server of one connection, which is over when the block is left."""
    over = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        finally:
            over.set()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await asyncio.wait_for(over.wait(), 10)


async def test_the_request_is_a_post_of_the_question_with_the_token(make_transport: MakeTransport) -> None:
    async with asked(make_transport) as (service, asker):
        await asker.ask()
        head, body = service.requests[0]
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /v1/decisions HTTP/1.1"
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
    assert headers["authorization"] == f"Bearer {TOKEN}"
    assert headers["content-type"] == "application/json"
    assert body == b'{"subject":"u-1","workspaceId":"w-1","routeId":"app","roles":["dev"]}'


@pytest.mark.parametrize(
    ("reply", "decision"),
    [
        (http_answer(200, b'{"allow": true}'), AccessDecision(True)),
        (http_answer(200, b'{"allow": true}', "content-type: text/plain"), AccessDecision(True)),
        (http_answer(200, b'{"allow": false}'), AccessDecision(False, "access_denied")),
        (
            http_answer(200, b'{"allow": false, "reason": "the role is missing"}'),
            AccessDecision(False, "missing_role"),
        ),
        (
            http_answer(200, b'{"allow": false, "reasonCode": "missing_role"}'),
            AccessDecision(False, "missing_role"),
        ),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
            b'8\r\n{"allow"\r\n7\r\n: true}\r\n0\r\n\r\n',
            AccessDecision(True),
        ),
        (b'HTTP/1.0 200 OK\r\n\r\n{"allow": true}', AccessDecision(True)),
    ],
)
async def test_an_explicit_decision_decides_and_is_a_success(
    make_transport: MakeTransport, reply: bytes, decision: AccessDecision
) -> None:
    async with asked(make_transport) as (service, asker):
        service.reply = reply
        assert await asker.ask() == decision
        assert not asker.breaker_open


UNAVAILABLE: dict[str, bytes] = {
    **{
        f"status-{status}": http_answer(status, b'{"allow": true}')
        for status in (201, 202, 203, 206, 300, 301, 303, 307, 308, 401, 403, 404, 409, 418, 422, 429, 500, 502, 503)
    },
    "status-204": b"HTTP/1.1 204 X\r\nconnection: close\r\n\r\n",
    "redirect-302": http_answer(302, b"", "location: /v1/decisions"),
    "empty": http_answer(200, b""),
    "garbage": http_answer(200, b"\x00\xff\x17garbage"),
    "html": http_answer(200, b"<html>login</html>", "content-type: text/html"),
    "text-true": http_answer(200, b"true"),
    "no-allow": http_answer(200, b"{}"),
    "allow-false-as-text": http_answer(200, b'{"allow":"false"}'),
    "allow-true-as-text": http_answer(200, b'{"allow":"true"}'),
    "allow-1": http_answer(200, b'{"allow":1}'),
    "allow-0": http_answer(200, b'{"allow":0}'),
    "allow-null": http_answer(200, b'{"allow":null}'),
    "allow-twice": http_answer(200, b'{"allow":false,"allow":true}'),
    "nan": http_answer(200, b'{"allow":true,"x":NaN}'),
    "cut-mid-body": b'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"allow": true}',
    "cut-mid-head": b"HTTP/1.1 200 OK\r\ncontent-le",
    "cut-mid-chunk": b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nf\r\n{"allow": true}',
    "closed-without-a-byte": b"",
    "not-http": b"+OK ready\r\n\r\n",
    "over-64-KiB": http_answer(200, b'{"allow": true}' + b" " * ANSWER_MAX_BYTES),
    "over-64-KiB-chunked": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    + b"10001\r\n"
    + b'{"allow": true}'.ljust(0x10001)
    + b"\r\n0\r\n\r\n",
    "compressed": http_answer(200, b"\x1f\x8b\x08\x00", "content-encoding: gzip"),
}


@pytest.mark.parametrize("reply", UNAVAILABLE.values(), ids=UNAVAILABLE.keys())
async def test_anything_else_is_an_outage_and_a_failure(make_transport: MakeTransport, reply: bytes) -> None:
    async with asked(make_transport) as (service, asker):
        service.reply = reply
        error = await asker.ask()
        assert isinstance(error, GatewayError)
        assert error.code == "access_unavailable"
        assert error.detail
        assert asker.breaker_open
        assert asker.metrics.access_requests.value("unavailable") == 1


async def test_a_400_is_an_outage_that_counts_neither_way(make_transport: MakeTransport) -> None:
    async with asked(make_transport) as (service, asker):
        service.reply = http_answer(400, b'{"error": "bad_request"}')
        error = await asker.ask()
        assert isinstance(error, GatewayError)
        assert error.code == "access_unavailable"
        assert not asker.breaker_open
        assert asker.metrics.access_requests.value("rejected") == 1


async def test_a_service_that_does_not_answer_is_given_up_within_the_budget(make_transport: MakeTransport) -> None:
    async with asked(make_transport, timeout_s=0.05) as (service, asker):
        service.reply = None
        error = await asker.ask()
        assert isinstance(error, GatewayError)
        assert error.detail.startswith("timeout: ")
        assert asker.breaker_open
        await asyncio.wait_for(service.gone.wait(), 10)


async def test_an_answer_that_trickles_is_given_up_within_the_budget(make_transport: MakeTransport) -> None:
    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b'HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n{"allow"')
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    async with served(trickle) as url, make_transport(url) as transport:
        error = await Asker(transport, timeout_s=0.05).ask()
    assert isinstance(error, GatewayError)
    assert error.detail.startswith("timeout: ")


async def test_a_service_that_is_down_is_a_failure_that_names_the_connection(make_transport: MakeTransport) -> None:
    async with make_transport(f"http://127.0.0.1:{closed_port()}") as transport:
        asker = Asker(transport)
        error = await asker.ask()
        assert isinstance(error, GatewayError)
        assert error.detail.startswith("connect: ")
        assert asker.breaker_open


async def test_a_name_that_does_not_resolve_names_the_connection(make_transport: MakeTransport) -> None:
    async with make_transport("http://nowhere.invalid:3000") as transport:
        error = await Asker(transport).ask()
        assert isinstance(error, GatewayError)
        assert error.detail.startswith("connect: ")


async def test_a_service_that_speaks_no_tls_names_tls(make_transport: MakeTransport) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(http_answer(400))
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    async with served(plain) as url, make_transport(url.replace("http:", "https:")) as transport:
        error = await Asker(transport).ask()
    assert isinstance(error, GatewayError)
    assert error.detail.startswith("tls: ")


async def test_a_caller_that_leaves_takes_the_connection_and_is_no_failure(make_transport: MakeTransport) -> None:
    async with asked(make_transport) as (service, asker):
        service.reply = None
        waiting = asyncio.create_task(asker.ask())
        await asyncio.wait_for(service.asked.wait(), 10)
        waiting.cancel()
        await asyncio.wait_for(service.gone.wait(), 10)
        service.reply = http_answer(200, b'{"allow": true}')
        assert await asker.ask() == AccessDecision(True)
        assert not asker.breaker_open
