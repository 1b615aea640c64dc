"""TLS towards upstreams: verified always, refused with a reason, never repeated wrongly (§11.1.2, §11.4)."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.x509.oid import ExtendedKeyUsageOID

from common.settings.secret import Secret
from dataplane.tls.certificate import CertificateRefused
from tests.support.certificates import Issued, authority, expired, handmade, issue, replace
from tests.support.gateway import DEADLINE_S, Running, route, running, table
from tests.support.tls import Served, openssl_server
from tests.support.upstreams import (
    Peer,
    Script,
    Upstream,
    answers,
    answers_early,
    answers_with,
    cuts_chunked_body,
    echoes,
    never_answers,
    ok,
    upstream,
)
from tests.support.websocket_frames import TEXT
from tests.support.websocket_peers import opened, refused, switches

GET = b"GET / HTTP/1.1\r\nhost: app.test\r\n\r\n"
STREAMED = b"GET / HTTP/1.1\r\nhost: app.test\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: app.test\r\ncontent-length: 2\r\n\r\nhi"


def server_context(
    tmp_path: Path,
    issued: Issued | None = None,
    *,
    clients: trustme.CA | None = None,
    highest: ssl.TLSVersion | None = None,
) -> ssl.SSLContext:
    """A good server for 127.0.0.1 and localhost, unless something else is said; `clients` must show a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*(issued or issue("127.0.0.1", "localhost")).write(tmp_path, "server"))
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients.cert_pem.bytes().decode())
    if highest is not None:
        context.maximum_version = highest
    return context


def trusted(tmp_path: Path) -> dict[str, Any]:
    """Settings that trust the authority of the tests."""
    path = tmp_path / "ca.pem"
    path.write_bytes(b"# R\xc3\xa9sum\xc3\xa9 of authorities\n" + authority().cert_pem.bytes())
    return {"upstream_tls_ca": path}


def identified(tmp_path: Path, issued: Issued | None = None) -> dict[str, Any]:
    """Settings with a client certificate."""
    chain, key = (issued or issue("gateway")).write(tmp_path, "client")
    return {"upstream_tls_cert": chain, "upstream_tls_key": key}


@asynccontextmanager
async def behind_tls(
    tmp_path: Path, script: Script = answers, tls: ssl.SSLContext | None = None, **settings: Any
) -> AsyncIterator[tuple[Upstream, Running]]:
    """An upstream over TLS, and the gateway before it."""
    fields = settings.pop("fields", {})
    settings = {**trusted(tmp_path), **settings}
    async with (
        upstream(script, tls=tls or server_context(tmp_path)) as up,
        running(tmp_path, table(route(up.url, **fields)), **settings) as gw,
    ):
        yield up, gw


async def test_a_verified_upstream_is_reached_and_its_connection_kept(tmp_path: Path) -> None:
    async with behind_tls(tmp_path) as (up, gw):
        for _ in range(3):
            assert (await gw.get()).body == b"ok"
        assert up.connections == 1


async def test_large_bodies_pass_whole_both_ways(tmp_path: Path) -> None:
    body = bytes(range(256)) * 8_192
    async with behind_tls(tmp_path, echoes) as (_, gw):
        caller = await gw.connect()
        head = b"POST / HTTP/1.1\r\nhost: app.test\r\ncontent-length: %d\r\n\r\n" % len(body)
        sending = asyncio.create_task(caller.send(head + body))
        assert (await caller.answer()).body == body
        await sending


async def test_the_name_of_the_url_is_asked_for_and_verified_whatever_host_is_sent(tmp_path: Path) -> None:
    asked: list[str | None] = []
    context = server_context(tmp_path, issue("localhost"))
    context.sni_callback = lambda _tls, name, _context: asked.append(name)  # type: ignore[assignment, func-returns-value]
    async with (
        upstream(answers, tls=context, name="localhost") as up,
        running(tmp_path, table(route(up.url, upstreamHost="public.test")), **trusted(tmp_path)) as gw,
    ):
        assert (await gw.get()).status == 200
        assert up.requests[0].values(b"host") == [b"public.test"]
        assert asked == ["localhost"]


async def test_an_address_is_verified_and_not_asked_for(tmp_path: Path) -> None:
    asked: list[str | None] = []
    context = server_context(tmp_path)
    context.sni_callback = lambda _tls, name, _context: asked.append(name)  # type: ignore[assignment, func-returns-value]
    async with behind_tls(tmp_path, tls=context) as (_, gw):
        assert (await gw.get()).status == 200
        assert asked == [None]


