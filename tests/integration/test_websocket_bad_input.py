"""WebSockets and what must not come: each case with its status or close code, its count, and nothing that stays.

The gateway's clock stands still unless a test moves it, and no timer runs: whoever is released here is released at
once, because of what happened, and not because a budget ran out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, get_args

import pytest

from dataplane.websocket.relay import LAST_WORD_S, Reason
from tests.support import upstreams
from tests.support.clock import ManualClock, pass_time, stop_ticking
from tests.support.gateway import DEADLINE_S, Running, parse_head, route, running, table
from tests.support.upstreams import Peer, Script, Upstream, upstream
from tests.support.websocket_frames import BINARY, CLOSE, CONTINUATION, MASK, PING, TEXT, frame
from tests.support.websocket_peers import FrameStream, handshake, nothing_left, opened, stays, switch

MESSAGE_MAX_BYTES = 1_000
CLOSED = "gateway_websocket_closed_total"
REASONS = get_args(Reason)
Who = Literal["caller", "upstream"]


def sockets(url: str, **fields: Any) -> dict[str, Any]:
    return table(route(url, websocket=True, **fields))


@asynccontextmanager
async def standing_still(
    tmp_path: Path, script: Script, **settings: Any
) -> AsyncIterator[tuple[Running, Upstream, ManualClock]]:
    """A gateway before an upstream, whose time does not pass by itself."""
    clock = ManualClock()
    async with (
        upstream(script) as app,
        running(tmp_path, sockets(app.url), clock=clock, ws_max_message_bytes=MESSAGE_MAX_BYTES, **settings) as gw,
    ):
        stop_ticking(gw)
        yield gw, app, clock


def counted(gw: Running) -> dict[str, float]:
    """How many WebSockets ended, by reason."""
    counts = {reason: gw.metric(CLOSED, route="r0", reason=reason) for reason in REASONS}
    return {reason: count for reason, count in counts.items() if count}


async def released(gw: Running) -> None:
    """No WebSocket, connection, task or place is left."""
    await nothing_left(gw)
    assert gw.gateway.websockets._taken == 0
    assert gw.gateway.websockets._of_caller == {}


async def hears_a_close(end: FrameStream) -> int | None:
    """The code of the Close frame that comes, behind whatever passed; it is answered, and the connection closed."""
    while (got := await end.read()).opcode != CLOSE:
        pass
    await end.close(got.code)
    await end.rest()
    end.writer.close()
    return got.code


# Frames: (name, what is sent unmasked by an upstream and masked by a caller, code, reason)

FRAMES: list[tuple[str, list[dict[str, Any]], int, str]] = [
    ("a reserved opcode", [{"opcode": 3}], 1002, "error"),
    ("a reserved bit", [{"opcode": TEXT, "rsv": 2}], 1002, "error"),
    ("compressed though that was not agreed", [{"opcode": TEXT, "rsv": 4}], 1002, "error"),
    ("a ping of 126 bytes", [{"opcode": PING, "payload": bytes(126)}], 1002, "error"),
    ("a ping in two fragments", [{"opcode": PING, "fin": False}], 1002, "error"),
    ("a continuation of nothing", [{"opcode": CONTINUATION}], 1002, "error"),
    ("a message within a message", [{"opcode": TEXT, "fin": False}, {"opcode": TEXT}], 1002, "error"),
    ("half a close code", [{"opcode": CLOSE, "payload": b"\x03"}], 1002, "error"),
    ("a close code that never travels", [{"opcode": CLOSE, "payload": b"\x03\xee"}], 1002, "error"),
    ("a close reason in no encoding", [{"opcode": CLOSE, "payload": b"\x03\xe8\xff"}], 1007, "error"),
    ("a message of one byte too many", [{"opcode": BINARY, "payload": bytes(1_001)}], 1009, "message_size"),
    (
        "fragments that come to one byte too many",
        [{"opcode": BINARY, "payload": bytes(1_000), "fin": False}, {"opcode": CONTINUATION, "payload": b"x"}],
        1009,
        "message_size",
    ),
]


@pytest.mark.parametrize("who", ["caller", "upstream"])
@pytest.mark.parametrize(("frames", "code", "reason"), [pytest.param(*case[1:], id=case[0]) for case in FRAMES])
async def test_a_bad_frame_of_either_side_closes_both_at_once_and_is_counted(
    tmp_path: Path, who: Who, frames: list[dict[str, Any]], code: int, reason: str
) -> None:
    bad = b"".join(frame(**each, mask=MASK if who == "caller" else None) for each in frames)
    await bad_bytes(tmp_path, who, bad, code, reason)


@pytest.mark.parametrize(
    ("who", "bad", "code", "reason"),
    [
        pytest.param("caller", frame(TEXT, b"x"), 1002, "error", id="a caller that does not mask"),
        pytest.param("upstream", frame(TEXT, b"x", mask=MASK), 1002, "error", id="an upstream that masks"),
        pytest.param("caller", b"\x82\xff" + b"\xff" * 8, 1002, "error", id="a length of 2^64-1"),
        pytest.param("upstream", b"\x82\x7f" + b"\x7f" + b"\xff" * 7, 1009, "message_size", id="a length of 2^63-1"),
        pytest.param("caller", b"GET / HTTP/1.1\r\n\r\n", 1002, "error", id="another protocol of the caller's"),
        pytest.param("upstream", b"HTTP/1.1 200 OK\r\n\r\n", 1002, "error", id="another protocol of the upstream's"),
    ],
)
async def test_bytes_that_are_no_frame_close_both_sides_at_once_and_are_counted(
    tmp_path: Path, who: Who, bad: bytes, code: int, reason: str
) -> None:
    await bad_bytes(tmp_path, who, bad, code, reason)


async def bad_bytes(tmp_path: Path, who: Who, bad: bytes, code: int, reason: str) -> None:
    """Send something bad from one side of an open WebSocket; what both sides hear, and what is left."""
    heard: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

    async def script(peer: Peer) -> None:
        end = await switch(peer)
        if who == "upstream":
            await end.raw(bad)
        heard.set_result(await hears_a_close(end))

    async with standing_still(tmp_path, script) as (gw, app, _):
        socket = await opened(gw)
        if who == "caller":
            await socket.raw(bad)
        assert await hears_a_close(socket) == code
        assert await asyncio.wait_for(heard, DEADLINE_S) == code
        await released(gw)
        assert counted(gw) == {reason: 1}
        assert app.errors == []


@pytest.mark.parametrize("bad", [frame(3, mask=MASK), frame(BINARY, bytes(1_001), mask=MASK)])
async def test_sides_that_answer_nothing_after_a_bad_frame_are_released_within_a_second(
    tmp_path: Path, bad: bytes
) -> None:
    async with standing_still(tmp_path, stays) as (gw, app, clock):
        socket = await opened(gw)
        await socket.raw(bad)
        assert (await socket.read()).opcode == CLOSE
        pass_time(gw, clock, LAST_WORD_S + 0.1)
        assert await socket.rest() == b""
        await asyncio.wait_for(app.gone.wait(), DEADLINE_S)
        await released(gw)


# Peers that vanish


@pytest.mark.parametrize("who", ["caller", "upstream"])
@pytest.mark.parametrize("resets", [True, False], ids=["reset", "closed"])
@pytest.mark.parametrize("within", ["nothing", "a message", "a frame"])
async def test_a_peer_that_vanishes_releases_the_other_at_once_and_is_counted(
    tmp_path: Path, who: Who, resets: bool, within: str
) -> None:
    go = asyncio.Event()
    heard: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
    said = {
        "nothing": b"",
        "a message": frame(BINARY, b"x", fin=False, mask=MASK if who == "caller" else None),
        "a frame": frame(BINARY, bytes(500), mask=MASK if who == "caller" else None)[:100],
    }[within]

    async def stays_or_goes(end: FrameStream, vanish: Any) -> int | None:
        if vanish is not None:
            await end.raw(said)
            await go.wait()
            vanish() if resets else end.writer.close()
            return None
        if said:
            await asyncio.wait_for(end.reader.readexactly(len(said)), DEADLINE_S)
        go.set()
        if within == "a frame":
            assert await end.rest() == b"", "within a frame it can be told nothing"
            end.writer.close()
            return None
        return await hears_a_close(end)

    async def script(peer: Peer) -> None:
        end = await switch(peer)
        heard.set_result(await stays_or_goes(end, peer.reset if who == "upstream" else None))

    async with standing_still(tmp_path, script) as (gw, app, _):
        socket = await opened(gw)
        told = await stays_or_goes(socket, socket.caller.vanish if who == "caller" else None)
        codes = {told, await asyncio.wait_for(heard, DEADLINE_S)}
        assert codes == {None} if within == "a frame" else {None, 1011}
        await released(gw)
        assert counted(gw) == {"downstream" if who == "caller" else "upstream": 1}
        assert app.errors == []


# Handshakes


@pytest.mark.parametrize(
    ("sent", "status", "error"),
    [
        pytest.param(handshake(version="8"), 426, "upgrade_required", id="an old version"),
        pytest.param(handshake(version="013"), 426, "upgrade_required", id="a version in another spelling"),
        pytest.param(handshake(key=""), 400, "bad_request", id="an empty key"),
        pytest.param(handshake(key="dGhlIHNhbXBsZSBub25jZQ"), 400, "bad_request", id="a key without its padding"),
        pytest.param(handshake(key="dGhlIHNhbXBsZSBub25jZSE="), 400, "bad_request", id="a key of 17 bytes"),
        pytest.param(handshake("/", "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA=="), 400, "bad_request", id="two keys"),
        pytest.param(handshake().replace(b"GET", b"POST"), 400, "bad_request", id="another method"),
    ],
)
async def test_a_bad_handshake_gets_its_status_reaches_nobody_and_is_counted(
    tmp_path: Path, sent: bytes, status: int, error: str
) -> None:
    async with standing_still(tmp_path, stays) as (gw, app, _):
        caller = await gw.connect()
        answer = await caller.ask(sent)
        assert (answer.status, answer.json["error"]) == (status, error)
        assert await caller.rest() == b""
        await released(gw)
        method = sent.split(b" ")[0].decode()
        assert gw.metric("gateway_requests_total", route="r0", method=method, status=str(status)) == 1
        assert app.connections == 0
        assert counted(gw) == {}


def head_is_timed(gw: Running, clock: ManualClock) -> bool:
    """The head's budget runs, which is shorter than that of a connection without a request."""
    timers = [timer for timers in gw.gateway.wheel._slots.values() for timer in timers]
    return any(timer.at <= clock.now_s + 10.0 for timer in timers)


