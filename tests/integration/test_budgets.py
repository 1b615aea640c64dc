"""Every budget of §11.2 and of a connection, with small values; and what is left behind when one runs out."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dataplane.net.request_body import HELD_MAX_BYTES
from tests.support import upstreams
from tests.support.gateway import route, running, table
from tests.support.upstreams import Peer, ok, upstream

GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"


async def test_a_response_head_that_does_not_come_in_time_is_a_gateway_timeout(tmp_path: Path) -> None:
    document = table(route("", timeouts={"responseMs": 100}))
    async with upstream(upstreams.never_answers) as app:
        document["routes"][0]["upstream"] = app.url
        async with running(tmp_path, document) as gw:
            caller = await gw.connect()
            answer = await caller.ask(GET)
            assert (answer.status, answer.json["error"]) == (504, "gateway_timeout")
            await asyncio.wait_for(app.gone.wait(), 10)
            assert gw.metric("gateway_upstream_failures_total", route="r0", kind="timeout") == 1


async def test_the_response_budget_starts_when_the_request_is_sent(tmp_path: Path) -> None:
    """A slow upload must not be cut by a short response budget."""
    async with (
        upstream(upstreams.echoes) as app,
        running(tmp_path, table(route(app.url, timeouts={"responseMs": 200}))) as gw,
    ):
        caller = await gw.connect()
        await caller.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n")
        loop = asyncio.get_running_loop()
        for piece in (b"a", b"b", b"c"):
            waited: asyncio.Future[None] = loop.create_future()
            loop.call_later(0.15, waited.set_result, None)
            await waited
            await caller.send(piece)
        assert (await caller.ask(b"d")).body == b"abcd"


async def test_an_upload_without_progress_is_a_request_timeout_and_aborts_the_upstream(tmp_path: Path) -> None:
    async with (
        upstream(upstreams.echoes) as app,
        running(tmp_path, table(route(app.url, timeouts={"uploadMs": 100}))) as gw,
    ):
        caller = await gw.connect()
        await caller.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf")
        answer = await caller.answer()
        assert (answer.status, answer.json["error"]) == (408, "request_timeout")
        assert answer.value("connection") == "close"
        await asyncio.wait_for(app.gone.wait(), 10)


@pytest.mark.parametrize(
    ("timeouts", "written"),
    [({"firstByteMs": 100}, b""), ({"bodyMs": 100}, b"4\r\nhalf\r\n")],
)
async def test_a_response_body_without_progress_ends_the_stream(
    tmp_path: Path, timeouts: dict[str, int], written: bytes
) -> None:
    async def stalls(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + written)
        await peer.closed_by_gateway()

    async with upstream(stalls) as app, running(tmp_path, table(route(app.url, timeouts=timeouts))) as gw:
        caller = await gw.connect()
        await caller.send(GET)
        raw = await caller.rest()
        assert raw.startswith(b"HTTP/1.1 200")
        assert raw.endswith(b"\r\n\r\n" + written)
        await asyncio.wait_for(app.gone.wait(), 10)
        assert app.errors == [], "the gateway ended it, and not the upstream's own patience"
        assert (await gw.request_line())["outcome"] == "aborted"


@pytest.mark.parametrize("answer", [b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 304 Not Modified\r\n\r\n"])
async def test_a_response_without_a_body_has_no_first_byte_to_wait_for(tmp_path: Path, answer: bytes) -> None:
    async with (
        upstream(upstreams.answers_with(answer)) as app,
        running(tmp_path, table(route(app.url, timeouts={"firstByteMs": 1}))) as gw,
    ):
        assert (await gw.raw(GET)).status in (204, 304)


async def test_a_head_that_is_not_complete_in_time_is_a_request_timeout(tmp_path: Path) -> None:
    """Slowloris: one byte now and then must not hold a connection for longer than the head's budget."""
    async with running(tmp_path, table(route("http://127.0.0.1:9")), head_timeout_s=0.2) as gw:
        caller = await gw.connect()
        await caller.send(b"GET / HTTP/1.1\r\nhost: a\r\n")
        dripping = asyncio.create_task(_drip(caller))
        raw = await caller.rest()
        dripping.cancel()
        assert raw.startswith(b"HTTP/1.1 408")
        assert b'"request_timeout"' in raw
        assert (await gw.request_line())["error"] == "request_timeout"


async def _drip(caller: object) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await caller.send(b"x-a: b\r\n")  # type: ignore[attr-defined]
        waited: asyncio.Future[None] = loop.create_future()
        loop.call_later(0.02, waited.set_result, None)
        await waited


async def test_an_idle_connection_is_closed_without_an_answer(tmp_path: Path) -> None:
    async with running(tmp_path, table(route("http://127.0.0.1:9")), keepalive_timeout_s=0.1) as gw:
        caller = await gw.connect()
        assert await caller.rest() == b""
        assert gw.requests() == []


