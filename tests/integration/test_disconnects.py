"""A caller that leaves, in every phase: the upstream is let go of at once, nothing stays, and the log says so."""

from __future__ import annotations

import asyncio
import gc
import socket
from pathlib import Path

import pytest
import uvloop

from dataplane.upstream.connection import UpstreamConnection
from dataplane.upstream.relay import Relay
from tests.support import upstreams
from tests.support.gateway import Running, route, running, table
from tests.support.upstreams import Peer, ok, upstream

GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"


async def nothing_left(gw: Running) -> None:
    await gw.settled()
    async with asyncio.timeout(10):
        while len(gw.gateway.tasks):
            await asyncio.sleep(0)
    assert gw.metric("gateway_connections") == 0


@pytest.mark.parametrize("how", ["close", "vanish"])
async def test_before_the_response_head(tmp_path: Path, how: str) -> None:
    async with upstream(upstreams.never_answers) as app, running(tmp_path, table(route(app.url))) as gw:
        caller = await gw.connect()
        await caller.send(GET)
        await asyncio.wait_for(app.arrived.wait(), 10)
        getattr(caller, how)()
        await asyncio.wait_for(app.gone.wait(), 10)
        line = await gw.request_line()
        assert (line["status"], line["outcome"]) == (499, "aborted")
        await nothing_left(gw)
        assert gw.metric("gateway_requests_total", route="r0", method="GET", status="499") == 1
        assert gw.metric("gateway_aborted_total", route="r0", side="downstream") == 1
        assert gw.metric("gateway_upstream_failures_total", route="r0", kind="reset") == 0


@pytest.mark.parametrize("how", ["close", "vanish"])
async def test_within_its_upload(tmp_path: Path, how: str) -> None:
    async with upstream(upstreams.echoes) as app, running(tmp_path, table(route(app.url))) as gw:
        caller = await gw.connect()
        await caller.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nhalf")
        await asyncio.wait_for(app.arrived.wait(), 10)
        getattr(caller, how)()
        await asyncio.wait_for(app.gone.wait(), 10)
        assert (await gw.request_line())["status"] == 499
        await nothing_left(gw)


