"""WebSockets over sockets: what passes, the two handshakes, and what the upstream's may answer."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from websockets.asyncio.client import connect
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory

from common.identity.signature import verify_identity
from tests.support import upstreams
from tests.support.gateway import route, running, table
from tests.support.upstreams import Peer, answers_with, upstream
from tests.support.websocket_frames import BINARY, CONTINUATION, MASK, PING, TEXT, frame
from tests.support.websocket_peers import (
    KEY,
    close_line,
    echo_server,
    handshake,
    nothing_left,
    opened,
    refused,
    switch,
    switches,
)


def sockets(url: str | list[str], **fields: Any) -> dict[str, Any]:
    """A table of one route that takes WebSockets."""
    return table(route(url, websocket=True, **fields))


@pytest.mark.parametrize("compression", ["deflate", None])
async def test_messages_of_every_kind_come_back_from_an_echo(tmp_path: Path, compression: Any) -> None:
    async with echo_server(compression=compression) as url, running(tmp_path, sockets(url)) as gw:
        async with connect(f"ws://127.0.0.1:{gw.port}/chat", compression=compression) as client:
            for message in ("", "hällo", b"", b"\x00\xff", "x" * 126, b"y" * 70_000, "z" * 1_000_000):
                await client.send(message)
                assert await client.recv() == message
            await client.send(["frag", "ment", "s"])
            assert await client.recv() == "fragments"
            await asyncio.wait_for(await client.ping(), 10)
        assert client.close_code == 1000
        line = await close_line(gw)
        assert (line["reason"], line["code"]) == ("downstream", 1000)
        assert (line["messagesIn"], line["messagesOut"]) == (8, 8)
        await nothing_left(gw)


async def test_frames_pass_as_the_bytes_that_came(tmp_path: Path) -> None:
    """With the caller's own masks: nobody unmasks and masks again."""
    sent = b"".join(
        (
            frame(TEXT, b"fra", fin=False, mask=b"abcd"),
            frame(PING, b"between", mask=MASK),
            frame(CONTINUATION, b"gment", mask=b"efgh"),
            frame(BINARY, bytes(100_000), mask=MASK),
        )
    )
    came: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def records(peer: Peer) -> None:
        end = await switch(peer)
        came.set_result(await asyncio.wait_for(end.reader.readexactly(len(sent)), 10))
        await end.raw(frame(TEXT, b"a", fin=False) + frame(CONTINUATION, b"b"))
        await peer.closed_by_gateway()

    async with upstream(records) as app, running(tmp_path, sockets(app.url)) as gw:
        websocket = await opened(gw)
        await websocket.raw(sent)
        assert await came == sent
        got = [await websocket.read() for _ in range(2)]
        assert [(f.opcode, f.payload, f.fin, f.masked) for f in got] == [
            (TEXT, b"a", False, False),
            (CONTINUATION, b"b", True, False),
        ]


async def test_bytes_behind_either_handshake_belong_to_the_websocket(tmp_path: Path) -> None:
    async def hasty(peer: Peer) -> None:
        end = await switch(peer, behind=frame(TEXT, b"from the upstream"))
        got = await end.read()
        await end.text(got.payload)
        await peer.closed_by_gateway()

    async with upstream(hasty) as app, running(tmp_path, sockets(app.url)) as gw:
        websocket = await opened(gw, behind=frame(TEXT, b"from the caller", mask=MASK))
        assert [(await websocket.read()).payload, (await websocket.read()).payload] == [
            b"from the upstream",
            b"from the caller",
        ]


async def test_a_caller_that_sends_much_before_its_answer_loses_nothing(tmp_path: Path) -> None:
    """More than is held while the upstream is asked, so that the socket is not read meanwhile."""
    answer = asyncio.Event()
    messages = [bytes([n]) * 50_000 for n in range(8)]

    async def slow(peer: Peer) -> None:
        await answer.wait()
        end = await switch(peer)
        while True:
            got = await end.read()
            await end.send(got.opcode, got.payload)

    async with upstream(slow) as app, running(tmp_path, sockets(app.url)) as gw:
        caller = await gw.connect()
        await caller.send(handshake())
        caller.writer.write(b"".join(frame(BINARY, message, mask=MASK) for message in messages))
        while app.connections == 0:
            await asyncio.sleep(0.01)
        answer.set()
        assert (await asyncio.wait_for(caller.reader.readuntil(b"\r\n\r\n"), 10)).startswith(b"HTTP/1.1 101")
        expected = b"".join(frame(BINARY, message) for message in messages)
        assert await asyncio.wait_for(caller.reader.readexactly(len(expected)), 10) == expected