async def test_http_1_1_is_offered_and_nothing_else(tmp_path: Path) -> None:
    context = server_context(tmp_path)
    context.set_alpn_protocols(["h2", "http/1.1"])
    agreed: list[str | None] = []

    async def script(peer: Peer) -> None:
        agreed.append(peer.writer.get_extra_info("ssl_object").selected_alpn_protocol())
        await answers(peer)

    async with behind_tls(tmp_path, script, context) as (_, gw):
        assert (await gw.get()).status == 200
        assert agreed == ["http/1.1"]


def bad_servers(tmp_path: Path) -> dict[str, tuple[ssl.SSLContext, str]]:
    """Upstreams that must be refused, with OpenSSL's word for each."""
    stranger = trustme.CA()
    return {
        "self-signed": (server_context(tmp_path, handmade("localhost")), "self-signed certificate"),
        "unknown authority": (
            server_context(tmp_path, issue("127.0.0.1", ca=stranger)),
            "unable to get local issuer certificate",
        ),
        "other name": (server_context(tmp_path, issue("other.test")), "IP address mismatch"),
        "expired": (server_context(tmp_path, expired("127.0.0.1")), "certificate has expired"),
        "wildcard for an address": (server_context(tmp_path, issue("*.0.0.1")), "IP address mismatch"),
    }


BAD = ["self-signed", "unknown authority", "other name", "expired", "wildcard for an address"]


@pytest.mark.parametrize("kind", BAD)
async def test_a_certificate_that_does_not_hold_is_502_with_its_reason_in_the_log(tmp_path: Path, kind: str) -> None:
    context, said = bad_servers(tmp_path)[kind]
    async with behind_tls(tmp_path, tls=context) as (up, gw):
        answer = await gw.get()
        assert (answer.status, answer.json["error"]) == (502, "bad_gateway")
        assert "tls_protocol_error" in answer.value("proxy-status")
        line = await gw.request_line()
        assert "its certificate does not hold" in line["detail"]
        assert said in line["detail"]
        assert said not in answer.body.decode()
        assert up.requests == []
        assert gw.metric("gateway_upstream_failures_total", route="r0", kind="tls") == 1


@pytest.mark.parametrize("request_bytes", [GET, POST], ids=["GET", "POST"])
@pytest.mark.parametrize("kind", BAD)
async def test_behind_a_refused_upstream_the_next_one_serves_any_method(
    tmp_path: Path, kind: str, request_bytes: bytes
) -> None:
    """No byte of the request had left."""
    context, _ = bad_servers(tmp_path)[kind]
    async with (
        upstream(answers, tls=context) as bad,
        upstream(answers) as good,
        running(tmp_path, table(route([bad.url, good.url])), **trusted(tmp_path)) as gw,
    ):
        assert (await gw.raw(request_bytes)).status == 200
        assert (bad.requests, len(good.requests)) == ([], 1)
        (line,) = [line for line in gw.lines if line["msg"] == "upstream failed, trying the next"]
        assert line["kind"] == "tls"


async def test_without_an_authority_of_its_own_the_systems_judge(tmp_path: Path) -> None:
    async with behind_tls(tmp_path, upstream_tls_ca=None) as (up, gw):
        assert (await gw.get()).status == 502
        assert up.requests == []


async def test_an_authority_of_its_own_replaces_the_systems(tmp_path: Path) -> None:
    async with behind_tls(tmp_path) as (_, gw):
        context = gw.gateway._upstream_tls.context()
        assert len(context.get_ca_certs()) == 1
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
async def test_an_old_protocol_is_not_spoken(tmp_path: Path) -> None:
    context = server_context(tmp_path, highest=ssl.TLSVersion.TLSv1_1)
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with openssl_server(context) as old:
        async with running(tmp_path, table(route(old.url)), **trusted(tmp_path)) as gw:
            assert (await gw.get()).status == 502
            assert "alert protocol version" in (await gw.request_line())["detail"]
            assert gw.metric("gateway_upstream_failures_total", route="r0", kind="tls") == 1


# Upstreams that break the handshake: scripts below TLS


async def plain_http(peer: Peer) -> None:
    await peer.reader.read(1)
    await peer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")


async def closes_at_once(peer: Peer) -> None:
    await peer.reader.read(1)


async def resets_at_once(peer: Peer) -> None:
    await peer.reader.read(1)
    peer.reset()


