"""One request through a real gateway to a raw upstream, to the byte."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support import upstreams
from tests.support.gateway import route, running, table
from tests.support.upstreams import Peer, answers_with, ok, upstream


async def test_a_request_reaches_the_upstream_with_the_gateways_headers_and_comes_back(tmp_path: Path) -> None:
    async with (
        upstream(answers_with(ok(b"hello", b"x-app: 1\r\n"))) as app,
        running(tmp_path, table(route(app.url))) as gw,
    ):
        answer = await gw.get("/a/b?x=1", "user-agent: test", "x-request-id: given-id")
        assert (answer.status, answer.body) == (200, b"hello")
        assert answer.value("x-app") == "1"
        assert answer.value("x-request-id") == "given-id"
        request = app.requests[0]
        assert request.line == "GET /a/b?x=1 HTTP/1.1"
        assert request.values(b"host") == [f"127.0.0.1:{app.port}".encode()]
        assert request.values(b"x-request-id") == [b"given-id"]
        assert request.values(b"x-forwarded-for") == [b"127.0.0.1"]
        assert request.values(b"x-forwarded-host") == [b"app.test"]
        assert request.values(b"x-forwarded-proto") == [b"http"]
        assert request.values(b"content-length") == []
        line = await gw.request_line()
        assert line["status"] == 200
        assert line["outcome"] == "ok"
        assert line["upstream"] == app.url
        assert line["bytesOut"] == 5


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "PROPFIND"])
async def test_a_body_with_a_length_keeps_it(tmp_path: Path, method: str) -> None:
    async with upstream(upstreams.echoes) as app, running(tmp_path, table(route(app.url))) as gw:
        answer = await gw.raw(f"{method} / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello".encode())
        assert answer.body == b"hello"
        assert app.requests[0].values(b"content-length") == [b"5"]
        assert app.requests[0].values(b"transfer-encoding") == []


async def test_a_chunked_body_is_framed_anew_and_its_trailers_and_extensions_are_dropped(tmp_path: Path) -> None:
    async with upstream(upstreams.echoes) as app, running(tmp_path, table(route(app.url))) as gw:
        answer = await gw.raw(
            b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ntrailer: x-late\r\n\r\n"
            b"3;name=value\r\nabc\r\n2\r\nde\r\n0\r\nx-late: 1\r\nx-gateway-user-id: admin\r\n\r\n"
        )
        assert answer.body == b"abcde"
        assert app.requests[0].values(b"transfer-encoding") == [b"chunked"]
        assert app.requests[0].values(b"trailer") == []


async def test_an_empty_post_says_its_length(tmp_path: Path) -> None:
    async with upstream(upstreams.echoes) as app, running(tmp_path, table(route(app.url))) as gw:
        assert (await gw.raw(b"POST / HTTP/1.1\r\nhost: a\r\n\r\n")).status == 200
        assert app.requests[0].values(b"content-length") == [b"0"]


async def test_requests_on_one_connection_are_answered_in_order_pipelined_or_not(tmp_path: Path) -> None:
    async def numbers(peer: Peer) -> None:
        while True:
            request = await peer.read_request()
            await peer.write(ok(request.line.split()[1].encode()))

    async with upstream(numbers) as app, running(tmp_path, table(route(app.url))) as gw:
        caller = await gw.connect()
        pipeline = b"".join(b"GET /%d HTTP/1.1\r\nhost: a\r\n\r\n" % n for n in range(20))
        await caller.send(
            pipeline + b"POST /20 HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabcGET /21 HTTP/1.1\r\n"
        )
        for n in range(21):
            assert (await caller.answer()).body == b"/%d" % n
        assert (await caller.ask(b"host: a\r\n\r\n")).body == b"/21"
        assert app.connections == 1


async def test_an_upstream_connection_is_used_again(tmp_path: Path) -> None:
    async with upstream(upstreams.answers) as app, running(tmp_path, table(route(app.url))) as gw:
        for _ in range(5):
            assert (await gw.get()).status == 200
        assert app.connections == 1


@pytest.mark.parametrize(
    ("response", "status"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204),
        (b"HTTP/1.1 205 Reset Content\r\ncontent-length: 0\r\n\r\n", 205),
        (b'HTTP/1.1 304 Not Modified\r\netag: "a"\r\n\r\n', 304),
        (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 10\r\n\r\n", 304),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 200),
    ],
)
async def test_a_response_without_a_body_leaves_the_connection_in_order(
    tmp_path: Path, response: bytes, status: int
) -> None:
    async with upstream(answers_with(response)) as app, running(tmp_path, table(route(app.url))) as gw:
        caller = await gw.connect()
        for _ in range(3):
            answer = await caller.ask(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            assert (answer.status, answer.body) == (status, b"")


async def test_head_is_answered_without_a_body_and_keeps_the_length(tmp_path: Path) -> None:
    async with (
        upstream(answers_with(b"HTTP/1.1 200 OK\r\ncontent-length: 1234\r\n\r\n")) as app,
        running(tmp_path, table(route(app.url))) as gw,
    ):
        caller = await gw.connect()
        for _ in range(2):
            answer = await caller.ask(b"HEAD / HTTP/1.1\r\nhost: a\r\n\r\n", "HEAD")
            assert answer.value("content-length") == "1234"
        assert app.connections == 1


@pytest.mark.parametrize(
    ("method", "response"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil"),
        ("GET", b"HTTP/1.1 204 No Content\r\ncontent-length: 4\r\n\r\nevil"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\ntransfer-encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n"),
        ("GET", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil"),
    ],
)
async def test_bytes_behind_a_response_never_become_the_next_one(tmp_path: Path, method: str, response: bytes) -> None:
    served = 0

    async def script(peer: Peer) -> None:
        nonlocal served
        await peer.read_request()
        served += 1
        await peer.write(response if served == 1 else ok(b"second"))
        await peer.closed_by_gateway()

    async with upstream(script) as app, running(tmp_path, table(route(app.url))) as gw:
        caller = await gw.connect()
        await caller.ask(f"{method} / HTTP/1.1\r\nhost: a\r\n\r\n".encode(), method)
        answer = await caller.ask(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        assert answer.body == b"second"
        assert app.connections == 2


@pytest.mark.parametrize(
    "interim",
    [
        b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 102 Processing\r\n\r\n" * 3,
    ],
)
async def test_interim_responses_are_not_forwarded(tmp_path: Path, interim: bytes) -> None:
    async with upstream(answers_with(interim + ok(b"final"))) as app, running(tmp_path, table(route(app.url))) as gw:
        caller = await gw.connect()
        await caller.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        head = await asyncio.wait_for(caller.reader.readuntil(b"\r\n\r\n"), 10)
        assert head.startswith(b"HTTP/1.1 200")


async def test_a_chunked_response_is_framed_anew_and_its_trailers_are_dropped(tmp_path: Path) -> None:
    response = (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\nset-cookie: gateway_session=x\r\n\r\n"
    )
    async with upstream(answers_with(response)) as app, running(tmp_path, table(route(app.url))) as gw:
        caller = await gw.connect()
        await caller.send(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        raw = await caller.rest()
        assert raw.endswith(b"\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
        assert b"gateway_session" not in raw


async def test_a_response_that_ends_with_its_connection_arrives_whole(tmp_path: Path) -> None:
    script = upstreams.answers_and_closes(b"HTTP/1.1 200 OK\r\n\r\nuntil close")
    async with upstream(script) as app, running(tmp_path, table(route(app.url))) as gw:
        caller = await gw.connect()
        for _ in range(2):
            answer = await caller.ask(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            assert answer.body == b"until close"
            assert answer.value("transfer-encoding") == "chunked"


async def test_an_http_1_0_caller_gets_no_chunks(tmp_path: Path) -> None:
    response = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    async with upstream(answers_with(response)) as app, running(tmp_path, table(route(app.url))) as gw:
        caller = await gw.connect()
        await caller.send(b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
        raw = await caller.rest()
        assert raw.endswith(b"\r\n\r\nabc")
        assert b"transfer-encoding" not in raw
        assert b"connection: close" in raw
        assert app.requests[0].values(b"x-forwarded-host") == []


async def test_an_http_1_0_caller_may_keep_its_connection(tmp_path: Path) -> None:
    async with upstream(upstreams.answers) as app, running(tmp_path, table(route(app.url))) as gw:
        caller = await gw.connect()
        for _ in range(2):
            answer = await caller.ask(b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
            assert answer.value("connection") == "keep-alive"
        await caller.send(b"GET / HTTP/1.0\r\n\r\n")
        assert b"connection: close" in await caller.rest()


async def test_continue_is_sent_when_the_body_is_wanted(tmp_path: Path) -> None:
    async with upstream(upstreams.echoes) as app, running(tmp_path, table(route(app.url))) as gw:
        caller = await gw.connect()
        await caller.send(b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
        assert await asyncio.wait_for(caller.reader.readuntil(b"\r\n\r\n"), 10) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert (await caller.ask(b"hi")).body == b"hi"
        assert app.requests[0].values(b"expect") == []


async def test_a_refused_upload_is_never_asked_for(tmp_path: Path) -> None:
    async with upstream(upstreams.echoes) as app, running(tmp_path, table(route(app.url, maxBodyBytes=1))) as gw:
        caller = await gw.connect()
        await caller.send(b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
        raw = await caller.rest()
        assert raw.startswith(b"HTTP/1.1 413")
        assert b"connection: close" in raw
        assert app.connections == 0


async def test_repeated_headers_stay_separate_and_bytes_untouched(tmp_path: Path) -> None:
    cookies = b"set-cookie: a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT\r\nset-cookie: b=2\r\nset-cookie: a=3\r\n"
    extra = cookies + b"content-encoding: gzip\r\nvary: a\r\nvary: b\r\nx-latin: caf\xe9\r\n"
    body = bytes(range(256))
    async with upstream(answers_with(ok(body, extra))) as app, running(tmp_path, table(route(app.url))) as gw:
        answer = await gw.get("/", "accept-encoding: br")
        assert answer.body == body
        assert answer.values("set-cookie") == ["a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT", "b=2", "a=3"]
        assert answer.values("vary") == ["a", "b"]
        assert answer.value("x-latin") == "caf\xe9"
        assert app.requests[0].values(b"accept-encoding") == [b"br"]


async def test_events_reach_the_caller_as_the_upstream_writes_them(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def events(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        for n in range(3):
            await peer.write(b"data: %d\n\n" % n)
            await go.wait()
            go.clear()

    async with upstream(events) as app, running(tmp_path, table(route(app.url))) as gw:
        caller = await gw.connect()
        await caller.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        await asyncio.wait_for(caller.reader.readuntil(b"\r\n\r\n"), 10)
        for n in range(3):
            chunk = await asyncio.wait_for(caller.reader.readuntil(b"\n\n\r\n"), 10)
            assert b"data: %d\n\n" % n in chunk
            go.set()


async def test_a_rewritten_path_a_literal_host_and_a_base_path_are_what_the_upstream_sees(tmp_path: Path) -> None:
    async with upstream(upstreams.answers) as app:
        document = table(
            route(app.url + "/base/", "/ws/{id}/", rewrite="/v1/{id}/{rest}", upstreamHost="internal.test"),
        )
        async with running(tmp_path, document) as gw:
            assert (await gw.get("/ws/a%20b/c%2Fd?q=%2F")).status == 200
            assert app.requests[0].line == "GET /base/v1/a%20b/c%2Fd?q=%2F HTTP/1.1"
            assert app.requests[0].values(b"host") == [b"internal.test"]