async def test_the_upstreams_handshake_is_the_gateways_own_and_carries_the_identity(tmp_path: Path) -> None:
    document = sockets("", auth={"mode": "session"}, match={"host": "app.test"})
    async with upstream(switches()) as app:
        document["routes"][0]["upstream"] = f"{app.url}/base"
        async with running(tmp_path, document) as gw:
            cookie = await gw.session("ann", "ann@example.com", ("dev",))
            websocket = await opened(
                gw,
                "/chat/1?x=2",
                f"{cookie}; app=kept; gateway_oidc_state=x",
                "origin: http://app.test",
                "authorization: Bearer secret",
                "x-gateway-user-id: admin",
                "x-app: kept",
                "x-request-id: given-id",
            )
            await websocket.text(b"x")
            await websocket.read()
            (request,) = app.requests
            assert request.line == "GET /base/chat/1?x=2 HTTP/1.1"
            assert request.values(b"upgrade") == [b"websocket"]
            assert request.values(b"connection") == [b"Upgrade"]
            assert request.values(b"sec-websocket-version") == [b"13"]
            assert request.values(b"sec-websocket-key") != [KEY.encode()]
            assert request.values(b"cookie") == [b"app=kept"]
            assert request.values(b"authorization") == []
            assert request.values(b"x-app") == [b"kept"]
            assert request.values(b"origin") == [b"http://app.test"]
            assert request.values(b"x-request-id") == [b"given-id"]
            assert websocket.answer.value("x-request-id") == "given-id"
            verified = verify_identity(
                gw.gateway._signer.public_key_pem, request.headers(), method="GET", path="/base/chat/1", query="?x=2"
            )
            assert (verified.subject, verified.email, verified.roles) == ("ann", "ann@example.com", ("dev",))
            line = await gw.request_line()
            assert (line["status"], line["outcome"], line["subject"]) == (101, "ok", "ann")
            assert gw.metric("gateway_requests_total", route="r0", method="GET", status="101") == 1


async def test_a_route_that_forwards_authorization_does_so_here_too(tmp_path: Path) -> None:
    async with upstream(switches()) as app, running(tmp_path, sockets(app.url, forwardAuthorization=True)) as gw:
        await opened(gw, "/", "authorization: Bearer theirs")
        assert app.requests[0].values(b"authorization") == [b"Bearer theirs"]


@pytest.mark.parametrize("chosen", ["b", "a", None])
async def test_the_subprotocol_is_the_one_that_the_upstream_chose(tmp_path: Path, chosen: str | None) -> None:
    lines = () if chosen is None else (f"sec-websocket-protocol: {chosen}",)
    async with upstream(switches(*lines)) as app, running(tmp_path, sockets(app.url)) as gw:
        websocket = await opened(gw, "/", "sec-websocket-protocol: a, b", "sec-websocket-protocol: c")
        assert websocket.answer.values("sec-websocket-protocol") == ([] if chosen is None else [chosen])
        assert app.requests[0].values(b"sec-websocket-protocol") == [b"a, b, c"]


async def test_deflate_is_agreed_between_the_ends_with_their_parameters(tmp_path: Path) -> None:
    factory = ClientPerMessageDeflateFactory(client_max_window_bits=True, server_max_window_bits=10)
    async with echo_server(compression="deflate") as url, running(tmp_path, sockets(url)) as gw:
        async with connect(f"ws://127.0.0.1:{gw.port}/", compression=None, extensions=[factory]) as client:
            (extension,) = client.protocol.extensions
            assert extension.remote_max_window_bits == 10  # type: ignore[attr-defined]
            await client.send("compress me " * 1000)
            assert await client.recv() == "compress me " * 1000
        line = await close_line(gw)
        assert isinstance(line["bytesIn"], int)
        assert line["bytesIn"] < 1000


async def test_extensions_pass_as_they_were_sent_and_only_deflate(tmp_path: Path) -> None:
    answer = "permessage-deflate;server_no_context_takeover"
    async with (
        upstream(switches(f"sec-websocket-extensions: {answer}")) as app,
        running(tmp_path, sockets(app.url)) as gw,
    ):
        websocket = await opened(
            gw, "/", "sec-websocket-extensions: x-a, permessage-deflate; client_max_window_bits, x-b"
        )
        assert app.requests[0].values(b"sec-websocket-extensions") == [b"permessage-deflate; client_max_window_bits"]
        assert websocket.answer.values("sec-websocket-extensions") == [answer]