async def sends_an_alert(peer: Peer) -> None:
    await peer.reader.read(1)
    await peer.write(b"\x15\x03\x03\x00\x02\x02\x28")


@pytest.mark.parametrize("script", [plain_http, closes_at_once, resets_at_once, sends_an_alert])
@pytest.mark.parametrize("request_bytes", [GET, POST], ids=["GET", "POST"])
async def test_an_upstream_that_breaks_the_handshake_is_passed_over(
    tmp_path: Path, script: Script, request_bytes: bytes
) -> None:
    async with upstream(script) as bad, upstream(answers) as good:
        secure = bad.url.replace("http:", "https:")
        alone = table(route(secure))
        async with running(tmp_path, alone, **trusted(tmp_path)) as gw:
            assert (await gw.raw(request_bytes)).status == 502
            assert gw.metric("gateway_upstream_failures_total", route="r0", kind="tls") == 1
        async with running(tmp_path, table(route([secure, good.url])), **trusted(tmp_path)) as gw:
            assert (await gw.raw(request_bytes)).status == 200
            assert len(good.requests) == 1


async def test_a_handshake_that_stalls_is_504_at_the_connect_budget(tmp_path: Path) -> None:
    async def stalls(peer: Peer) -> None:
        await peer.closed_by_gateway()

    async with upstream(stalls) as up:
        document = table(route(up.url.replace("http:", "https:"), timeouts={"connectMs": 300}))
        async with running(tmp_path, document, **trusted(tmp_path)) as gw:
            answer = await gw.get()
            assert (answer.status, answer.json["error"]) == (504, "gateway_timeout")
            assert "connection_timeout" in answer.value("proxy-status")
            assert gw.metric("gateway_upstream_failures_total", route="r0", kind="connect") == 1
            await asyncio.wait_for(up.gone.wait(), DEADLINE_S)


async def test_an_upstream_that_is_not_there_is_no_failure_of_tls(tmp_path: Path) -> None:
    async with running(tmp_path, table(route("https://127.0.0.1:9")), **trusted(tmp_path)) as gw:
        assert (await gw.get()).status == 502
        assert gw.metric("gateway_upstream_failures_total", route="r0", kind="connect") == 1


# Client certificates

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_upstream_that_asks_is_shown_the_certificate(tmp_path: Path, version: ssl.TLSVersion) -> None:
    context = server_context(tmp_path, clients=authority(), highest=version)
    async with behind_tls(tmp_path, tls=context, **identified(tmp_path)) as (_, gw):
        assert (await gw.get()).status == 200


@pytest.mark.parametrize("version", VERSIONS)
async def test_one_that_does_not_ask_is_reached_all_the_same(tmp_path: Path, version: ssl.TLSVersion) -> None:
    async with behind_tls(tmp_path, tls=server_context(tmp_path, highest=version), **identified(tmp_path)) as (_, gw):
        assert (await gw.get()).status == 200


def refuses_clients(tmp_path: Path, version: ssl.TLSVersion) -> AbstractContextManager[Served]:
    """An upstream that wants a certificate of the tests' authority."""
    return openssl_server(server_context(tmp_path, clients=authority(), highest=version))


@pytest.mark.parametrize("shown", ["none", "stranger"])
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_refused_client_certificate_is_502_with_its_reason(
    tmp_path: Path, version: ssl.TLSVersion, shown: str
) -> None:
    """TLS 1.3 refuses it behind the gateway's end of the handshake."""
    own = {} if shown == "none" else identified(tmp_path, issue("gateway", ca=trustme.CA()))
    with refuses_clients(tmp_path, version) as strict:
        async with running(tmp_path, table(route(strict.url)), **trusted(tmp_path), **own) as gw:
            assert (await gw.get()).status == 502
            assert "alert" in (await gw.request_line())["detail"]
            assert gw.metric("gateway_upstream_failures_total", route="r0", kind="tls") == 1
            assert strict.requests == []