async def test_a_connection_over_the_bound_is_told_and_closed(tmp_path: Path) -> None:
    async with upstream(upstreams.answers) as app, running(tmp_path, table(route(app.url)), max_connections=1) as gw:
        first = await gw.connect()
        assert (await first.ask(GET)).status == 200
        second = await gw.connect()
        raw = await second.rest()
        assert raw.startswith(b"HTTP/1.1 503")
        assert b"gateway_overloaded" in raw
        assert b"retry-after" in raw
        assert (await first.ask(GET)).status == 200


async def test_a_request_beyond_the_exchange_bound_is_refused_at_once_and_a_slot_comes_free(tmp_path: Path) -> None:
    async def waits(peer: Peer) -> None:
        await peer.read_request()
        await peer.upstream.release.wait()  # type: ignore[attr-defined]
        await peer.write(ok())

    async with upstream(waits) as app, running(tmp_path, table(route(app.url)), max_concurrent_requests=1) as gw:
        app.release = asyncio.Event()  # type: ignore[attr-defined]
        first = await gw.connect()
        await first.send(GET)
        await asyncio.wait_for(app.arrived.wait(), 10)
        refused = await gw.raw(GET)
        assert (refused.status, refused.json["error"]) == (503, "gateway_overloaded")
        assert refused.value("retry-after") == "1"
        app.release.set()  # type: ignore[attr-defined]
        assert (await first.answer()).status == 200
        await gw.settled()
        assert (await gw.raw(GET)).status == 200


async def test_a_request_beyond_the_admission_bound_is_refused_at_once(tmp_path: Path) -> None:
    async with (
        upstream(upstreams.never_answers) as app,
        running(tmp_path, table(route(app.url)), max_pending_requests=1) as gw,
    ):
        first = await gw.connect()
        await first.send(GET)
        await asyncio.wait_for(app.arrived.wait(), 10)
        refused = await gw.raw(GET)
        assert (refused.status, refused.json["error"]) == (503, "gateway_overloaded")
        line = await gw.request_line()
        assert line["route"] == "unmatched"
        first.vanish()
        await gw.settled()
        assert gw.metric("gateway_active_requests") == 0


async def test_a_caller_that_does_not_read_does_not_make_the_gateway_hold_the_response(tmp_path: Path) -> None:
    written = 0
    paused = asyncio.Event()

    async def floods(peer: Peer) -> None:
        nonlocal written
        await peer.read_request()
        await peer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % 500_000_000)
        block = b"x" * 65_536
        try:
            while True:
                peer.writer.write(block)
                written += len(block)
                await asyncio.wait_for(peer.writer.drain(), 0.5)
        except TimeoutError:
            paused.set()
        peer.reset()

    async with upstream(floods) as app, running(tmp_path, table(route(app.url, timeouts={"bodyMs": 60_000}))) as gw:
        _reader, writer = await asyncio.open_connection("127.0.0.1", gw.port, limit=1024)
        writer.write(GET)
        await asyncio.wait_for(paused.wait(), 30)
        assert written < 64_000_000, "socket buffers of the kernel, and no more"
        writer.transport.abort()
        await gw.settled()


async def test_an_upstream_that_does_not_read_stops_the_reading_of_the_upload(tmp_path: Path) -> None:
    async def deaf(peer: Peer) -> None:
        await peer.read_head()
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.Event().wait()

    async with upstream(deaf) as app:
        document = table(route(app.url, maxBodyBytes=0))
        async with running(tmp_path, document) as gw:
            caller = await gw.connect()
            await caller.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 500000000\r\n\r\n")
            sent = 0
            block = b"x" * 65_536
            try:
                while sent < 200_000_000:
                    caller.writer.write(block)
                    sent += len(block)
                    await asyncio.wait_for(caller.writer.drain(), 1)
            except TimeoutError:
                pass
            assert sent < 64_000_000, "socket buffers of the kernel, and no more"
            caller.vanish()
            await gw.settled()


async def test_a_refused_request_with_a_body_at_the_holding_bound_leaves_the_connection_usable(tmp_path: Path) -> None:
    """A body that was held whole, and never taken, must not keep the socket from being read again."""
    document = table(route("http://127.0.0.1:9", auth={"mode": "jwt-only"}))
    async with running(tmp_path, document) as gw:
        caller = await gw.connect()
        for size in (1, HELD_MAX_BYTES - 1, HELD_MAX_BYTES):
            caller.writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)
            answer = await caller.answer()
            assert answer.status == 401
            if "connection" in dict(answer.headers):  # the body was not all here yet when it was refused
                caller = await gw.connect()


async def test_pipelined_requests_beyond_the_bound_are_read_later_and_all_answered(tmp_path: Path) -> None:
    async with upstream(upstreams.answers) as app, running(tmp_path, table(route(app.url))) as gw:
        caller = await gw.connect()
        request = b"GET / HTTP/1.1\r\nhost: a\r\nx-fill: " + b"y" * 8_000 + b"\r\n\r\n"
        sending = asyncio.create_task(caller.send(request * 60))
        for _ in range(60):
            assert (await caller.answer()).status == 200
        await sending