async def test_without_an_agreement_a_compressed_message_is_a_protocol_error(tmp_path: Path) -> None:
    async with echo_server(compression=None) as url, running(tmp_path, sockets(url)) as gw:
        websocket = await opened(gw, "/", "sec-websocket-extensions: permessage-deflate")
        assert websocket.answer.values("sec-websocket-extensions") == []
        await websocket.send(TEXT, b"x", rsv=4)
        assert (await websocket.closed())[0] == 1002


async def test_headers_of_the_upstreams_101_follow_the_rules_of_any_response(tmp_path: Path) -> None:
    lines = ("set-cookie: sticky=1; Path=/", "set-cookie: gateway_session=evil", "x-gateway-user-id: x", "x-app: 1")
    async with upstream(switches(*lines)) as app, running(tmp_path, sockets(app.url)) as gw:
        answer = (await opened(gw)).answer
        assert answer.values("set-cookie") == ["sticky=1; Path=/"]
        assert answer.values("x-gateway-user-id") == []
        assert answer.value("x-app") == "1"
        assert (answer.value("upgrade"), answer.value("connection")) == ("websocket", "Upgrade")
        assert answer.values("content-length") == answer.values("transfer-encoding") == []
        assert len(answer.values("date")) == 1


async def test_an_upstream_behind_tls_is_reached_over_wss(tmp_path: Path) -> None:
    authority = trustme.CA()
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server_side)

    def client_side() -> ssl.SSLContext:
        context = ssl.create_default_context()
        authority.configure_trust(context)
        return context

    async with echo_server(ssl=server_side) as url, running(tmp_path, sockets(url.replace("http", "https"))) as gw:
        untrusted = await refused(gw)
        assert (untrusted.status, untrusted.json["error"]) == (502, "bad_gateway")
        assert gw.metric("gateway_upstream_failures_total", route="r0", kind="tls") == 1
        gw.gateway._pool._tls = client_side
        async with asyncio.timeout(5), connect(f"ws://127.0.0.1:{gw.port}/") as client:
            for message in ("hello", b"x" * 1_000_000):
                await client.send(message)
                assert await client.recv() == message
        assert client.close_code == 1000
        await nothing_left(gw)


# What is no handshake


async def test_a_route_without_websockets_refuses_an_upgrade(tmp_path: Path) -> None:
    async with upstream(switches()) as app, running(tmp_path, table(route(app.url))) as gw:
        answer = await refused(gw)
        assert (answer.status, answer.json["error"]) == (400, "websocket_not_allowed")
        assert app.connections == 0


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (handshake(version="8"), 426, "upgrade_required"),
        (handshake(key="short"), 400, "bad_request"),
        (handshake("/", "sec-websocket-protocol: a b"), 400, "bad_request"),
        (handshake("/", "content-length: 1"), 400, "bad_request"),
        (handshake("/", "transfer-encoding: chunked"), 400, "bad_request"),
        (handshake().replace(b"GET", b"POST"), 400, "bad_request"),
    ],
)
async def test_a_bad_handshake_is_refused_and_closes(tmp_path: Path, sent: bytes, status: int, code: str) -> None:
    async with upstream(switches()) as app, running(tmp_path, sockets(app.url)) as gw:
        caller = await gw.connect()
        answer = await caller.ask(sent)
        assert (answer.status, answer.json["error"], answer.value("connection")) == (status, code, "close")
        assert answer.values("sec-websocket-version") == (["13"] if status == 426 else [])
        assert await caller.rest() == b""
        assert app.connections == 0
        await nothing_left(gw)


async def test_a_route_with_websockets_still_serves_http(tmp_path: Path) -> None:
    async with upstream(upstreams.answers) as app, running(tmp_path, sockets(app.url)) as gw:
        assert (await gw.get("/", "upgrade: websocket")).status == 200
        assert app.requests[0].values(b"upgrade") == []


# What the upstream may answer