@pytest.mark.parametrize(
    ("version", "request_bytes", "status"),
    [
        (ssl.TLSVersion.TLSv1_2, GET, 200),
        (ssl.TLSVersion.TLSv1_2, POST, 200),
        (ssl.TLSVersion.TLSv1_3, GET, 200),
        (ssl.TLSVersion.TLSv1_3, POST, 502),
        (ssl.TLSVersion.TLSv1_3, STREAMED, 502),
    ],
    ids=["1.2-GET", "1.2-POST", "1.3-GET", "1.3-POST", "1.3-streamed"],
)
async def test_behind_it_the_next_upstream_serves_what_has_not_left_or_may_be_repeated(
    tmp_path: Path, version: ssl.TLSVersion, request_bytes: bytes, status: int
) -> None:
    with refuses_clients(tmp_path, version) as strict:
        async with (
            upstream(answers) as good,
            running(tmp_path, table(route([strict.url, good.url])), **trusted(tmp_path)) as gw,
        ):
            assert (await gw.raw(request_bytes)).status == status
            assert len(good.requests) == (status == 200)


async def test_a_websocket_to_one_that_refuses_the_certificate_is_refused(tmp_path: Path) -> None:
    with refuses_clients(tmp_path, ssl.TLSVersion.TLSv1_3) as strict:
        async with running(tmp_path, table(route(strict.url, websocket=True)), **trusted(tmp_path)) as gw:
            assert (await refused(gw)).status == 502
            assert gw.metric("gateway_upstream_failures_total", route="r0", kind="tls") == 1


# Behind the handshake