async def test_a_handshake_that_its_caller_never_finishes_is_a_request_timeout(tmp_path: Path) -> None:
    async with standing_still(tmp_path, stays, head_timeout_s=10.0) as (gw, app, clock):
        caller = await gw.connect()
        await caller.send(handshake()[:-2])
        async with asyncio.timeout(DEADLINE_S):
            while not head_is_timed(gw, clock):
                await asyncio.sleep(0)
        pass_time(gw, clock, 10.2)
        status, _ = parse_head((await caller.rest()).partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
        assert status == 408
        caller.close()
        await released(gw)
        assert gw.metric("gateway_requests_total", route="unmatched", method="other", status="408") == 1
        assert app.connections == 0


async def half_a_handshake(peer: Peer) -> None:
    await peer.read_head()
    await peer.write(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n")
    await peer.closed_by_gateway()


@pytest.mark.parametrize("script", [upstreams.never_answers, half_a_handshake])
async def test_a_handshake_that_the_upstream_never_finishes_is_a_gateway_timeout(
    tmp_path: Path, script: Script
) -> None:
    async with standing_still(tmp_path, script, ws_handshake_timeout_s=10.0) as (gw, app, clock):
        caller = await gw.connect()
        await caller.send(handshake())
        await asyncio.wait_for(app.arrived.wait(), DEADLINE_S)
        pass_time(gw, clock, 9.9)
        assert gw.metric("gateway_active_exchanges") == 1
        pass_time(gw, clock, 0.2)
        answer = await caller.answer()
        assert (answer.status, answer.json["error"]) == (504, "gateway_timeout")
        await asyncio.wait_for(app.gone.wait(), DEADLINE_S)
        assert await caller.rest() == b""
        await released(gw)
        assert gw.metric("gateway_upstream_failures_total", route="r0", kind="timeout") == 1
        assert gw.metric("gateway_requests_total", route="r0", method="GET", status="504") == 1
        assert app.errors == []


@pytest.mark.parametrize("resets", [True, False], ids=["reset", "closed"])
async def test_a_caller_that_vanishes_before_its_answer_releases_the_upstream_at_once(
    tmp_path: Path, resets: bool
) -> None:
    async with standing_still(tmp_path, upstreams.never_answers) as (gw, app, _):
        caller = await gw.connect()
        await caller.send(handshake())
        await asyncio.wait_for(app.arrived.wait(), DEADLINE_S)
        caller.vanish() if resets else caller.close()
        await asyncio.wait_for(app.gone.wait(), DEADLINE_S)
        await released(gw)
        assert gw.metric("gateway_requests_total", route="r0", method="GET", status="499") == 1
        assert counted(gw) == {}
        assert app.errors == []