@pytest.mark.parametrize("status", [400, 401, 403, 404, 426, 429])
async def test_a_refusal_of_the_upstreams_reaches_the_caller(tmp_path: Path, status: int) -> None:
    response = b"HTTP/1.1 %d No\r\nwww-authenticate: Custom\r\ncontent-length: 5\r\n\r\nsorry" % status
    async with upstream(answers_with(response)) as app, running(tmp_path, sockets([app.url, app.url])) as gw:
        answer = await refused(gw)
        assert (answer.status, answer.body) == (status, b"sorry")
        assert answer.value("www-authenticate") == "Custom"
        assert app.connections == 1
        line = await gw.request_line()
        assert (line["status"], line["outcome"], line["bytesOut"]) == (status, "ok", 5)
        await nothing_left(gw)


@pytest.mark.parametrize("status", [200, 204, 302, 500, 503])
async def test_any_other_answer_of_the_upstreams_is_a_bad_gateway(tmp_path: Path, status: int) -> None:
    response = b"HTTP/1.1 %d No\r\ncontent-length: 0\r\nlocation: /x\r\n\r\n" % status
    async with upstream(answers_with(response)) as app, running(tmp_path, sockets([app.url, app.url])) as gw:
        answer = await refused(gw)
        assert (answer.status, answer.json["error"]) == (502, "bad_gateway")
        assert answer.values("location") == []
        assert app.connections == 1
        line = await gw.request_line()
        assert f"answered the handshake with {status}" in line["detail"]
        await nothing_left(gw)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (("sec-websocket-protocol: never-offered",), "subprotocol"),
        (("sec-websocket-extensions: permessage-deflate",), "extension"),
        (("sec-websocket-accept: again",), "key"),
    ],
)
async def test_an_answer_that_a_client_would_fail_is_a_bad_gateway(tmp_path: Path, lines: Any, why: str) -> None:
    async with upstream(switches(*lines)) as app, running(tmp_path, sockets(app.url)) as gw:
        assert (await refused(gw)).status == 502
        assert why in (await gw.request_line())["detail"]
        assert gw.metric("gateway_upstream_failures_total", route="r0", kind="malformed") == 1
        await asyncio.wait_for(app.gone.wait(), 10)
        await nothing_left(gw)


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (upstreams.closes_without_answer, "reset"),
        (upstreams.resets_without_answer, "reset"),
        (upstreams.answers_and_closes(b"HTTP/1.1 101\r\nmal formed\r\n\r\n"), "malformed"),
    ],
)
async def test_an_upstream_that_breaks_off_is_a_bad_gateway(tmp_path: Path, script: Any, kind: str) -> None:
    async with upstream(script) as app, running(tmp_path, sockets([app.url, app.url])) as gw:
        assert (await refused(gw)).status == 502
        assert gw.metric("gateway_upstream_failures_total", route="r0", kind=kind) == 1
        assert app.connections == 1
        await nothing_left(gw)


async def test_the_handshake_goes_to_the_first_upstream_and_to_no_other(tmp_path: Path) -> None:
    async with upstream(switches()) as second, running(tmp_path, sockets(["http://127.0.0.1:9", second.url])) as gw:
        for _ in range(5):
            assert (await refused(gw)).status == 502
        assert second.connections == 0


async def test_an_upstream_that_does_not_answer_in_time_is_a_gateway_timeout(tmp_path: Path) -> None:
    async with (
        upstream(upstreams.never_answers) as app,
        running(tmp_path, sockets(app.url), ws_handshake_timeout_s=0.2) as gw,
    ):
        answer = await refused(gw)
        assert (answer.status, answer.json["error"]) == (504, "gateway_timeout")
        await asyncio.wait_for(app.gone.wait(), 10)
        await nothing_left(gw)


async def test_a_connection_that_takes_longer_than_the_handshake_may_is_a_gateway_timeout(tmp_path: Path) -> None:
    """Whatever the route's `connectMs` says. The kernel answers no further dial while a listener's queue is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        url = f"http://127.0.0.1:{port}"
        async with running(tmp_path, sockets(url, timeouts={"connectMs": 60_000}), ws_handshake_timeout_s=0.2) as gw:
            answer = await refused(gw)
            assert (answer.status, answer.json["error"]) == (504, "gateway_timeout")
            await nothing_left(gw)
        for filler in fillers:
            filler.close()


async def test_interim_responses_before_the_101_are_skipped(tmp_path: Path) -> None:
    async def early(peer: Peer) -> None:
        await peer.write(b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n")
        await switches()(peer)

    async with upstream(early) as app, running(tmp_path, sockets(app.url)) as gw:
        websocket = await opened(gw)
        await websocket.text(b"x")
        assert (await websocket.read()).payload == b"x"