@pytest.mark.parametrize("how", ["close", "vanish"])
async def test_within_a_stream(tmp_path: Path, how: str) -> None:
    async def streams(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n")
        await peer.closed_by_gateway()

    async with upstream(streams) as app, running(tmp_path, table(route(app.url))) as gw:
        caller = await gw.connect()
        await caller.send(GET)
        await asyncio.wait_for(caller.reader.readuntil(b"data: 1"), 10)
        getattr(caller, how)()
        await asyncio.wait_for(app.gone.wait(), 10)
        line = await gw.request_line()
        assert (line["status"], line["outcome"]) == (200, "aborted")
        await nothing_left(gw)


async def test_between_requests_nothing_is_recorded(tmp_path: Path) -> None:
    async with upstream(upstreams.answers) as app, running(tmp_path, table(route(app.url))) as gw:
        caller = await gw.connect()
        assert (await caller.ask(GET)).status == 200
        caller.close()
        await nothing_left(gw)
        assert len(gw.requests()) == 1


async def test_within_a_head_is_a_bad_request(tmp_path: Path) -> None:
    async with running(tmp_path, table(route("http://127.0.0.1:9"))) as gw:
        caller = await gw.connect()
        await caller.send(b"GET / HT")
        caller.writer.write_eof()
        assert (await caller.rest()).startswith(b"HTTP/1.1 400")
        await nothing_left(gw)


async def test_an_answer_that_comes_just_after_its_caller_left_leaves_no_connection(tmp_path: Path) -> None:
    """In the same turn of the loop, before the task of the exchange hears of it: nobody was left to close it."""
    async with upstream(upstreams.never_answers) as app, running(tmp_path, table(route(app.url))) as gw:
        await (await gw.connect()).send(GET)
        await asyncio.wait_for(app.arrived.wait(), 10)
        (downstream,) = gw.gateway._listener._connections
        (to_upstream,) = [each for each in gc.get_objects() if isinstance(each, UpstreamConnection) and each._receiver]
        downstream.eof_received()
        to_upstream.data_received(ok())
        await nothing_left(gw)
        assert to_upstream._transport.is_closing()


async def test_a_caller_that_leaves_just_as_its_upstream_fails_is_not_carried_to_the_next(tmp_path: Path) -> None:
    """In the same turn of the loop, before the task of the exchange hears of either."""
    async with upstream(upstreams.never_answers) as first, upstream(upstreams.answers) as second:
        routes = table(route([first.url, second.url]), route(second.url, "/second"))
        async with running(tmp_path, routes) as gw:
            caller = await gw.connect()
            await caller.ask(GET.replace(b"/", b"/second", 1))  # whose connection is kept
            await caller.send(GET)
            await asyncio.wait_for(first.arrived.wait(), 10)
            (downstream,) = gw.gateway._listener._connections
            (relay,) = [each for each in gc.get_objects() if isinstance(each, Relay)]
            relay._response_timeout()
            downstream.eof_received()
            await nothing_left(gw)
            line = gw.requests()[-1]
            assert (line["status"], line["outcome"], line["upstream"]) == (499, "aborted", first.url)
            assert len(second.requests) == 1


async def test_three_hundred_callers_that_leave_leave_nothing_behind(tmp_path: Path) -> None:
    async with upstream(upstreams.never_answers) as app, running(tmp_path, table(route(app.url))) as gw:
        callers = [await gw.connect() for _ in range(300)]
        for caller in callers:
            await caller.send(GET)
        async with asyncio.timeout(30):
            while len(app.requests) < 300:
                await asyncio.sleep(0)
        for caller in callers:
            caller.vanish()
        await nothing_left(gw)
        assert len(gw.requests()) == 300
        assert {line["status"] for line in gw.requests()} == {499}


async def test_a_drain_lets_a_request_finish_and_tells_callers_to_close(tmp_path: Path) -> None:
    release = asyncio.Event()

    async def waits(peer: Peer) -> None:
        await peer.read_request()
        await release.wait()
        await peer.write(ok(b"finished"))

    async with upstream(waits) as app, running(tmp_path, table(route(app.url)), shutdown_timeout_s=10.0) as gw:
        port = gw.port
        busy, idle = await gw.connect(), await gw.connect()
        await busy.send(GET)
        await asyncio.wait_for(app.arrived.wait(), 10)
        stopping = asyncio.create_task(gw.gateway.stop())
        async with asyncio.timeout(10):
            while not gw.gateway.draining:
                await asyncio.sleep(0)
        ready = await idle.ask(b"GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n")
        assert (ready.status, ready.json["status"], ready.value("connection")) == (503, "draining", "close")
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await asyncio.open_connection("127.0.0.1", port)
        release.set()
        answer = await busy.answer()
        assert (answer.body, answer.value("connection")) == (b"finished", "close")
        await asyncio.wait_for(stopping, 10)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_callers_that_wait_to_be_accepted_when_a_drain_begins_are_answered(tmp_path: Path, loop: str) -> None:
    """Closing a socket resets the connections in its queue: requests would be lost at every restart."""

    async def main() -> None:
        async with (
            upstream(upstreams.answers) as app,
            running(tmp_path, table(route(app.url)), shutdown_timeout_s=10.0) as gw,
        ):
            callers = []
            for _ in range(50):  # without a turn of the loop: the kernel alone has them
                caller = socket.create_connection(("127.0.0.1", gw.port))
                caller.sendall(GET)
                callers.append(caller)
            await asyncio.wait_for(gw.gateway.stop(), 10)
            for caller in callers:
                with caller:
                    assert caller.recv(65_536).startswith(b"HTTP/1.1 200 ")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop if loop == "uvloop" else None) as runner:
        runner.run(main())


async def test_a_drain_that_runs_out_cuts_what_is_left(tmp_path: Path) -> None:
    async with upstream(upstreams.never_answers) as app, running(tmp_path, table(route(app.url))) as gw:
        caller = await gw.connect()
        await caller.send(GET)
        await asyncio.wait_for(app.arrived.wait(), 10)
        await asyncio.wait_for(gw.gateway.stop(), 10)
        assert await caller.rest() == b""
        line = await gw.request_line()
        assert line["outcome"] == "aborted"
        assert "stopped" in line["detail"]
