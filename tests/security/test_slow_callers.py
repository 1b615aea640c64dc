"""Callers that are slow on purpose: each is bounded in time and memory, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dataplane.net import connection
from dataplane.net.connection import DownstreamConnection
from tests.support import upstreams
from tests.support.clock import ManualClock, pass_time
from tests.support.gateway import Caller, Running, route, running, table
from tests.support.upstreams import Peer, answers_with, ok, upstream
from tests.support.wire import Recorded, responses

SLACK_S = 5.0
"""How late a budget may run out on a machine that does other things too."""
HELD_MAX_BYTES = 1_048_576
"""What one caller may make the gateway hold: some buffers of 64 KiB and what one read of a socket brings."""


async def drip(caller: Caller, data: bytes, every_s: float) -> None:
    """Send `data` byte by byte, again and again, until the gateway has had enough."""
    with contextlib.suppress(ConnectionError):
        while True:
            for at in range(len(data)):
                await caller.send(data[at : at + 1])
                await asyncio.sleep(every_s)


@asynccontextmanager
async def dripping(caller: Caller, data: bytes, every_s: float = 0.02) -> AsyncIterator[None]:
    task = asyncio.create_task(drip(caller, data, every_s))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def held(gw: Running) -> int:
    """Bytes that all connections hold of what their callers sent or do not read."""
    return sum(
        len(each._buffer._data) + each.body._held_bytes + each._transport.get_write_buffer_size()
        for each in gw.gateway._listener._connections
    )


def only_connection(gw: Running) -> DownstreamConnection:
    (found,) = gw.gateway._listener._connections
    return found


async def none_left(gw: Running) -> None:
    async with asyncio.timeout(SLACK_S):
        while gw.gateway._listener.open_connections:
            await asyncio.sleep(0.01)


HEADS = {
    "a request line": (b"", b"a"),
    "a header": (b"GET / HTTP/1.1\r\nhost: a\r\nx: ", b"a"),
    "headers": (b"GET / HTTP/1.1\r\nhost: a\r\n", b"x: a\r\n"),
    "behind an empty line": (b"\r\n", b"G"),
    "the second of a connection": (b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\nGET ", b"/"),
    "behind a body": (b"POST /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nokGET /", b"a"),
}


@pytest.mark.parametrize("what", sorted(HEADS))
async def test_a_head_that_drips_ends_with_its_budget_and_reaches_nobody(tmp_path: Path, what: str) -> None:
    start, drops = HEADS[what]
    app = Recorded()
    async with upstream(app.script) as public, running(tmp_path, table(route(public.url)), head_timeout_s=0.3) as gw:
        caller = await gw.connect()
        began = time.monotonic()
        await caller.send(start)
        async with dripping(caller, drops):
            answers = responses(await caller.rest())
        assert time.monotonic() - began < 0.3 + SLACK_S
        assert (answers[-1].status, answers[-1].json["error"]) == (408, "request_timeout")
        assert answers[-1].value("connection") == "close"
        line = gw.requests()[-1]
        assert (line["error"], line["path"]) == ("request_timeout", "-")
        assert app.begun == []
        caller.close()
        await none_left(gw)
        assert (await gw.get()).status == 200


@pytest.mark.parametrize("behind", [b"", b"\r\n"])
@pytest.mark.parametrize(
    "requests",
    [
        b"GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\n\r\n" * 2,
        b"\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nok",
    ],
    ids=["one", "two", "behind an empty line", "a body"],
)
async def test_an_empty_line_behind_a_request_keeps_no_connection(
    tmp_path: Path, requests: bytes, behind: bytes
) -> None:
    """It is forgiven and begins no head: without a budget of its own it would hold a connection for good."""
    async with (
        upstream(upstreams.answers) as app,
        running(tmp_path, table(route(app.url)), keepalive_timeout_s=0.3) as gw,
    ):
        caller = await gw.connect()
        await caller.send(requests + behind)
        async with asyncio.timeout(0.3 + SLACK_S):
            answers = responses(await caller.rest())
        assert {answer.status for answer in answers} == {200}
        caller.close()
        await none_left(gw)


async def test_a_hundred_dripping_heads_do_not_keep_others_from_being_served(tmp_path: Path) -> None:
    async with (
        upstream(upstreams.answers) as app,
        running(tmp_path, table(route(app.url)), head_timeout_s=1.0, max_connections=120) as gw,
    ):
        callers = [await gw.connect() for _ in range(100)]
        async with contextlib.AsyncExitStack() as stack:
            for caller in callers:
                await caller.send(b"GET / HTTP/1.1\r\nhost: a\r\n")
                await stack.enter_async_context(dripping(caller, b"x: a\r\n", 0.1))
            for _ in range(20):
                assert (await gw.get()).status == 200
            ended = await asyncio.gather(*(caller.rest() for caller in callers))
        assert all(raw.startswith(b"HTTP/1.1 408 ") for raw in ended)
        assert len(app.requests) == 20


async def test_slow_heads_that_take_every_place_give_them_back(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        upstream(upstreams.answers) as app,
        running(tmp_path, table(route(app.url)), head_timeout_s=10.0, max_connections=20, clock=clock) as gw,
    ):
        callers = [await gw.connect() for _ in range(20)]
        for caller in callers:
            await caller.send(b"GET")
        refused = await gw.get()
        assert (refused.status, refused.json["error"]) == (503, "gateway_overloaded")
        pass_time(gw, clock, 10.2)
        for caller in callers:
            assert (await caller.rest()).startswith(b"HTTP/1.1 408 ")
            caller.close()
        await none_left(gw)
        assert (await gw.get()).status == 200


async def test_hundreds_of_idle_connections_cost_others_nothing_and_end(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        upstream(upstreams.answers) as app,
        running(tmp_path, table(route(app.url)), keepalive_timeout_s=75.0, clock=clock) as gw,
    ):
        callers = [await gw.connect() for _ in range(300)]
        for caller in callers[:150]:
            assert (await caller.ask(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")).status == 200
        assert (await gw.get()).status == 200
        assert gw.metric("gateway_connections") >= 300
        assert held(gw) == 0
        pass_time(gw, clock, 75.2)
        assert set(await asyncio.gather(*(caller.rest() for caller in callers))) == {b""}
        await none_left(gw)
        assert gw.metric("gateway_connections") == 0


BODIES = {
    "a length": (b"content-length: 1000\r\n\r\n", b""),
    "chunks": (b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", b""),
    "a chunk's size": (b"transfer-encoding: chunked\r\n\r\n", b"0"),
    "a chunk's extension": (b"transfer-encoding: chunked\r\n\r\n5;", b"a"),
    "trailers": (b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", b"x: a\r\n"),
    "nothing, though it was told to go on": (b"expect: 100-continue\r\ncontent-length: 5\r\n\r\n", b""),
}


@pytest.mark.parametrize("what", sorted(BODIES))
async def test_a_body_that_makes_no_progress_ends_with_its_budget_and_completes_nowhere(
    tmp_path: Path, what: str
) -> None:
    """Bytes of the framing are no progress: with them alone a body of five bytes could take for ever."""
    start, drops = BODIES[what]
    app = Recorded()
    async with upstream(app.script) as public:
        document = table(route(public.url, timeouts={"uploadMs": 300}))
        async with running(tmp_path, document) as gw:
            caller = await gw.connect()
            began = time.monotonic()
            await caller.send(b"POST / HTTP/1.1\r\nhost: a\r\n" + start)
            async with dripping(caller, drops) if drops else contextlib.nullcontext():
                (answer,) = responses(await caller.rest())
            assert (answer.status, answer.json["error"]) == (408, "request_timeout")
            assert time.monotonic() - began < 0.3 + SLACK_S
            await asyncio.wait_for(public.gone.wait(), SLACK_S)
            assert len(app.begun) == 1
            assert app.whole == []
            assert (await gw.request_line())["error"] == "request_timeout"
            await gw.settled()
            assert (await gw.get()).status == 200


async def test_a_body_that_is_slow_and_goes_on_arrives(tmp_path: Path) -> None:
    async with upstream(upstreams.echoes) as app:
        document = table(route(app.url, timeouts={"uploadMs": 60_000, "responseMs": 1_000}))
        clock = ManualClock()
        async with running(tmp_path, document, clock=clock) as gw:
            caller = await gw.connect()
            await caller.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 8\r\n\r\n")
            await asyncio.wait_for(app.arrived.wait(), SLACK_S)
            for count, byte in enumerate(b"abcdefg", 1):
                await caller.send(bytes([byte]))
                async with asyncio.timeout(SLACK_S):
                    while only_connection(gw).body.bytes_in < count:
                        await asyncio.sleep(0)
                pass_time(gw, clock, 59.0)
            assert (await caller.ask(b"h")).body == b"abcdefgh"


async def test_a_caller_that_goes_on_sending_behind_its_refusal_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LINGER_IDLE_S", 0.3)
    monkeypatch.setattr(connection, "LINGER_MAX_S", 0.6)
    document = table(route("http://127.0.0.1:9", auth={"mode": "session"}))
    async with running(tmp_path, document) as gw:
        for request in (
            b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n",
            b"GET / HTTP/1.1\r\nhost: a\r\nbroken\r\n\r\n",
        ):
            caller = await gw.connect()
            answer = await caller.ask(request)
            assert answer.status in (400, 401)
            async with dripping(caller, b"x", 0.05):
                await none_left(gw)
            silent = await gw.connect()
            assert (await silent.ask(request)).status in (400, 401)
            await none_left(gw)
        assert len(gw.requests()) == 4


class Unread:
    """A caller with a small receive buffer that reads only when it is told to."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.loop = asyncio.get_running_loop()

    async def send(self, data: bytes) -> None:
        await self.loop.sock_sendall(self.sock, data)

    async def read_all(self) -> bytes:
        received = b""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(20):
                while data := await self.loop.sock_recv(self.sock, 262_144):
                    received += data
        return received


