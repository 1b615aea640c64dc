"""What the caller sees when an upstream misbehaves, and where a request may go next (§11.3, §11.4)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path

import pytest

from tests.support import upstreams
from tests.support.gateway import Caller, route, running, table
from tests.support.upstreams import Peer, answers_and_closes, answers_with, ok, upstream

GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi"


def closed_port() -> int:
    """A port that nothing listens on: bound once, so that no other test gets it meanwhile."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def refused() -> str:
    return f"http://127.0.0.1:{closed_port()}"


@pytest.mark.parametrize(
    "script",
    [
        upstreams.closes_without_answer,
        upstreams.resets_without_answer,
        answers_and_closes(b"HTTP/1.1 200 OK\r\ncontent-le"),
        answers_and_closes(b"not http at all\r\n\r\n"),
        answers_and_closes(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"),
        answers_and_closes(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        answers_and_closes(b"HTTP/1.1 200 OK\nx: y\n\n"),
        answers_and_closes(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"),
        answers_and_closes(b"HTTP/1.1 103 Early Hints\r\n\r\n"),
        answers_and_closes(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000 + b"\r\n\r\n"),
        answers_and_closes(b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
        answers_and_closes(b"HTTP/2.0 200 OK\r\n\r\n"),
    ],
)
@pytest.mark.parametrize("request_bytes", [GET, POST])
async def test_a_broken_answer_is_a_bad_gateway_and_the_next_request_works(
    tmp_path: Path, script: upstreams.Script, request_bytes: bytes
) -> None:
    async with (
        upstream(script) as broken,
        upstream(upstreams.answers) as app,
        running(tmp_path, table(route(broken.url), route(app.url, "/fine"))) as gw,
    ):
        caller = await gw.connect()
        answer = await caller.ask(request_bytes)
        assert (answer.status, answer.json["error"]) == (502, "bad_gateway")
        assert answer.value("proxy-status").startswith("wicketgate; error=")
        assert (await caller.ask(b"GET /fine HTTP/1.1\r\nhost: a\r\n\r\n")).status == 200
        assert len(broken.requests) == 1, "nothing was sent twice"
        line = await gw.request_line()
        assert (line["outcome"], line["error"]) == ("failed", "bad_gateway")
        assert line["detail"]


async def test_a_refused_connection_is_a_bad_gateway_naming_the_cause_in_the_log_alone(tmp_path: Path) -> None:
    url = refused()
    async with running(tmp_path, table(route(url))) as gw:
        answer = await gw.raw(GET)
        assert (answer.status, answer.json["error"]) == (502, "bad_gateway")
        assert url.split("://")[1].encode() not in answer.body
        assert url in (await gw.request_line())["detail"]
        assert gw.metric("gateway_upstream_failures_total", route="r0", kind="connect") == 1


async def test_an_unresolvable_name_is_a_bad_gateway(tmp_path: Path) -> None:
    async with running(tmp_path, table(route("http://no-such-host.invalid:1"))) as gw:
        assert (await gw.raw(GET)).status == 502


@pytest.mark.parametrize(
    "request_bytes",
    [GET, POST, b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"],
)
async def test_any_request_goes_to_the_next_upstream_when_no_connection_was_established(
    tmp_path: Path, request_bytes: bytes
) -> None:
    async with upstream(upstreams.echoes) as app, running(tmp_path, table(route([refused(), app.url]))) as gw:
        answer = await gw.raw(request_bytes)
        assert answer.status == 200
        assert answer.body == (b"" if request_bytes == GET else b"hi")


@pytest.mark.parametrize("script", [upstreams.closes_without_answer, upstreams.resets_without_answer])
@pytest.mark.parametrize("request_bytes", [GET, POST])
async def test_a_request_that_reached_an_upstream_is_not_sent_to_another(
    tmp_path: Path, script: upstreams.Script, request_bytes: bytes
) -> None:
    async with (
        upstream(script) as first,
        upstream(upstreams.answers) as second,
        running(tmp_path, table(route([first.url, second.url]))) as gw,
    ):
        assert (await gw.raw(request_bytes)).status == 502
        assert second.connections == 0


async def test_a_kept_connection_that_was_closed_is_replaced_once_for_a_safe_request(tmp_path: Path) -> None:
    async with upstream(upstreams.closes_kept_connection) as app, running(tmp_path, table(route(app.url))) as gw:
        for _ in range(4):
            assert (await gw.raw(GET)).status == 200
        assert app.connections == 4


async def test_post_is_never_sent_twice_over_a_kept_connection_that_closes(tmp_path: Path) -> None:
    """A payment that is made twice costs more than one that the caller is told failed."""
    async with upstream(upstreams.closes_kept_connection) as app, running(tmp_path, table(route(app.url))) as gw:
        assert (await gw.raw(GET)).status == 200
        assert (await gw.raw(POST)).status == 502
        assert [request.line.split()[0] for request in app.requests] == ["GET", "POST"]
        assert app.connections == 1


async def test_an_upstream_that_speaks_unasked_is_not_used_again(tmp_path: Path) -> None:
    async def speaks(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(ok())
        await peer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil")
        await peer.closed_by_gateway()

    async with upstream(speaks) as app, running(tmp_path, table(route(app.url))) as gw:
        for _ in range(3):
            assert (await gw.raw(GET)).body == b"ok"
            app.gone.clear()
        assert app.connections == 3


async def test_an_attempt_over_its_budget_goes_to_the_next_upstream_for_safe_requests(tmp_path: Path) -> None:
    async with (
        upstream(upstreams.never_answers) as slow,
        upstream(upstreams.answers) as app,
        running(tmp_path, table(route([slow.url, app.url], upstreamAttemptMs=50))) as gw,
    ):
        assert (await gw.raw(GET)).status == 200
        assert gw.metric("gateway_upstream_failures_total", route="r0", kind="attempt") == 1
        await asyncio.wait_for(slow.gone.wait(), 10)


async def test_an_attempt_budget_never_moves_a_post(tmp_path: Path) -> None:
    document = table(route([], "/", upstreamAttemptMs=50, timeouts={"responseMs": 300}))
    async with upstream(upstreams.never_answers) as slow, upstream(upstreams.answers) as app:
        document["routes"][0]["upstream"] = [slow.url, app.url]
        async with running(tmp_path, document) as gw:
            answer = await gw.raw(POST)
            assert (answer.status, answer.json["error"]) == (504, "gateway_timeout")
            assert app.connections == 0


async def test_a_short_body_is_held_and_sent_again(tmp_path: Path) -> None:
    get = b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi"
    async with (
        upstream(upstreams.never_answers) as slow,
        upstream(upstreams.echoes) as app,
        running(tmp_path, table(route([slow.url, app.url], upstreamAttemptMs=50))) as gw,
    ):
        assert (await gw.raw(get)).body == b"hi"
        assert slow.requests[0].body == b"hi"


async def test_the_response_budget_covers_all_attempts(tmp_path: Path) -> None:
    async with upstream(upstreams.never_answers) as a, upstream(upstreams.never_answers) as b:
        document = table(route([a.url, b.url], upstreamAttemptMs=100, timeouts={"responseMs": 300}))
        async with running(tmp_path, document) as gw:
            answer = await gw.raw(GET)
            assert (answer.status, answer.json["error"]) == (504, "gateway_timeout")
            line = await gw.request_line()
            assert 300 <= line["durationMs"] < 2_000


async def test_an_upstream_that_failed_lately_is_tried_last_even_for_a_post(tmp_path: Path) -> None:
    bad = refused()
    async with upstream(upstreams.echoes) as app:
        document = table(route([bad, app.url]))
        async with running(tmp_path, document, upstream_breaker_failures=2) as gw:
            for _ in range(2):
                assert (await gw.raw(GET)).status == 200
            assert (await gw.raw(POST)).body == b"hi"
            assert gw.metric("gateway_upstream_failures_total", route="r0", kind="connect") == 2
            assert gw.metric("gateway_upstreams_skipped_total", route="r0") == 1


@pytest.mark.parametrize("script", [upstreams.resets_mid_body, upstreams.cuts_chunked_body])
async def test_a_body_that_breaks_off_ends_the_response_and_the_connection(
    tmp_path: Path, script: upstreams.Script
) -> None:
    async with upstream(script) as app, running(tmp_path, table(route(app.url))) as gw:
        caller = await gw.connect()
        await caller.send(GET)
        raw = await caller.rest()
        head, _, body = raw.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert b"half" in body
        assert not body.endswith(b"0\r\n\r\n"), "the caller must see that the body is not whole"
        assert raw.count(b"HTTP/1.1") == 1, "there is never a second response"
        line = await gw.request_line()
        assert (line["status"], line["outcome"]) == (200, "aborted")
        assert gw.metric("gateway_aborted_total", route="r0", side="upstream") == 1


@pytest.mark.parametrize("size", [10, 300_000, 5_000_000])
async def test_an_early_answer_reaches_the_caller_while_it_still_sends(tmp_path: Path, size: int) -> None:
    async with upstream(upstreams.answers_early) as app, running(tmp_path, table(route(app.url))) as gw:
        for _ in range(10):
            caller = await gw.connect()
            head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % size
            sending = asyncio.create_task(_send(caller, head + b"x" * size))
            answer = await caller.answer()
            assert (answer.status, answer.body) == (413, b"large")
            await sending
            caller.close()
        assert gw.metric("gateway_upstream_failures_total", route="r0", kind="reset") == 0


async def _send(caller: Caller, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):  # the gateway has answered and stopped reading
        await caller.send(data)


async def test_an_upstream_may_answer_and_go_on_reading(tmp_path: Path) -> None:
    async def duplex(peer: Peer) -> None:
        await peer.read_head()
        await peer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(3):
            data = await asyncio.wait_for(peer.reader.readexactly(5), 10)
            await peer.write(b"5\r\n" + data + b"\r\n")
        await peer.write(b"0\r\n\r\n")

    async with upstream(duplex) as app, running(tmp_path, table(route(app.url))) as gw:
        caller = await gw.connect()
        await caller.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 15\r\n\r\n")
        await asyncio.wait_for(caller.reader.readuntil(b"\r\n\r\n"), 10)
        for word in (b"first", b"secnd", b"third"):
            await caller.send(word)
            assert await asyncio.wait_for(caller.reader.readuntil(word + b"\r\n"), 10) == b"5\r\n" + word + b"\r\n"


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_limit_is_refused_wherever_it_is_found(tmp_path: Path, chunked: bool) -> None:
    body = b"6\r\nabcdef\r\n0\r\n\r\n" if chunked else b"abcdef"
    framing = b"transfer-encoding: chunked" if chunked else b"content-length: 6"
    async with upstream(upstreams.echoes) as app, running(tmp_path, table(route(app.url, maxBodyBytes=5))) as gw:
        answer = await gw.raw(b"POST / HTTP/1.1\r\nhost: a\r\n" + framing + b"\r\n\r\n" + body)
        assert (answer.status, answer.json["error"]) == (413, "payload_too_large")
        await gw.settled()
        assert not any(request.body for request in app.requests)


async def test_a_body_of_exactly_the_limit_passes(tmp_path: Path) -> None:
    async with upstream(upstreams.echoes) as app, running(tmp_path, table(route(app.url, maxBodyBytes=2))) as gw:
        assert (await gw.raw(POST)).body == b"hi"


async def test_a_malformed_chunk_aborts_the_upstream_request(tmp_path: Path) -> None:
    async with upstream(upstreams.echoes) as app, running(tmp_path, table(route(app.url))) as gw:
        caller = await gw.connect()
        await caller.send(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
        await asyncio.wait_for(app.arrived.wait(), 10)
        await caller.send(b"5\r\nhelloXX0\r\n\r\nGET /hidden HTTP/1.1\r\nhost: a\r\n\r\n")
        raw = await caller.rest()
        assert raw.startswith(b"HTTP/1.1 400")
        assert raw.count(b"HTTP/1.1") == 1
        await asyncio.wait_for(app.gone.wait(), 10)
        assert len(app.requests) == 1


async def test_location_of_the_upstream_itself_is_made_relative(tmp_path: Path) -> None:
    async def redirects(peer: Peer) -> None:
        await peer.read_request()
        location = f"{peer.upstream.url}/next?x=1"
        await peer.write(b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\nlocation: " + location.encode() + b"\r\n\r\n")

    async with upstream(redirects) as app, running(tmp_path, table(route(app.url))) as gw:
        assert (await gw.raw(GET)).value("location") == "/next?x=1"


async def test_a_hostile_header_never_passes_to_the_caller(tmp_path: Path) -> None:
    response = ok(b"ok", b"set-cookie: gateway_session=evil\r\nx-gateway-user-id: admin\r\nX_Gateway_Roles: admin\r\n")
    async with upstream(answers_with(response)) as app, running(tmp_path, table(route(app.url))) as gw:
        raw_head = (await gw.raw(GET)).raw_head.lower()
        assert b"evil" not in raw_head
        assert b"admin" not in raw_head
