"""How WebSockets end: by either side, by a peer that vanishes in any phase, and by the drain. Nothing stays behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import upstreams
from tests.support.gateway import Running, route, running, table
from tests.support.upstreams import Peer, upstream
from tests.support.websocket_frames import BINARY, CLOSE, CONTINUATION, MASK, TEXT, close, frame
from tests.support.websocket_peers import Switched, close_line, handshake, nothing_left, opened, stays, switch, switches

BLOCK = bytes(60_000)


def sockets(url: str, **fields: Any) -> dict[str, Any]:
    return table(route(url, websocket=True, **fields))


def closed(gw: Running, reason: str) -> float:
    return gw.metric("gateway_websocket_closed_total", route="r0", reason=reason)


@pytest.mark.parametrize(("code", "reason"), [(1000, b""), (3000, b"bye"), (4001, b"r" * 123), (None, b"")])
async def test_the_callers_close_passes_with_code_and_reason(tmp_path: Path, code: int | None, reason: bytes) -> None:
    async with upstream(switches()) as app, running(tmp_path, sockets(app.url)) as gw:
        socket = await opened(gw)
        await socket.close(code, reason)
        got = await socket.read()
        assert (got.opcode, got.code, got.payload[2:]) == (CLOSE, code, reason)
        assert await socket.rest() == b""
        line = await close_line(gw)
        assert (line["reason"], line["code"]) == ("downstream", code or 1005)
        assert closed(gw, "downstream") == 1
        await nothing_left(gw)


@pytest.mark.parametrize(("code", "reason"), [(1001, b""), (4001, b"r" * 123), (None, b"")])
async def test_the_upstreams_close_passes_with_code_and_reason(tmp_path: Path, code: int | None, reason: bytes) -> None:
    async def closes(peer: Peer) -> None:
        end = await switch(peer)
        await end.text(b"last words")
        await end.close(code, reason)
        got = await end.read()
        assert (got.opcode, got.code, got.masked) == (CLOSE, code, True)
        assert await end.rest() == b""

    async with upstream(closes) as app, running(tmp_path, sockets(app.url)) as gw:
        socket = await opened(gw)
        assert (await socket.read()).payload == b"last words"
        assert await socket.closed() == (code, reason)
        assert (await close_line(gw))["reason"] == "upstream"
        assert closed(gw, "upstream") == 1
        await nothing_left(gw)
        assert app.errors == []


@pytest.mark.parametrize("code", [999, 1005, 1006, 1015, 5000])
async def test_a_code_that_never_travels_is_a_protocol_error(tmp_path: Path, code: int) -> None:
    async def lies(peer: Peer) -> None:
        end = await switch(peer)
        await end.close(code)
        assert (await end.closed())[0] == 1002

    async with upstream(lies) as app, running(tmp_path, sockets(app.url)) as gw:
        assert (await (await opened(gw)).closed())[0] == 1002
        await nothing_left(gw)
        assert app.errors == []


async def test_half_a_code_is_a_protocol_error(tmp_path: Path) -> None:
    async with upstream(switches()) as app, running(tmp_path, sockets(app.url)) as gw:
        socket = await opened(gw)
        await socket.send(CLOSE, b"\x03")
        assert (await socket.closed())[0] == 1002
        await nothing_left(gw)


async def test_a_caller_that_only_closes_its_half_behind_its_close_still_gets_the_answer(tmp_path: Path) -> None:
    async with upstream(switches()) as app, running(tmp_path, sockets(app.url)) as gw:
        socket = await opened(gw)
        await socket.close(1000)
        socket.writer.write_eof()
        assert await socket.rest() == close(1000)
        await nothing_left(gw)


# Peers that vanish

Way = Callable[[Any], None]


def resets(end: Any) -> None:
    (end.caller.vanish if hasattr(end, "caller") else end.peer.reset)()


def closes(end: Any) -> None:
    end.writer.close()


@pytest.mark.parametrize("how", [resets, closes])
@pytest.mark.parametrize("said", [b"", frame(TEXT, b"whole", mask=MASK), frame(BINARY, b"piece", fin=False, mask=MASK)])
async def test_a_caller_that_vanishes_leaves_1011_to_the_upstream(tmp_path: Path, how: Way, said: bytes) -> None:
    async def hears(peer: Peer) -> None:
        end = await switch(peer)
        if said:
            await end.read()
        assert await end.closed() == (1011, b"the other side is gone")

    async with upstream(hears) as app, running(tmp_path, sockets(app.url)) as gw:
        socket = await opened(gw, behind=said)
        while said and not next(iter(gw.gateway.websockets.open))._relay.down.bytes_passed:  # type: ignore[attr-defined]
            await asyncio.sleep(0.005)
        how(socket)
        await asyncio.wait_for(app.gone.wait(), 10)
        line = await close_line(gw)
        assert (line["reason"], line["code"]) == ("downstream", 1006)
        await nothing_left(gw)
        assert app.errors == []


@pytest.mark.parametrize("how", [resets, closes])
@pytest.mark.parametrize("said", [b"", frame(TEXT, b"whole"), frame(BINARY, b"piece", fin=False)])
async def test_an_upstream_that_vanishes_leaves_1011_to_the_caller(tmp_path: Path, how: Way, said: bytes) -> None:
    go = asyncio.Event()

    async def vanishes(peer: Peer) -> None:
        end = await switch(peer, behind=said)
        await go.wait()
        how(end)

    async with upstream(vanishes) as app, running(tmp_path, sockets(app.url)) as gw:
        socket = await opened(gw)
        if said:
            await socket.read()
        go.set()
        assert await socket.closed() == (1011, b"the other side is gone")
        line = await close_line(gw)
        assert (line["reason"], line["code"]) == ("upstream", 1006)
        await nothing_left(gw)


async def test_an_upstream_that_vanishes_within_a_frame_ends_the_callers_connection(tmp_path: Path) -> None:
    async def vanishes(peer: Peer) -> None:
        await switch(peer, behind=frame(BINARY, bytes(1_000))[:500])

    async with upstream(vanishes) as app, running(tmp_path, sockets(app.url)) as gw:
        socket = await opened(gw)
        assert await socket.rest() == frame(BINARY, bytes(1_000))[:500]
        assert (await close_line(gw))["code"] == 1006
        await nothing_left(gw)


@pytest.mark.parametrize("how", [resets, closes])
async def test_a_caller_that_vanishes_during_the_handshake_lets_the_upstream_go(tmp_path: Path, how: Way) -> None:
    async with upstream(upstreams.never_answers) as app, running(tmp_path, sockets(app.url)) as gw:
        caller = await gw.connect()
        await caller.send(handshake())
        await asyncio.wait_for(app.arrived.wait(), 10)
        caller.vanish() if how is resets else caller.close()
        await asyncio.wait_for(app.gone.wait(), 10)
        line = await gw.request_line()
        assert (line["status"], line["outcome"]) == (499, "aborted")
        await nothing_left(gw)


async def test_a_caller_that_vanishes_between_its_close_and_the_answer_leaves_nothing(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def slow(peer: Peer) -> None:
        end = await switch(peer)
        await end.read()
        await go.wait()
        await end.close(1000)
        await end.rest()

    async with upstream(slow) as app, running(tmp_path, sockets(app.url)) as gw:
        socket = await opened(gw)
        await socket.close(1000)
        while not next(iter(gw.gateway.websockets.open))._relay.down.bytes_passed:  # type: ignore[attr-defined]
            await asyncio.sleep(0.005)
        socket.caller.vanish()
        go.set()
        await asyncio.wait_for(app.gone.wait(), 10)
        assert (await close_line(gw))["code"] == 1000
        await nothing_left(gw)


def at_the_switch(gw: Running, action: Callable[[Any], object]) -> None:
    """Do something when the upstream has answered the handshake and the caller has not been answered."""
    step: Any = gw.gateway._dispatcher._open_websocket
    began = step._on_response

    def response_began(x: Any) -> None:
        action(x)
        began(x)

    step._on_response = response_began


async def test_a_caller_that_is_lost_at_the_moment_of_the_switch_leaves_nothing(tmp_path: Path) -> None:
    async def hears(peer: Peer) -> None:
        assert (await (await switch(peer)).closed())[0] == 1011

    async with upstream(hears) as app, running(tmp_path, sockets(app.url)) as gw:
        at_the_switch(gw, lambda x: x.connection.abort())
        caller = await gw.connect()
        await caller.send(handshake())
        await asyncio.wait_for(app.gone.wait(), 10)
        assert (await close_line(gw))["code"] == 1006
        await nothing_left(gw)
        assert app.errors == []
        assert gw.gateway.websockets._taken == 0


async def test_a_task_that_is_cancelled_at_the_moment_of_the_switch_leaves_nothing(tmp_path: Path) -> None:
    async with upstream(stays) as app, running(tmp_path, sockets(app.url)) as gw:
        at_the_switch(gw, lambda _: [task.cancel() for task in gw.gateway.tasks._tasks])
        caller = await gw.connect()
        await caller.send(handshake())
        await caller.rest()
        await asyncio.wait_for(app.gone.wait(), 10)
        assert (await close_line(gw))["reason"] == "drain"
        await nothing_left(gw)
        assert gw.gateway.websockets._taken == 0


async def fill(socket: Any, gw: Running) -> None:
    """Send until the gateway reads no more, because the upstream takes nothing."""
    (websocket,) = gw.gateway.websockets.open
    relay = websocket._relay  # type: ignore[attr-defined]
    while not relay.up.blocked:
        socket.writer.write(frame(BINARY, BLOCK, mask=MASK))
        await asyncio.sleep(0.002)
    assert relay.up._transport.get_write_buffer_size() <= 65_536


async def test_a_caller_that_vanishes_while_it_is_not_read_is_noticed(tmp_path: Path) -> None:
    """A side that takes nothing stops the other's socket from being read, and an unread socket tells nothing."""

    async def stuck(peer: Peer) -> None:
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.Event().wait()

    async def takes_nothing(peer: Peer) -> None:
        await switch(peer)
        await stuck(peer)

    async with upstream(takes_nothing) as app, running(tmp_path, sockets(app.url)) as gw:
        socket = await opened(gw)
        await fill(socket, gw)
        socket.caller.vanish()
        line = await close_line(gw)
        assert (line["reason"], line["code"]) == ("downstream", 1006)
        await nothing_left(gw)