@asynccontextmanager
async def unread(gw: Running) -> AsyncIterator[Unread]:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", gw.port))
        async with asyncio.timeout(SLACK_S):
            while not gw.gateway._listener.open_connections:
                await asyncio.sleep(0)
        # Without a bound the kernel would take some megabytes for the gateway, and never as many.
        ours = only_connection(gw)._transport.get_extra_info("socket")
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        yield Unread(sock)


async def until_it_waits_for_its_reader(gw: Running, caller: Unread, request: bytes) -> None:
    """Send requests until an answer is stuck: the kernel takes no more, and the gateway waits between two requests."""
    async with asyncio.timeout(30):
        for count in range(1, 1_000):
            await caller.send(request)
            await gw.request_line(count)
            if only_connection(gw)._writable is not None:
                return


REQUEST = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"


@pytest.mark.parametrize("flood", [b"y" * 65_536, REQUEST * 2_000, b"\r\n" * 30_000])
async def test_a_caller_that_reads_nothing_and_sends_on_is_not_held_in_memory(tmp_path: Path, flood: bytes) -> None:
    """The answer before was not taken: nobody reads the requests, and so they must stay in the kernel."""
    async with (
        upstream(answers_with(ok(b"x" * 60_000))) as app,
        running(tmp_path, table(route(app.url)), head_timeout_s=0.3, keepalive_timeout_s=1.0) as gw,
        unread(gw) as caller,
    ):
        await until_it_waits_for_its_reader(gw, caller, REQUEST)
        began, sent, most = time.monotonic(), 0, 0
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(1.0 + SLACK_S):
                while gw.gateway._listener.open_connections:
                    await caller.send(flood)
                    sent += len(flood)
                    most = max(most, held(gw))
        await none_left(gw)
        assert time.monotonic() - began < 1.0 + 2 * SLACK_S, "it does not stay for good"
        assert sent > 0
        assert most < HELD_MAX_BYTES
        assert (await gw.get()).status == 200