async def test_a_kept_connection_that_the_upstream_closed_is_not_used_again(tmp_path: Path) -> None:
    async def once(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(ok())

    async with behind_tls(tmp_path, once) as (up, gw):
        for count in range(1, 4):
            assert (await gw.raw(POST)).status == 200
            assert up.connections == count
            await asyncio.wait_for(up.gone.wait(), DEADLINE_S)
            up.gone.clear()
            await asyncio.sleep(0.05)  # its FIN is on the way over loopback


async def test_an_early_answer_to_an_upload_is_passed_on(tmp_path: Path) -> None:
    async with behind_tls(tmp_path, answers_early, fields={"maxBodyBytes": 0}) as (_, gw):
        caller = await gw.connect()
        await caller.send(b"POST / HTTP/1.1\r\nhost: app.test\r\ncontent-length: 1000000\r\n\r\n" + bytes(1000))
        assert (await caller.answer()).status == 413


async def test_a_body_that_ends_with_close_notify_is_whole(tmp_path: Path) -> None:
    async def until_close(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")

    async with behind_tls(tmp_path, until_close) as (_, gw):
        answer = await gw.get()
        assert (answer.body, answer.value("transfer-encoding")) == (b"all of it", "chunked")
        assert (await gw.request_line())["outcome"] == "ok"


async def test_a_body_that_ends_without_close_notify_is_cut(tmp_path: Path) -> None:
    """Whoever sits on the network could end it anywhere."""

    async def cut(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(b"HTTP/1.1 200 OK\r\n\r\nhalf of it")
        with socket.socket(fileno=os.dup(peer.writer.get_extra_info("socket").fileno())) as below:
            below.shutdown(socket.SHUT_WR)
        await peer.closed_by_gateway()

    async with behind_tls(tmp_path, cut) as (_, gw):
        caller = await gw.connect()
        await caller.send(GET)
        assert not (await caller.rest()).endswith(b"0\r\n\r\n")
        line = await gw.request_line()
        assert (line["outcome"], line["detail"]) == ("aborted", "the connection was cut, without TLS's close_notify")


async def test_a_cut_chunked_body_is_cut_for_the_caller(tmp_path: Path) -> None:
    async with behind_tls(tmp_path, cuts_chunked_body) as (_, gw):
        caller = await gw.connect()
        await caller.send(GET)
        assert not (await caller.rest()).endswith(b"0\r\n\r\n")
        assert (await gw.request_line())["outcome"] == "aborted"


async def test_a_response_that_nobody_reads_stops_the_upstream(tmp_path: Path) -> None:
    size = 60_000_000
    written = 0

    async def streams(peer: Peer) -> None:
        nonlocal written
        await peer.read_request()
        await peer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        for _ in range(size // 100_000):
            await peer.write(bytes(100_000))
            written += 100_000

    async with behind_tls(tmp_path, streams) as (up, gw):
        caller = await gw.connect()
        caller.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await caller.send(GET)
        await asyncio.wait_for(up.arrived.wait(), DEADLINE_S)
        before = -1
        while before != written:
            before = written
            await asyncio.sleep(0.5)
        assert written < size / 2
        caller.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert len((await caller.answer()).body) == size


async def test_nonsense_behind_the_handshake_is_502_and_not_repeated(tmp_path: Path) -> None:
    async def babbles(peer: Peer) -> None:
        await peer.read_request()
        sock = peer.writer.get_extra_info("socket")
        os.write(sock.fileno(), b"\x17\x03\x03\x00\x20" + bytes(32))
        await peer.closed_by_gateway()

    async with behind_tls(tmp_path, babbles) as (up, gw):
        assert (await gw.raw(POST)).status == 502
        assert len(up.requests) == 1
        assert gw.metric("gateway_upstream_failures_total", route="r0", kind="tls") == 1


async def test_a_caller_that_leaves_cuts_the_upstream(tmp_path: Path) -> None:
    async with behind_tls(tmp_path, never_answers) as (up, gw):
        caller = await gw.connect()
        await caller.send(GET)
        await asyncio.wait_for(up.arrived.wait(), DEADLINE_S)
        caller.vanish()
        await asyncio.wait_for(up.gone.wait(), DEADLINE_S)


# WebSockets


async def test_websockets_reach_a_verified_upstream(tmp_path: Path) -> None:
    async with behind_tls(tmp_path, switches(), fields={"websocket": True}) as (_, gw):
        end = await opened(gw)
        for payload in (b"hello", b"x" * 200_000):
            await end.text(payload)
            got = await end.read()
            assert (got.opcode, got.payload) == (TEXT, payload)
        await end.close(1000)
        assert (await end.read()).code == 1000


@pytest.mark.parametrize("kind", BAD)
async def test_a_websocket_to_one_that_does_not_hold_is_refused(tmp_path: Path, kind: str) -> None:
    context, said = bad_servers(tmp_path)[kind]
    async with behind_tls(tmp_path, switches(), context, fields={"websocket": True}) as (up, gw):
        assert (await refused(gw)).status == 502
        assert said in (await gw.request_line())["detail"]
        assert up.requests == []
        assert gw.metric("gateway_upstream_failures_total", route="r0", kind="tls") == 1


# Access


async def test_access_over_https_is_verified_against_the_same_authorities(tmp_path: Path) -> None:
    allow = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 14\r\n\r\n{"allow":true}'
    protected = {"auth": {"mode": "session"}, "accessCheck": True}
    good, bad = server_context(tmp_path), server_context(tmp_path, issue("other.test"))
    for context, status in ((good, 200), (bad, 503)):
        async with (
            upstream(answers) as app,
            upstream(answers_with(allow), tls=context) as access,
            running(
                tmp_path,
                table(route(app.url, **protected)),
                access_url=access.url,
                access_token=Secret("token of a test"),
                **trusted(tmp_path),
            ) as gw,
        ):
            assert (await gw.get("/", await gw.session())).status == status
            assert len(access.requests) == (status == 200)


# Files


async def test_new_files_are_taken_and_kept_connections_go_on(tmp_path: Path) -> None:
    file = tmp_path / "other.pem"
    file.write_bytes(trustme.CA().cert_pem.bytes())
    async with behind_tls(tmp_path, upstream_tls_ca=file) as (_, gw):
        assert (await gw.get()).status == 502
        replace(file, authority().cert_pem.bytes())
        async with asyncio.timeout(DEADLINE_S):
            while (await gw.get()).status != 200:
                await asyncio.sleep(0.05)
        replace(file, b"nonsense")
        async with asyncio.timeout(DEADLINE_S):
            while not gw.metric("gateway_config_reloads_total", result="failed"):
                await asyncio.sleep(0.05)
        assert (await gw.get()).status == 200
        assert any("other.pem: holds no readable certificate" in str(line.get("error")) for line in gw.lines)


@pytest.mark.parametrize(
    ("issued", "reason"),
    [
        (expired("gateway"), "client.crt: the certificate expired"),
        (Issued(issue("gateway").chain, issue("gateway").key), "client.key: is not the key of the certificate in"),
        (handmade("gateway", purpose=ExtendedKeyUsageOID.SERVER_AUTH), "is not a client's certificate"),
    ],
)
async def test_a_client_certificate_that_cannot_be_used_stops_the_start(
    tmp_path: Path, issued: Issued, reason: str
) -> None:
    with pytest.raises(CertificateRefused, match=reason):
        async with running(tmp_path, table(), **identified(tmp_path, issued)):
            pass


async def test_a_client_certificate_needs_no_name(tmp_path: Path) -> None:
    context = server_context(tmp_path)
    async with behind_tls(tmp_path, tls=context, **identified(tmp_path, handmade())) as (_, gw):
        assert (await gw.get()).status == 200
