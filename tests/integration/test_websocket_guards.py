"""What bounds an open WebSocket and who may have one: origins, counts, message size, silence, revalidation."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from common.identity.principal import Principal
from common.settings.secret import Secret
from common.state.ports import StateUnavailable
from tests.support.gateway import Running, route, running, table
from tests.support.upstreams import Peer, ok, upstream
from tests.support.websocket_frames import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, frame
from tests.support.websocket_peers import Socket, close_line, nothing_left, opened, refused, stays, switch, switches

WORKSPACE = "11111111-1111-4111-8111-111111111111"
SESSION = {"mode": "session"}


def sockets(url: str, **fields: Any) -> dict[str, Any]:
    return table(route(url, websocket=True, **fields))


def closed(gw: Running, reason: str) -> float:
    return gw.metric("gateway_websocket_closed_total", route="r0", reason=reason)


# Origins (§10): a handshake that carries the session cookie


@pytest.mark.parametrize(
    ("origin", "admitted"),
    [
        ("http://app.test", True),
        ("HTTP://APP.test:80", True),
        ("https://allowed.example.com", True),
        ("https://app.test", False),
        ("http://app.test:8080", False),
        ("http://other.test", False),
        ("http://sub.app.test", False),
        ("null", False),
        ("", False),
        (None, False),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
async def test_a_handshake_with_the_session_cookie_names_an_allowed_origin(
    tmp_path: Path, origin: str | None, admitted: bool, strict: bool
) -> None:
    async with (
        upstream(switches()) as app,
        running(
            tmp_path,
            sockets(app.url, auth=SESSION, match={"host": "app.test"}),
            allowed_origins=("https://allowed.example.com",),
            csrf_strict=strict,
        ) as gw,
    ):
        lines = [await gw.session()] + ([] if origin is None else [f"origin: {origin}"])
        if admitted:
            await opened(gw, "/", *lines)
        else:
            answer = await refused(gw, "/", *lines)
            assert (answer.status, answer.json["error"]) == (403, "cross_site_request")
            assert app.connections == 0
            assert gw.metric("gateway_auth_failures_total", route="r0", reason="cross_site") == 1


async def test_a_cookie_on_a_route_without_sessions_asks_for_an_origin_as_well(tmp_path: Path) -> None:
    """The guard is about the cookie that a browser adds, not about the credential that was used."""
    async with upstream(switches()) as app, running(tmp_path, sockets(app.url)) as gw:
        assert (await refused(gw, "/", await gw.session(), "origin: http://evil.test")).status == 403
        await opened(gw, "/", "origin: http://evil.test")


async def test_a_bearer_needs_no_origin(tmp_path: Path) -> None:
    class Tokens:
        async def verify(self, token: bytes) -> Principal:
            return Principal(token.decode(), "", (), "bearer")

    async with upstream(switches()) as app, running(tmp_path, sockets(app.url, auth={"mode": "any"})) as gw:
        gw.gateway._authentication.step._tokens = Tokens()  # type: ignore[assignment]
        await opened(gw, "/", "authorization: Bearer robot")
        assert app.requests[0].values(b"x-gateway-user-id") == [b"robot"]
        assert (await refused(gw)).status == 401


# Counts


async def test_one_websocket_more_than_the_bound_is_503_until_one_ends(tmp_path: Path) -> None:
    async with upstream(switches()) as app, running(tmp_path, sockets(app.url), ws_max_connections=2) as gw:
        first, _ = await opened(gw), await opened(gw)
        assert gw.metric("gateway_websockets") == 2
        answer = await refused(gw)
        assert (answer.status, answer.json["error"]) == (503, "gateway_overloaded")
        assert int(answer.value("retry-after")) >= 1
        assert app.connections == 2
        await first.close(1000)
        await close_line(gw)
        await opened(gw)


async def test_a_subject_has_its_own_bound_whatever_its_sessions(tmp_path: Path) -> None:
    async with (
        upstream(switches()) as app,
        running(tmp_path, sockets(app.url, auth=SESSION), ws_max_per_principal=2) as gw,
    ):
        origin = "origin: http://app.test"
        await opened(gw, "/", await gw.session("ann"), origin)
        second = await opened(gw, "/", await gw.session("ann"), origin)
        answer = await refused(gw, "/", await gw.session("ann"), origin)
        assert (answer.status, answer.json["error"]) == (429, "too_many_requests")
        assert int(answer.value("retry-after")) >= 1
        await opened(gw, "/", await gw.session("bob"), origin)
        second.caller.vanish()
        await close_line(gw)
        await opened(gw, "/", await gw.session("ann"), origin)


async def test_an_address_has_its_own_bound_where_nobody_is_authenticated(tmp_path: Path) -> None:
    document = {**sockets("http://127.0.0.1:9"), "trustedProxies": ["127.0.0.1/32"]}
    async with upstream(switches()) as app:
        document["routes"][0]["upstream"] = app.url
        async with running(tmp_path, document, ws_max_per_principal=1) as gw:
            await opened(gw, "/", "x-forwarded-for: 2001:db8::1")
            assert (await refused(gw, "/", "x-forwarded-for: 2001:db8::2")).status == 429
            await opened(gw, "/", "x-forwarded-for: 2001:db8:1::1")
            await opened(gw, "/", "x-forwarded-for: 203.0.113.7")


async def test_handshakes_count_and_give_their_places_back_when_they_fail(tmp_path: Path) -> None:
    arrived, answer = asyncio.Event(), asyncio.Event()

    async def slow(peer: Peer) -> None:
        await peer.read_head()
        arrived.set()
        await answer.wait()
        await peer.write(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n")

    async with upstream(slow) as app, running(tmp_path, sockets(app.url), ws_max_connections=1) as gw:
        first = asyncio.create_task(refused(gw))
        await asyncio.wait_for(arrived.wait(), 10)
        assert gw.metric("gateway_active_exchanges") == 1
        assert (await refused(gw)).status == 503
        answer.set()
        assert (await first).status == 404
        await nothing_left(gw)
        assert (await refused(gw)).status == 404


async def test_an_open_websocket_holds_no_place_of_requests_and_exchanges(tmp_path: Path) -> None:
    async with (
        upstream(switches()) as app,
        running(tmp_path, sockets(app.url), max_pending_requests=1, max_concurrent_requests=1) as gw,
    ):
        for _ in range(3):
            await opened(gw)
        assert gw.metric("gateway_active_requests") == gw.metric("gateway_active_exchanges") == 0
        assert gw.metric("gateway_websockets") == 3


# Messages and silence


@pytest.mark.parametrize("fragments", [1, 3])
async def test_a_message_over_the_bound_closes_both_sides_with_1009(tmp_path: Path, fragments: int) -> None:
    told: asyncio.Future[tuple[int | None, bytes]] = asyncio.get_running_loop().create_future()

    async def app_script(peer: Peer) -> None:
        end = await switch(peer)
        while (got := await end.read()).opcode != CLOSE:
            pass
        await end.close(got.code)
        told.set_result((got.code, got.payload[2:]))

    async with upstream(app_script) as app, running(tmp_path, sockets(app.url), ws_max_message_bytes=3_000) as gw:
        fits = await opened(gw)
        await fits.send(BINARY, bytes(3_000))
        if fragments == 1:
            await fits.send(BINARY, bytes(3_001))
        else:
            await fits.send(BINARY, bytes(1_500), fin=False)
            await fits.send(CONTINUATION, bytes(1_500), fin=False)
            await fits.send(CONTINUATION, bytes(1))
        assert await fits.closed() == (1009, b"the message is too large")
        assert await told == (1009, b"the message is too large")
        assert (await close_line(gw))["code"] == 1009
        assert closed(gw, "message_size") == 1
        await nothing_left(gw)


async def test_the_bound_holds_for_the_upstreams_messages_too(tmp_path: Path) -> None:
    async def large(peer: Peer) -> None:
        end = await switch(peer)
        await end.send(BINARY, bytes(3_001))
        assert (await end.closed())[0] == 1009

    async with upstream(large) as app, running(tmp_path, sockets(app.url), ws_max_message_bytes=3_000) as gw:
        assert (await (await opened(gw)).closed())[0] == 1009
        assert "upstream" in str((await close_line(gw))["detail"])
        await nothing_left(gw)
        assert app.errors == []


@pytest.mark.parametrize("data", [frame(3), frame(TEXT, b"unmasked"), frame(PING, bytes(126)), b"\xff\xff"])
async def test_a_malformed_frame_closes_both_sides_with_1002(tmp_path: Path, data: bytes) -> None:
    async with upstream(switches()) as app, running(tmp_path, sockets(app.url)) as gw:
        socket = await opened(gw)
        await socket.raw(data + bytes(100_000))
        assert (await socket.closed())[0] == 1002
        line = await close_line(gw)
        assert (line["reason"], line["code"]) == ("error", 1002)
        assert str(line["detail"]).startswith("downstream: ")
        assert closed(gw, "error") == 1
        await nothing_left(gw)


async def test_silence_closes_with_1001_and_any_frame_breaks_it(tmp_path: Path) -> None:
    async with upstream(switches()) as app, running(tmp_path, sockets(app.url), ws_idle_timeout_s=0.6) as gw:
        socket = await opened(gw)
        async with asyncio.timeout(10):
            for opcode in (PING, PONG, TEXT, PING, PONG, TEXT):
                await asyncio.sleep(0.25)
                await socket.send(opcode)
                assert (await socket.read()).opcode == opcode
        assert await socket.closed() == (1001, b"idle")
        assert (await close_line(gw))["reason"] == "idle"
        assert closed(gw, "idle") == 1
        await nothing_left(gw)


# Revalidation, each time asked for by the test


async def revalidated(gw: Running) -> None:
    """Check every open connection now, and wait for the checks."""
    for websocket in list(gw.gateway.websockets.open):
        websocket.revalidate()  # type: ignore[attr-defined]
        task = websocket._check  # type: ignore[attr-defined]
        await asyncio.wait_for(task, 10)


async def ended_with_1008(gw: Running, socket: Socket, detail: str) -> None:
    assert await socket.closed() == (1008, b"no longer allowed")
    line = await close_line(gw)
    assert (line["reason"], line["code"]) == ("revalidation", 1008)
    assert detail in str(line["detail"])
    assert closed(gw, "revalidation") == 1
    await nothing_left(gw)


async def test_a_connection_that_stands_goes_on(tmp_path: Path) -> None:
    async with upstream(switches()) as app, running(tmp_path, sockets(app.url, auth=SESSION)) as gw:
        socket = await opened(gw, "/", await gw.session(), "origin: http://app.test")
        for _ in range(3):
            await revalidated(gw)
        await socket.text(b"still here")
        assert (await socket.read()).payload == b"still here"


@pytest.mark.parametrize("change", [{"websocket": False}, {"id": "renamed"}, None])
async def test_a_route_that_goes_or_changes_ends_it(tmp_path: Path, change: dict[str, Any] | None) -> None:
    async with upstream(switches()) as app, running(tmp_path, sockets(app.url)) as gw:
        socket = await opened(gw)
        document = sockets(app.url) if change is None else table({**sockets(app.url)["routes"][0], **change})
        if change is None:
            document["routes"][0]["match"]["path"] = "/elsewhere"
        (tmp_path / "routes.json").write_text(json.dumps(document))
        assert await gw.gateway.configuration.reload_now()
        await revalidated(gw)
        await ended_with_1008(gw, socket, "route")


async def test_a_session_that_is_deleted_ends_it(tmp_path: Path) -> None:
    async with upstream(switches()) as app, running(tmp_path, sockets(app.url, auth=SESSION)) as gw:
        socket = await opened(gw, "/", await gw.session("ann"), "origin: http://app.test")
        assert await gw.gateway.state.delete_subject_sessions("ann") == 1
        await revalidated(gw)
        await ended_with_1008(gw, socket, "session is over")


async def test_a_store_that_cannot_be_asked_ends_it(tmp_path: Path) -> None:
    async def away(_: str) -> None:
        raise StateUnavailable("the store is away")

    async with upstream(switches()) as app, running(tmp_path, sockets(app.url, auth=SESSION)) as gw:
        socket = await opened(gw, "/", await gw.session("ann"), "origin: http://app.test")
        gw.gateway.state.read_session = away  # type: ignore[method-assign,assignment]
        await revalidated(gw)
        await ended_with_1008(gw, socket, "could not be read")


@pytest.mark.parametrize("allows", [False, None])
async def test_access_is_asked_fresh_and_a_denial_or_an_outage_ends_it(tmp_path: Path, allows: bool | None) -> None:
    """However long decisions are kept, and however long they may bridge an outage."""
    answers = asyncio.Queue[bool | None]()

    async def decides(peer: Peer) -> None:
        while True:
            await peer.read_request()
            allow = await answers.get()
            if allow is None:
                await peer.write(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n")
            else:
                body = b'{"allow":%s}' % (b"true" if allow else b"false")
                await peer.write(ok(body, b"content-type: application/json\r\n"))

    auth = {**SESSION, "workspace": {"param": "id"}}
    async with upstream(switches()) as app, upstream(decides) as access:
        document = table(route(app.url, "/{id}", websocket=True, auth=auth))
        document["routes"][0] |= {"accessCacheTtlMs": 60_000, "accessStaleGraceMs": 600_000}
        settings = {"access_url": access.url, "access_token": Secret("t" * 40)}
        async with running(tmp_path, document, **settings) as gw:
            answers.put_nowait(True)
            socket = await opened(gw, f"/{WORKSPACE}", await gw.session("ann"), "origin: http://app.test")
            answers.put_nowait(True)
            await revalidated(gw)
            assert gw.metric("gateway_websockets") == 1
            answers.put_nowait(allows)
            await revalidated(gw)
            assert len(access.requests) == 3
            await ended_with_1008(gw, socket, "access_unavailable" if allows is None else "Access denied")


async def test_a_check_that_breaks_ends_it_without_its_message(tmp_path: Path) -> None:
    """The text of an unforeseen exception may quote a credential."""

    async def broken(_: str) -> None:
        raise RuntimeError("Bearer s3cret-token")

    async with upstream(switches()) as app, running(tmp_path, sockets(app.url, auth=SESSION)) as gw:
        socket = await opened(gw, "/", await gw.session("ann"), "origin: http://app.test")
        gw.gateway.state.read_session = broken  # type: ignore[method-assign,assignment]
        await revalidated(gw)
        await ended_with_1008(gw, socket, "RuntimeError")
        assert "s3cret" not in str(gw.lines)


async def test_a_check_that_still_runs_at_the_end_is_stopped(tmp_path: Path) -> None:
    async def never(_: str) -> None:
        await asyncio.Event().wait()

    async with upstream(switches()) as app, running(tmp_path, sockets(app.url, auth=SESSION)) as gw:
        socket = await opened(gw, "/", await gw.session("ann"), "origin: http://app.test")
        gw.gateway.state.read_session = never  # type: ignore[method-assign,assignment]
        (websocket,) = gw.gateway.websockets.open
        websocket.revalidate()  # type: ignore[attr-defined]
        await socket.close(1000)
        await nothing_left(gw)


async def test_checks_come_by_themselves(tmp_path: Path) -> None:
    async with (
        upstream(switches()) as app,
        running(tmp_path, sockets(app.url, auth=SESSION), ws_revalidate_interval_s=0.2) as gw,
    ):
        socket = await opened(gw, "/", await gw.session("ann"), "origin: http://app.test")
        asked: list[str] = []
        read = gw.gateway.state.read_session

        async def counted(id_hash: str) -> Any:
            asked.append(id_hash)
            return await read(id_hash)

        gw.gateway.state.read_session = counted  # type: ignore[method-assign]
        async with asyncio.timeout(10):
            while len(asked) < 3:
                await asyncio.sleep(0.01)
        assert gw.metric("gateway_websockets") == 1
        await gw.gateway.state.delete_subject_sessions("ann")
        await ended_with_1008(gw, socket, "session is over")


async def test_an_interval_of_zero_checks_nothing_and_is_warned_of(tmp_path: Path) -> None:
    async with upstream(stays) as app, running(tmp_path, sockets(app.url), ws_revalidate_interval_s=0.0) as gw:
        await opened(gw)
        (websocket,) = gw.gateway.websockets.open
        assert not websocket._timer.running  # type: ignore[attr-defined]
        assert gw.permissive_settings() == ["GATEWAY_WS_REVALIDATE_INTERVAL_MS", "auth.mode", "match.host"]