async def test_three_hundred_callers_that_vanish_leave_nothing_behind(tmp_path: Path) -> None:
    async with upstream(stays) as app, running(tmp_path, sockets(app.url), ws_max_per_principal=0) as gw:
        many = [await opened(gw) for _ in range(300)]
        assert gw.metric("gateway_websockets") == 300
        for socket in many:
            socket.caller.vanish()
        await nothing_left(gw)
        assert closed(gw, "downstream") == 300
        assert len(gw.requests()) == 300


# A side that takes nothing


async def test_an_answer_that_never_comes_is_waited_for_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dataplane.websocket.relay.ANSWER_S", 0.2)
    async with upstream(stays) as app, running(tmp_path, sockets(app.url)) as gw:
        socket = await opened(gw)
        await socket.close(1000)
        got = await socket.read()
        assert (got.code, got.payload[2:]) == (1011, b"the other side did not answer")
        assert await socket.rest() == b""
        await asyncio.wait_for(app.gone.wait(), 10)
        await nothing_left(gw)


# The drain


async def drained(tmp_path: Path, script: Callable[[Switched], Awaitable[None]], timeout_s: float = 0.2) -> None:
    """One WebSocket whose upstream runs `script`; the caller answers the Close it must get."""

    async def app_script(peer: Peer) -> None:
        await script(await switch(peer))

    async with upstream(app_script) as app, running(tmp_path, sockets(app.url), shutdown_timeout_s=timeout_s) as gw:
        socket = await opened(gw)
        await socket.text(b"hello")
        stopping = asyncio.create_task(gw.gateway.stop())
        while (got := await socket.read()).opcode != CLOSE:
            pass
        assert (got.code, got.payload[2:]) == (1001, b"the gateway stops")
        await socket.close(1001)
        assert await socket.rest() == b""
        await asyncio.wait_for(stopping, 10)
        await asyncio.wait_for(app.gone.wait(), 10)
        assert app.errors == []
        line = await close_line(gw)
        assert (line["reason"], line["code"]) == ("drain", 1001)
        assert closed(gw, "drain") == 1
        assert len(gw.gateway.tasks) == 0


