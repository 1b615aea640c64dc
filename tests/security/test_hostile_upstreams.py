"""Upstreams that answer anything: the hostile corpus of responses over sockets, and what else one could try.

Whatever comes, a caller gets one response or a cut one, never two; nobody gets another's; the next request works.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import time
from pathlib import Path

import pytest

from tests.security.corpus.responses import OK, RESPONSES, Response
from tests.support.gateway import Answer, Caller, Running, route, running, table
from tests.support.upstreams import Peer, Script, answers_and_closes, answers_with, ok, upstream
from tests.support.wire import Recorded, everything, responses, total

# Their head was good, and is on its way when the body breaks.
CUT_IN_THE_BODY = {
    "framing: a broken chunk",
    "framing: a chunk line with a bare LF",
    "framing: a malformed trailer",
    "framing: cut short",
    "framing: chunks cut short",
}

GET_NEXT = b"GET /next HTTP/1.1\r\nhost: a\r\n\r\n"


class Hostile:
    """Answers `/hostile` with the bytes of a case, everything else like a good upstream."""

    def __init__(self) -> None:
        self.case: Response | None = None
        self.good = Recorded()
        self.connections: list[int] = []
        self._count = 0

    async def script(self, peer: Peer) -> None:
        self._count += 1
        number = self._count
        while True:
            request = await peer.read_request()
            self.connections.append(number)
            if "/hostile" in request.line:
                assert self.case is not None
                await peer.write(self.case.raw)
                if self.case.eof:
                    return
            else:
                await peer.write(ok(request.line.encode()))


GROUPS = sorted({case.name.partition(":")[0] for case in RESPONSES})


@pytest.mark.parametrize("group", GROUPS)
async def test_a_hostile_response_over_a_socket_is_one_response_or_none(tmp_path: Path, group: str) -> None:
    hostile = Hostile()
    async with (
        upstream(hostile.script) as app,
        running(tmp_path, table(route(app.url)), upstream_breaker_failures=0) as gw,
    ):
        for case in RESPONSES:
            if case.name.partition(":")[0] == group:
                hostile.case = case
                hostile.connections.clear()
                try:
                    await _one_case(gw, hostile, case)
                except Exception as failure:
                    failure.add_note(f"case {case.name!r}: {case.raw[:300]!r}")
                    raise


async def _one_case(gw: Running, hostile: Hostile, case: Response) -> None:
    seen = len(gw.requests())
    malformed = total(gw, "gateway_upstream_failures_total", kind="malformed")
    caller = await gw.connect()
    await caller.send(f"{case.method} /hostile HTTP/1.1\r\nhost: a\r\n\r\n".encode())
    if case.name in CUT_IN_THE_BODY:
        raw = await caller.rest()
        assert raw.startswith(b"HTTP/1.1 200 ")
        assert raw.count(b"HTTP/1.1") == 1, "there is never a second response"
        assert not _is_whole(raw)
        line = await gw.request_line(seen + 1)
        assert (line["status"], line["outcome"]) == (200, "aborted")
        caller.close()
        caller = await gw.connect()
    else:
        answer = await caller.answer(case.method)
        line = await gw.request_line(seen + 1)
        if case.expect == OK:
            assert answer.body == case.body
            assert (line["status"], line["outcome"]) == (answer.status, "ok")
        else:
            assert (answer.status, answer.json["error"], line["outcome"]) == (502, "bad_gateway", "failed")
            assert line["detail"]
            assert total(gw, "gateway_upstream_failures_total", kind="malformed") == malformed + 1
        assert len(answer.values("content-length")) + len(answer.values("transfer-encoding")) <= 1
        assert not answer.values("set-cookie")
    after = await caller.ask(GET_NEXT)
    assert (after.status, after.body) == (200, b"GET /next HTTP/1.1"), "nobody gets what another was meant to get"
    reused = hostile.connections[0] == hostile.connections[1]
    assert reused == (case.expect == OK and case.reusable), "a connection is kept exactly when it is in step"
    caller.close()


def _is_whole(raw: bytes) -> bool:
    head, _, body = raw.partition(b"\r\n\r\n")
    if b"content-length: 5" in head:
        return len(body) == 5
    return body.endswith(b"0\r\n\r\n")


async def test_a_body_that_breaks_is_seen_to_be_broken_by_an_old_caller_too(tmp_path: Path) -> None:
    """For HTTP/1.0 a body ends with its connection: a clean end would make a part look like the whole."""
    for number, raw in enumerate(
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with upstream(answers_and_closes(raw)) as app, running(folder, table(route(app.url))) as gw:
            caller = await gw.connect()
            await caller.send(b"GET / HTTP/1.0\r\n\r\n")
            with pytest.raises(ConnectionResetError):
                await asyncio.wait_for(caller.reader.read(-1), 10)


async def test_a_body_that_a_drain_cuts_is_seen_to_be_cut_by_an_old_caller_too(tmp_path: Path) -> None:
    async def endless(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(b"HTTP/1.1 200 OK\r\n\r\nhello")
        await peer.closed_by_gateway()

    async with upstream(endless) as app:
        async with running(tmp_path, table(route(app.url))) as gw:
            reader, writer = await asyncio.open_connection("127.0.0.1", gw.port)
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            await asyncio.wait_for(reader.readuntil(b"hello"), 10)
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(-1), 10)
        writer.close()


def says_twice(second: bytes, wait_s: float) -> Script:
    """Answers properly, and then says something that nobody asked for."""

    async def script(peer: Peer) -> None:
        while True:
            request = await peer.read_request()
            await peer.write(ok(request.line.encode()))
            await asyncio.sleep(wait_s)
            await peer.write(second)

    return script


@pytest.mark.parametrize("wait_s", [0.0, 0.02])
@pytest.mark.parametrize(
    "second",
    [
        ok(b"evil"),
        b"x",
        b"\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nset-cookie: gateway_session=evil\r\n",
    ],
)
async def test_what_an_upstream_says_unasked_reaches_nobody(tmp_path: Path, second: bytes, wait_s: float) -> None:
    """B59, B11: response-queue poisoning."""
    async with upstream(says_twice(second, wait_s)) as app, running(tmp_path, table(route(app.url))) as gw:
        for number in range(6):
            answer = await gw.get(f"/{number}")
            assert answer.body == f"GET /{number} HTTP/1.1".encode()
            await asyncio.sleep(wait_s * 2)
        assert app.connections == 6
        assert gw.metric("gateway_requests_total", route="r0", method="GET", status="200") == 6


async def test_an_upstream_that_speaks_first_is_read_once_at_most(tmp_path: Path) -> None:
    async def speaks_first(peer: Peer) -> None:
        await peer.write(b"220 mail.example ESMTP\r\n")
        await peer.read_request()
        await peer.write(ok(b"late"))

    async with (
        upstream(speaks_first) as app,
        running(tmp_path, table(route(app.url)), upstream_breaker_failures=0) as gw,
    ):
        for _ in range(5):
            answer = await gw.get()
            assert (answer.status, answer.json["error"]) == (502, "bad_gateway")
        assert (await gw.get("/healthz")).status == 200


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
async def test_an_answer_that_comes_too_late_is_given_to_nobody(tmp_path: Path, method: str) -> None:
    async def late(peer: Peer) -> None:
        while True:
            request = await peer.read_request()
            if "/slow" in request.line:
                await asyncio.sleep(0.4)
            await peer.write(ok(b"" if method == "HEAD" else request.line.encode()))

    async with upstream(late) as app:
        document = table(route(app.url), route(app.url, "/slow", timeouts={"responseMs": 150}))
        async with running(tmp_path, document) as gw:
            slow = asyncio.create_task(gw.get("/slow", "content-length: 0", method=method))
            answers = [await gw.get(f"/{number}") for number in range(20)]
            assert (await slow).status == 504
            answers += [await gw.get(f"/{number}") for number in range(20, 40)]
            if method != "HEAD":
                assert [answer.body for answer in answers] == [f"GET /{n} HTTP/1.1".encode() for n in range(40)]


async def test_a_late_first_upstream_does_not_answer_for_the_second(tmp_path: Path) -> None:
    async def late(peer: Peer) -> None:
        await peer.read_request()
        await asyncio.sleep(1.0)
        await peer.write(ok(b"first"))

    async with upstream(late) as first, upstream(answers_with(ok(b"second"))) as second:
        document = table(route([first.url, second.url], upstreamAttemptMs=60))
        async with running(tmp_path, document, upstream_breaker_failures=0) as gw:
            caller = await gw.connect()
            for _ in range(3):
                assert (await caller.ask(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")).body == b"second"
            await asyncio.wait_for(first.gone.wait(), 10)
            assert (await caller.ask(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")).body == b"second"


async def endless_interim(peer: Peer) -> None:
    await peer.read_request()
    while True:
        await peer.write(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n")
        await asyncio.sleep(0)


async def endless_head(peer: Peer) -> None:
    await peer.read_request()
    await peer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        await peer.write(b"x: " + b"a" * 1_000 + b"\r\n")
        await asyncio.sleep(0)


async def endless_line(peer: Peer) -> None:
    await peer.read_request()
    while True:
        await peer.write(b"H" * 65_536)


async def dripping_head(peer: Peer) -> None:
    await peer.read_request()
    await peer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        await peer.write(b"x")
        await asyncio.sleep(0.02)


async def slow_interim(peer: Peer) -> None:
    await peer.read_request()
    while True:
        await peer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("script", "status", "response_ms"),
    [
        (endless_interim, 502, 10_000),
        (endless_head, 502, 10_000),
        (endless_line, 502, 10_000),
        (dripping_head, 504, 400),
        (slow_interim, 504, 400),
    ],
)
async def test_a_head_without_an_end_is_bounded(tmp_path: Path, script: Script, status: int, response_ms: int) -> None:
    async with upstream(script) as app:
        document = table(route(app.url, timeouts={"responseMs": response_ms}))
        async with running(tmp_path, document) as gw:
            began = time.monotonic()
            assert (await gw.get()).status == status
            assert time.monotonic() - began < 5
            await asyncio.wait_for(app.gone.wait(), 10)
            await gw.settled()


FOREVER = {
    "HEAD": b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n",
    "GET": b"HTTP/1.1 204 No Content\r\n\r\n",
    "OPTIONS": b"HTTP/1.1 304 Not Modified\r\netag: x\r\n\r\n",
    "POST": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
}


@pytest.mark.parametrize("method", sorted(FOREVER))
async def test_an_endless_body_where_none_belongs_is_not_read(tmp_path: Path, method: str) -> None:
    async def endless(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(FOREVER[method])
        while True:
            await peer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil" * 1_000)

    async with upstream(endless) as app, running(tmp_path, table(route(app.url))) as gw:
        caller = await gw.connect()
        for _ in range(3):
            app.gone.clear()
            await caller.send(f"{method} / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n".encode())
            answer = await caller.answer(method)
            assert answer.body == (b"ok" if method == "POST" else b"")
            await asyncio.wait_for(app.gone.wait(), 10)
        assert app.connections == 3


@pytest.mark.parametrize(
    "body",
    [
        (b"1;" + b"x" * 1_000 + b"\r\na\r\n") * 100,
        b"0\r\n" + b"x: a\r\n" * 20_000,
        b"0\r\n" + b"x: " + b"a" * 100_000,
        b"1;" + b"x" * 100_000,
        b"f" * 100_000,
        b"8000000000000000\r\n",
    ],
)
async def test_framing_without_an_end_cuts_the_response(tmp_path: Path, body: bytes) -> None:
    raw = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + body

    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(raw)
        await peer.closed_by_gateway()

    async with upstream(script) as app, running(tmp_path, table(route(app.url))) as gw:
        received = await everything(gw, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        assert received.count(b"HTTP/1.1 ") == 1
        assert not received.partition(b"\r\n\r\n")[2].endswith(b"0\r\n\r\n")
        await asyncio.wait_for(app.gone.wait(), 10)
        assert (await gw.request_line())["outcome"] == "aborted"


async def test_chunks_of_one_byte_reach_the_caller_in_few(tmp_path: Path) -> None:
    raw = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 10_000 + b"0\r\n\r\n"
    async with upstream(answers_with(raw)) as app, running(tmp_path, table(route(app.url))) as gw:
        received = await everything(gw, b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        body = received.partition(b"\r\n\r\n")[2]
        assert body.count(b"a") >= 10_000
        assert len(body) < 12_000, "framing that is mostly framing is not passed on"
        assert (await gw.request_line())["bytesOut"] == 10_000


SPLITTING = (
    b"location: /x\rset-cookie: gateway_session=evil",
    b"location: /x\nset-cookie: gateway_session=evil",
    b"location: /x\n\nHTTP/1.1 200 OK",
    b"x: a\0b",
    b"x\x00: a",
    b"x y: a",
    b"x : a",
    b": a",
    b"x",
    b" x: a",
    b"x: a\x1b[2J",
)


async def test_no_header_of_an_upstream_begins_another_one(tmp_path: Path) -> None:
    for number, line in enumerate(SPLITTING):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with (
            upstream(answers_with(ok(b"ok", line + b"\r\n"))) as app,
            running(folder, table(route(app.url))) as gw,
        ):
            (answer,) = responses(await everything(gw, b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"))
            assert (answer.status, answer.json["error"]) == (502, "bad_gateway"), line
            assert b"evil" not in answer.raw_head


LOCATIONS = {
    # what the upstream says -> what the caller gets; {up} is the upstream's authority
    "http://{up}/x": "/x",
    "http://{up}": "/",
    "http://{up}?a": "/?a",
    "//{up}/x": "/x",
    "HTTP://{up}/x": "/x",
    "http:\\\\{up}\\x": "/x",
    "http://user@{up}/x": "/x",
    " http://{up}/x": "/x",
    "http://{up}//evil.example/": "/.//evil.example/",
    "http://{up}/\\evil.example/": "/.//evil.example/",
    "http://{up}\\@evil.example/": "/@evil.example/",
    "http://{up}@evil.example/": "http://{up}@evil.example/",
    "http://evil.example/{up}": "http://evil.example/{up}",
    "https://app.test/x": "https://app.test/x",
    "/x": "/x",
    "x": "x",
}


async def test_no_location_names_the_inside_or_turns_into_another_site(tmp_path: Path) -> None:
    async def redirects(peer: Peer) -> None:
        while True:
            request = await peer.read_request()
            number = int(request.line.split(" ")[1][1:])
            location = list(LOCATIONS)[number].format(up=f"127.0.0.1:{peer.upstream.port}")
            await peer.write(b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\nlocation: " + location.encode() + b"\r\n\r\n")

    async with upstream(redirects) as app, running(tmp_path, table(route(app.url))) as gw:
        for number, expected in enumerate(LOCATIONS.values()):
            answer = await gw.get(f"/{number}")
            location = answer.value("location")
            authority = f"127.0.0.1:{app.port}"
            slashed = location.replace("\\", "/")
            assert slashed == expected.format(up=authority).replace("\\", "/"), list(LOCATIONS)[number]


CODED = {
    b"gzip": gzip.compress(b"x" * 10_000),
    b"br": b"\x8b\x00\x80x\x03",
    b"zstd": b"(\xb5/\xfd\x00\x00\x01\x00\x00",
    b"gzip, gzip": gzip.compress(gzip.compress(b"x")),
    b"nonsense": bytes(range(256)),
}


async def test_a_coded_body_passes_untouched_with_its_headers(tmp_path: Path) -> None:
    """R26, and no bomb is unpacked: nothing here looks into a body."""
    for number, (coding, body) in enumerate(CODED.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        extra = b"content-encoding: " + coding + b"\r\nvary: accept-encoding\r\n"
        async with upstream(answers_with(ok(body, extra))) as app, running(folder, table(route(app.url))) as gw:
            answer = await gw.get()
            assert (answer.body, answer.value("content-encoding")) == (body, coding.decode())
            assert app.requests[0].values(b"accept-encoding") == []


async def test_five_hundred_hostile_answers_leave_the_process_as_it_was(tmp_path: Path) -> None:
    hostile = Hostile()
    async with (
        upstream(hostile.script) as app,
        running(tmp_path, table(route(app.url)), upstream_breaker_failures=0) as gw,
    ):

        async def one(number: int) -> None:
            hostile.case = RESPONSES[number % len(RESPONSES)]
            caller: Caller = await gw.connect()
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await caller.send(b"GET /hostile HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
                await asyncio.wait_for(caller.reader.read(-1), 10)
            caller.close()
            answer: Answer = await gw.get(f"/{number}")
            assert answer.body == f"GET /{number} HTTP/1.1".encode()

        for start in range(0, 500, 25):
            await asyncio.gather(*(one(start + offset) for offset in range(25)))
        await gw.settled()
        assert gw.metric("gateway_active_exchanges") == gw.metric("gateway_active_requests") == 0
        assert not any(line["level"] == "error" for line in gw.lines)
        assert sum(len(idle) for idle in gw.gateway._pool._idle.values()) <= 64