async def test_a_caller_that_reads_nothing_and_half_closes_does_not_stay(tmp_path: Path) -> None:
    async with (
        upstream(answers_with(ok(b"x" * 60_000))) as app,
        running(tmp_path, table(route(app.url)), keepalive_timeout_s=0.5) as gw,
        unread(gw) as caller,
    ):
        await until_it_waits_for_its_reader(gw, caller, REQUEST)
        await caller.send(b"GET /")
        caller.sock.shutdown(socket.SHUT_WR)
        await none_left(gw)


async def test_a_caller_that_reads_late_gets_every_pipelined_answer(tmp_path: Path) -> None:
    """The other side of the bound: whoever reads in time loses nothing, and the connection goes on."""
    async with (
        upstream(answers_with(ok(b"x" * 60_000))) as app,
        running(tmp_path, table(route(app.url))) as gw,
        unread(gw) as caller,
    ):
        await until_it_waits_for_its_reader(gw, caller, REQUEST)
        stuck = len(app.requests)
        await caller.send(REQUEST * 10 + b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        answers = responses(await caller.read_all())
        assert len(answers) == len(app.requests) == stuck + 11
        assert {len(answer.body) for answer in answers} == {60_000}


async def test_error_answers_that_nobody_reads_are_not_held_either(tmp_path: Path) -> None:
    document = table(route("http://127.0.0.1:9", "/x"))
    async with (
        running(tmp_path, document, keepalive_timeout_s=1.0, rate_limit_route_max=0, log_level="error") as gw,
        unread(gw) as caller,
    ):
        most = 0

        async def floods() -> None:
            nonlocal most
            while True:
                await caller.send(b"GET /nothing HTTP/1.1\r\nhost: a\r\n\r\n" * 200)
                await asyncio.sleep(0)
                most = max(most, held(gw))

        with pytest.raises(ConnectionError):  # the gateway cuts it
            await asyncio.wait_for(floods(), 30)
        assert 0 < most < HELD_MAX_BYTES
        await none_left(gw)


@pytest.mark.parametrize("how", ["connection: close", "HTTP/1.0"])
async def test_the_last_answer_of_a_connection_arrives_whole_however_slowly_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A phone on a bad line: what is still held when the upstream is done may take longer than a short grace."""
    monkeypatch.setattr(connection, "LINGER_MAX_S", 0.2)
    size = 60_000
    last = "GET / HTTP/1.0\r\n\r\n" if how == "HTTP/1.0" else f"GET / HTTP/1.1\r\nhost: a\r\n{how}\r\n\r\n"
    async with (
        upstream(answers_with(ok(b"x" * size))) as app,
        running(tmp_path, table(route(app.url))) as gw,
        unread(gw) as caller,
    ):
        await caller.send(last.encode())
        assert (await gw.request_line())["outcome"] == "ok"
        assert only_connection(gw)._transport.get_write_buffer_size() > 10_000
        await asyncio.sleep(0.6)
        (answer,) = responses(await caller.read_all())
        assert len(answer.body) == size


async def test_a_response_that_nobody_reads_ends_with_its_budget_and_is_the_callers_fault(tmp_path: Path) -> None:
    async def endless(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n")
        while True:
            await peer.write(b"x" * 65_536)

    async with upstream(endless) as app:
        document = table(route(app.url, timeouts={"bodyMs": 600, "firstByteMs": 5_000}))
        async with running(tmp_path, document) as gw, unread(gw) as caller:
            await caller.send(REQUEST)
            await asyncio.wait_for(app.gone.wait(), 10)
            line = await gw.request_line()
            assert (line["status"], line["outcome"]) == (200, "aborted")
            assert gw.metric("gateway_aborted_total", route="r0", side="downstream") == 1
            assert gw.metric("gateway_aborted_total", route="r0", side="upstream") == 0
            await gw.settled()


async def test_a_flood_of_header_bytes_is_refused_before_it_is_held(tmp_path: Path) -> None:
    async with running(tmp_path, table(route("http://127.0.0.1:9"))) as gw:
        caller = await gw.connect()
        most = 0
        with contextlib.suppress(ConnectionError):
            await caller.send(b"GET / HTTP/1.1\r\nhost: a\r\n")
            for _ in range(500):
                await caller.send(b"x: " + b"a" * 8_000 + b"\r\n")
                most = max(most, held(gw))
        assert most < HELD_MAX_BYTES
        assert (await gw.request_line())["error"] == "headers_too_large"


async def test_a_thousand_requests_in_one_packet_take_turns_with_everybody_else(tmp_path: Path) -> None:
    """One caller, one write: answered in a row, they would hold up every other connection for as long."""
    async with running(tmp_path, table(route("http://127.0.0.1:9", "/x")), log_level="info") as gw:
        most, seen = 0, len(gw.lines)

        async def watch() -> None:
            nonlocal most, seen
            while True:
                await asyncio.sleep(0)
                now = len(gw.lines)
                most, seen = max(most, now - seen), now

        caller = await gw.connect()
        watching = asyncio.create_task(watch())
        await caller.send(
            b"GET /nothing HTTP/1.1\r\nhost: a\r\n\r\n" * 500 + b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n" * 500
        )
        statuses = [(await caller.answer()).status for _ in range(1_000)]
        watching.cancel()
        assert statuses == [404] * 500 + [200] * 500
        assert most <= 3


@pytest.mark.parametrize("request_bytes", [REQUEST, b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc"])
async def test_requests_that_come_faster_than_they_are_answered_stay_in_the_kernel(
    tmp_path: Path, request_bytes: bytes
) -> None:
    """Each answer makes room for what its request took, not for another read of the socket."""

    async def takes_its_time(peer: Peer) -> None:
        while True:
            await peer.read_request()
            await asyncio.sleep(0.002)
            await peer.write(ok())

    async with (
        upstream(takes_its_time) as app,
        running(tmp_path, table(route(app.url)), rate_limit_route_max=0) as gw,
    ):
        caller = await gw.connect()
        reading = asyncio.create_task(caller.reader.read(-1))
        most = 0

        async def floods() -> None:
            nonlocal most
            while True:
                await caller.send(request_bytes * 2_000)
                most = max(most, held(gw))

        flooding = asyncio.create_task(floods())
        async with asyncio.timeout(30):
            while len(app.requests) < 150:
                await asyncio.sleep(0.01)
                most = max(most, held(gw))
        flooding.cancel()
        reading.cancel()
        caller.vanish()
        assert 0 < most < HELD_MAX_BYTES


async def test_a_caller_that_leaves_behind_pipelined_requests_leaves_no_connection(tmp_path: Path) -> None:
    async with running(tmp_path, table(route("http://127.0.0.1:9", "/x"))) as gw:
        for count in (1, 2, 50):
            caller = await gw.connect()
            await caller.send(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n" * count)
            caller.writer.write_eof()
            await caller.rest()
            await none_left(gw)
            caller.close()


async def test_chunks_of_one_byte_go_on_in_few_pieces(tmp_path: Path) -> None:
    """A system call for each byte of the caller's would be a cheap way to keep the gateway and its upstream busy."""
    chunks = 0

    async def counts(peer: Peer) -> None:
        nonlocal chunks
        await peer.read_head()
        while size := int(await peer.reader.readuntil(b"\r\n"), 16):
            chunks += 1
            await peer.reader.readexactly(size + 2)
        await peer.write(ok())

    async with upstream(counts) as app, running(tmp_path, table(route(app.url))) as gw:
        answer = await gw.raw(
            b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 10_000 + b"0\r\n\r\n"
        )
        assert answer.status == 200
        assert 0 < chunks < 100
        assert (await gw.request_line())["bytesIn"] == 10_000