async def test_the_end_of_a_drain_closes_with_1001(tmp_path: Path) -> None:
    async def script(end: Switched) -> None:
        assert (await end.read()).payload == b"hello"
        assert (await end.closed())[0] == 1001

    await drained(tmp_path, script)


async def test_a_message_that_is_under_way_at_the_end_of_a_drain_is_finished(tmp_path: Path) -> None:
    async def script(end: Switched) -> None:
        await end.read()
        await end.send(TEXT, b"first", fin=False)
        assert (await end.read()).code == 1001
        await end.send(CONTINUATION, b"last")
        await end.text(b"one too many")
        await end.close(1001)
        assert await end.rest() == b""

    await drained(tmp_path, script)


async def test_until_the_end_of_a_drain_messages_pass(tmp_path: Path) -> None:
    async with upstream(switches()) as app, running(tmp_path, sockets(app.url), shutdown_timeout_s=10.0) as gw:
        socket = await opened(gw)
        stopping = asyncio.create_task(gw.gateway.stop())
        while not gw.gateway.draining:
            await asyncio.sleep(0)
        await socket.text(b"hello")
        assert (await socket.read()).payload == b"hello"
        await socket.close(1000)
        assert (await socket.read()).code == 1000
        await asyncio.wait_for(stopping, 5)


async def test_a_drain_does_not_wait_for_peers_that_do_not_answer(tmp_path: Path) -> None:
    async with upstream(stays) as app, running(tmp_path, sockets(app.url), shutdown_timeout_s=0.1) as gw:
        sockets_ = [await opened(gw) for _ in range(20)]
        await asyncio.wait_for(gw.gateway.stop(), 5)
        for socket in sockets_:
            assert await socket.rest() == close(1001, b"the gateway stops")
        assert closed(gw, "drain") == 20
        assert len(gw.gateway.tasks) == 0
