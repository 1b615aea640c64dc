"""TLS of the callers, against OpenSSL clients over sockets, on both event loops."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from pathlib import Path

import pytest
import trustme

from tests.support.certificates import authority, client_context, issue
from tests.support.gateway import DEADLINE_S, Answer, Caller, Running, parse_head, route, table
from tests.support.tls import certified, get, hello_for, s_client, s_client_running, secured
from tests.support.upstreams import Peer, answers, echoes, never_answers, ok, upstream
from tests.support.websocket_frames import TEXT
from tests.support.websocket_peers import Socket, handshake, switches

HEAD = b"GET / HTTP/1.1\r\nhost: app.test\r\n\r\n"


async def test_a_request_over_tls_is_answered_and_is_https_to_the_upstream(tmp_path: Path) -> None:
    async with upstream(answers) as up, secured(tmp_path, table(route(up.url))) as gw:
        answer = await get(gw, "/x", "x-forwarded-proto: http")
        assert (answer.status, answer.body) == (200, b"ok")
        assert up.requests[0].values(b"x-forwarded-proto") == [b"https"]
        assert up.requests[0].values(b"x-forwarded-host") == [b"app.test"]


async def test_a_connection_is_kept_and_its_requests_may_be_pipelined(tmp_path: Path) -> None:
    async with upstream(echoes) as up, secured(tmp_path, table(route(up.url))) as gw:
        caller = await gw.connect_tls(client_context())
        post = b"POST / HTTP/1.1\r\nhost: app.test\r\ncontent-length: 4\r\n\r\n"
        await caller.send(post + b"one." + post + b"two.")
        assert [(await caller.answer()).body, (await caller.answer()).body] == [b"one.", b"two."]
        assert (await caller.ask(post + b"last")).body == b"last"
        assert gw.metric("gateway_connections") == 1


async def test_large_bodies_pass_whole_both_ways(tmp_path: Path) -> None:
    body = bytes(range(256)) * 8_192
    async with upstream(echoes) as up, secured(tmp_path, table(route(up.url))) as gw:
        caller = await gw.connect_tls(client_context())
        head = b"POST / HTTP/1.1\r\nhost: app.test\r\ncontent-length: %d\r\n\r\n" % len(body)
        sending = asyncio.create_task(caller.send(head + body))
        assert (await caller.answer()).body == body
        await sending


async def test_a_closing_answer_ends_with_close_notify(tmp_path: Path) -> None:
    """Without it a client cannot tell the end of a body from a cut."""
    async with upstream(answers) as up, secured(tmp_path, table(route(up.url))) as gw:
        assert (await get(gw)).value("connection") == "close"  # its reading raises at a missing close_notify


async def test_an_upload_that_is_refused_midway_is_answered_readably(tmp_path: Path) -> None:
    async with upstream(answers) as up, secured(tmp_path, table(route(up.url, maxBodyBytes=10))) as gw:
        caller = await gw.connect_tls(client_context())
        await caller.send(b"POST / HTTP/1.1\r\nhost: app.test\r\ntransfer-encoding: chunked\r\n\r\n14\r\n" + b"x" * 20)
        assert (await caller.answer()).status == 413
        assert await caller.rest() == b""


async def test_a_caller_that_leaves_cancels_its_exchange(tmp_path: Path) -> None:
    async with upstream(never_answers) as up, secured(tmp_path, table(route(up.url))) as gw:
        caller = await gw.connect_tls(client_context())
        await caller.send(HEAD)
        await asyncio.wait_for(up.arrived.wait(), DEADLINE_S)
        caller.close()
        assert (await gw.request_line())["status"] == 499
        await asyncio.wait_for(up.gone.wait(), DEADLINE_S)


async def test_a_half_head_is_told_of(tmp_path: Path) -> None:
    async with upstream(answers) as up, secured(tmp_path, table(route(up.url))) as gw:
        caller = await gw.connect_tls(client_context())
        await caller.send(b"GET / HT")
        caller.writer.transport.close()  # close_notify
        assert (await gw.request_line())["error"] == "bad_request"


async def test_a_half_head_and_its_end_that_come_with_the_handshakes_end_close_the_connection(tmp_path: Path) -> None:
    """All in one packet: the head is refused before the connection's task has looked at it for the first time."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client_context().wrap_bio(incoming, outgoing, server_hostname="app.test")
    async with secured(tmp_path, table()) as gw:
        reader, writer = await asyncio.open_connection("127.0.0.1", gw.gateway.tls_port)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
                incoming.write(await asyncio.wait_for(reader.read(65_536), DEADLINE_S))
        tls.write(b"GET / HT")
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.unwrap()
        writer.write(outgoing.read())
        assert (await gw.request_line())["error"] == "bad_request"
        await closes(reader)
        writer.close()
        async with asyncio.timeout(DEADLINE_S):
            while gw.metric("gateway_connections"):
                await asyncio.sleep(0.01)


async def test_a_caller_that_does_not_read_holds_a_bounded_part_of_its_answer(tmp_path: Path) -> None:
    size = 30_000_000
    streamed = asyncio.Event()

    async def streams(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        for _ in range(size // 100_000):
            await peer.write(bytes(100_000))
        streamed.set()

    async with upstream(streams) as up, secured(tmp_path, table(route(up.url))) as gw:
        caller = await gw.connect_tls(client_context())
        caller.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await caller.send(HEAD)
        async with asyncio.timeout(DEADLINE_S):
            await up.arrived.wait()
            (connection,) = gw.gateway._listener._connections
            while connection.writable:
                await asyncio.sleep(0.01)
        assert connection._transport.get_write_buffer_size() < 1_000_000
        assert not streamed.is_set()
        caller.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert len((await caller.answer()).body) == size


async def test_an_upload_that_the_upstream_does_not_read_stops_its_caller(tmp_path: Path) -> None:
    reading = asyncio.Event()

    async def reads_late(peer: Peer) -> None:
        await peer.read_head()
        await reading.wait()
        await peer.write(ok())
        await peer.closed_by_gateway()

    async with upstream(reads_late) as up, secured(tmp_path, table(route(up.url, maxBodyBytes=0))) as gw:
        caller = await gw.connect_tls(client_context())
        await caller.send(b"POST / HTTP/1.1\r\nhost: app.test\r\ncontent-length: 100000000\r\n\r\n")
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 100_000_000:
                await asyncio.wait_for(caller.send(bytes(100_000)), 1.0)
                sent += 100_000
        assert sent < 40_000_000, "the sockets' buffers and the gateway's bounds, not the body"
        reading.set()
        assert (await caller.answer()).status == 200


async def test_websockets_pass_over_tls(tmp_path: Path) -> None:
    async with upstream(switches()) as up, secured(tmp_path, table(route(up.url, websocket=True))) as gw:
        caller = await gw.connect_tls(client_context())
        await caller.send(handshake())
        head = await asyncio.wait_for(caller.reader.readuntil(b"\r\n\r\n"), DEADLINE_S)
        status, pairs = parse_head(head)
        assert status == 101
        answer = Answer(status, pairs, b"", head)
        end = Socket(caller, answer)
        for payload in (b"hello", b"x" * 100_000):
            await end.text(payload)
            got = await end.read()
            assert (got.opcode, got.payload) == (TEXT, payload)
        await end.close(1000)
        assert (await end.read()).code == 1000
        assert await end.rest() == b""


async def test_each_name_is_shown_its_certificate_and_others_the_first(tmp_path: Path) -> None:
    first, second = issue("app.test"), issue("other.test", "*.other.test")
    async with upstream(answers) as up, secured(tmp_path, table(route(up.url)), first, second) as gw:
        careless = client_context()
        careless.check_hostname = False
        shown = {
            name: certified(await gw.connect_tls(careless, name))
            for name in ("app.test", "other.test", "a.other.test", "unknown.test", "127.0.0.1")
        }
        assert shown == {
            "app.test": {"app.test"},
            "other.test": {"other.test", "*.other.test"},
            "a.other.test": {"other.test", "*.other.test"},
            "unknown.test": {"app.test"},
            "127.0.0.1": {"app.test"},
        }


async def test_the_request_is_judged_by_its_host_whatever_name_the_handshake_gave(tmp_path: Path) -> None:
    """The name of the handshake chooses a certificate, and nothing that is asked of the caller."""
    document = table(
        route("http://127.0.0.1:9", match={"host": "open.test"}),
        route("http://127.0.0.1:9", match={"host": "closed.test"}, auth={"mode": "jwt-only"}),
    )
    async with secured(tmp_path, document, issue("open.test", "closed.test")) as gw:
        caller = await gw.connect_tls(client_context(), "open.test")
        answer = await caller.ask(b"GET / HTTP/1.1\r\nhost: closed.test\r\n\r\n")
        assert answer.status == 401


async def test_a_new_certificate_is_shown_and_open_connections_go_on(tmp_path: Path) -> None:
    old, new = issue("app.test", "old.test"), issue("app.test", "new.test")
    async with upstream(answers) as up, secured(tmp_path, table(route(up.url)), old) as gw:
        caller = await gw.connect_tls(client_context())
        assert (await caller.ask(HEAD)).status == 200
        new.write(tmp_path, "tls0")
        async with asyncio.timeout(DEADLINE_S):
            while "new.test" not in certified(await gw.connect_tls(client_context())):
                await asyncio.sleep(0.05)
        assert (await caller.ask(HEAD)).status == 200
        assert certified(caller) == {"app.test", "old.test"}
        expiry = gw.gateway.metrics.certificate_expiry_timestamp
        assert (expiry.value("new.test"), expiry.value("old.test")) == (new.leaf.not_valid_after_utc.timestamp(), 0)


async def test_readiness_names_what_is_served(tmp_path: Path) -> None:
    issued = issue("app.test", "*.app.test")
    async with upstream(answers) as up, secured(tmp_path, table(route(up.url)), issued) as gw:
        body = (await get(gw, "/readyz")).json
        assert body["certificates"] == {
            "source": "files",
            "served": [
                {
                    "names": ["app.test", "*.app.test"],
                    "notBefore": f"{issued.leaf.not_valid_before_utc:%Y-%m-%dT%H:%M:%SZ}",
                    "notAfter": f"{issued.leaf.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}",
                }
            ],
            "lastError": None,
            "warning": None,
        }


async def test_a_drain_answers_open_connections_and_takes_no_more(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def answers_late(peer: Peer) -> None:
        await peer.read_request()
        asked.set()
        await asyncio.sleep(0.2)
        await peer.write(ok(b"late"))

    async with upstream(answers_late) as up, secured(tmp_path, table(route(up.url)), shutdown_timeout_s=5.0) as gw:
        caller = await gw.connect_tls(client_context())
        waiting = await asyncio.open_connection("127.0.0.1", gw.gateway.tls_port)
        port = gw.gateway.tls_port
        await caller.send(HEAD)
        await asked.wait()
        stopping = asyncio.create_task(gw.gateway.stop())
        answer = await caller.answer()
        assert (answer.body, answer.value("connection")) == (b"late", "close")
        assert await caller.rest() == b""
        assert await asyncio.wait_for(waiting[0].read(), DEADLINE_S) == b"", "a handshake that was not over"
        waiting[1].close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        await stopping


async def test_beyond_the_bound_a_connection_is_told_so_over_tls(tmp_path: Path) -> None:
    async with upstream(answers) as up, secured(tmp_path, table(route(up.url)), max_connections=1) as gw:
        first = await gw.connect_tls(client_context())
        assert (await first.ask(HEAD)).status == 200
        second = await gw.connect_tls(client_context())
        assert (await second.answer()).status == 503
        assert await second.rest() == b""
        assert (await first.ask(HEAD)).status == 200
        plain = await gw.connect()
        assert (await plain.answer()).status == 503, "both listeners share the bound"


# What is not agreed on


def context_of(
    *, lowest: ssl.TLSVersion | None = None, highest: ssl.TLSVersion | None = None, ciphers: str = ""
) -> ssl.SSLContext:
    context = client_context()
    context.set_ciphers(ciphers or "ALL:@SECLEVEL=0")
    if lowest is not None:
        context.minimum_version = lowest
    if highest is not None:
        context.maximum_version = highest
    return context


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
async def test_an_old_protocol_is_refused(tmp_path: Path, version: ssl.TLSVersion) -> None:
    async with secured(tmp_path, table()) as gw:
        with pytest.raises(ssl.SSLError, match="ALERT_PROTOCOL_VERSION"):
            await gw.connect_tls(context_of(lowest=version, highest=version))


async def test_tls_1_2_is_refused_where_1_3_is_the_oldest(tmp_path: Path) -> None:
    async with secured(tmp_path, table(), tls_min_version="1.3") as gw:
        with pytest.raises(ssl.SSLError, match="ALERT_PROTOCOL_VERSION"):
            await gw.connect_tls(context_of(highest=ssl.TLSVersion.TLSv1_2))
        caller = await gw.connect_tls(client_context())
        assert caller.writer.get_extra_info("ssl_object").version() == "TLSv1.3"


WEAK = [
    "AES128-SHA", "AES256-GCM-SHA384", "DHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-SHA",
    "ECDHE-ECDSA-AES256-SHA384", "ECDHE-ECDSA-AES128-CCM", "ADH-AES256-GCM-SHA384", "NULL-SHA256",
    "ECDHE-ECDSA-CAMELLIA256-SHA384",
]  # fmt: skip


@pytest.mark.parametrize("suite", WEAK)
async def test_a_suite_without_forward_secrecy_or_aead_is_refused(tmp_path: Path, suite: str) -> None:
    async with secured(tmp_path, table()) as gw:
        with pytest.raises(ssl.SSLError, match="HANDSHAKE_FAILURE"):
            await gw.connect_tls(context_of(highest=ssl.TLSVersion.TLSv1_2, ciphers=f"{suite}:@SECLEVEL=0"))


@pytest.mark.parametrize(
    ("key_type", "suite"),
    [("ECDSA", f"ECDHE-ECDSA-{rest}") for rest in ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305")]
    + [("RSA", f"ECDHE-RSA-{rest}") for rest in ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305")],
)
async def test_the_suites_of_the_profile_are_spoken(tmp_path: Path, key_type: str, suite: str) -> None:
    issued = issue("app.test", key_type=trustme.KeyType[key_type])
    async with secured(tmp_path, table(), issued) as gw:
        caller = await gw.connect_tls(context_of(highest=ssl.TLSVersion.TLSv1_2, ciphers=suite))
        assert caller.writer.get_extra_info("cipher")[0] == suite


@pytest.mark.parametrize(
    ("offered", "agreed"), [(["http/1.1"], "http/1.1"), (["h2", "http/1.1"], "http/1.1"), ([], None)]
)
async def test_http_1_1_is_agreed_on(tmp_path: Path, offered: list[str], agreed: str | None) -> None:
    async with secured(tmp_path, table()) as gw:
        context = ssl.create_default_context(cadata=authority().cert_pem.bytes().decode())
        if offered:
            context.set_alpn_protocols(offered)
        caller = await gw.connect_tls(context)
        assert caller.writer.get_extra_info("ssl_object").selected_alpn_protocol() == agreed


@pytest.mark.parametrize("offered", [["h2"], ["h2", "acme-tls/1"], ["HTTP/1.1"], ["http/1.0"]])
async def test_who_offers_other_protocols_only_is_told_by_an_alert(tmp_path: Path, offered: list[str]) -> None:
    async with secured(tmp_path, table()) as gw:
        context = client_context()
        context.set_alpn_protocols(offered)
        with pytest.raises(ssl.SSLError, match=r"(?i)no.application.protocol"):
            await gw.connect_tls(context)


@pytest.mark.parametrize(
    ("groups", "agreed"),
    [
        ("X25519", "X25519"),
        ("P-256", "ECDH, prime256v1"),
        ("P-384:ffdhe8192", "ECDH, secp384r1"),
        ("X448", "X448"),
        ("ffdhe8192", ""),
        ("ffdhe2048:X25519", ""),
    ],
)
async def test_curves_are_agreed_on_and_finite_fields_are_not(tmp_path: Path, groups: str, agreed: str) -> None:
    """A handshake in a large finite field takes the gateway a hundred times what it takes its caller."""
    async with secured(tmp_path, table()) as gw:
        said = await s_client(gw.gateway.tls_port, "-servername", "app.test", "-tls1_3", "-groups", groups)
        if agreed:
            assert f"Temp Key: {agreed}" in said  # the server's; OpenSSL 3.5 says the peer's
        else:
            assert "alert handshake failure" in said


async def test_openssl_sees_the_whole_chain_no_compression_and_no_renegotiation(tmp_path: Path) -> None:
    issued = issue("app.test", ca=authority().create_child_ca())
    root = tmp_path / "root.pem"
    root.write_bytes(authority().cert_pem.bytes())
    async with secured(tmp_path, table(), issued) as gw:
        said = await s_client(
            gw.gateway.tls_port, "-servername", "app.test", "-CAfile", str(root), "-showcerts", "-tls1_2"
        )
        assert said.count("BEGIN CERTIFICATE") == 2
        assert "Verify return code: 0 (ok)" in said
        assert "Compression: NONE" in said
        renegotiated = await s_client(gw.gateway.tls_port, "-servername", "app.test", "-tls1_2", stdin=b"R\n")
        assert "no renegotiation" in renegotiated


async def test_new_keys_are_agreed_on_while_a_connection_is_used(tmp_path: Path) -> None:
    """`K` makes openssl send a KeyUpdate of TLS 1.3 that asks for the gateway's."""
    async with upstream(answers) as up, secured(tmp_path, table(route(up.url))) as gw:
        async with s_client_running(gw.gateway.tls_port, "-servername", "app.test", "-tls1_3", "-msg") as client:
            assert client.stdin is not None
            assert client.stdout is not None
            client.stdin.write(b"K\n")
            await asyncio.wait_for(client.stdout.readuntil(b", KeyUpdate"), DEADLINE_S)
            client.stdin.write(b"GET / HTTP/1.1\r\nhost: app.test\r\nconnection: close\r\n\r\n")
            said = await asyncio.wait_for(client.stdout.read(), DEADLINE_S)
        assert b"<<< TLS 1.3, Handshake [length 0005], KeyUpdate" in said, "the gateway's own"
        assert b"HTTP/1.1 200 OK" in said


async def server_hello(gw: Running, pieces: list[bytes]) -> bytes:
    """The first bytes of the gateway's answer to a ClientHello that comes in pieces."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gw.gateway.tls_port)
    for piece in pieces:
        writer.write(piece)
        await asyncio.sleep(0)
    answer = await asyncio.wait_for(reader.read(5), DEADLINE_S)
    writer.close()
    return answer


async def test_a_hello_may_come_byte_by_byte_or_in_several_records(tmp_path: Path) -> None:
    hello = hello_for("app.test")
    body = hello[5:]
    records = [b"\x16\x03\x01" + len(part).to_bytes(2, "big") + part for part in (body[:50], body[50:])]
    async with secured(tmp_path, table()) as gw:
        for pieces in ([hello[at : at + 1] for at in range(len(hello))], records, [b"".join(records)]):
            assert (await server_hello(gw, pieces)).startswith(b"\x16\x03\x03")


# Callers that do not play


async def closes(reader: asyncio.StreamReader) -> bytes:
    """Everything until the gateway closes, which it does."""
    try:
        return await asyncio.wait_for(reader.read(), DEADLINE_S)
    except ConnectionError:
        return b""


NONSENSE = {
    "zeros": bytes(64),
    "ssh": b"\x00SSH-2.0-x\r\n",
    "a record of nonsense": b"\x16\x03\x01\x00\x05hello",
    "a record that is too long": b"\x16\x03\x01\xff\xff" + bytes(100),
    "an alert": b"\x15\x03\x01\x00\x02\x02\x28",
    "application data": b"\x17\x03\x03\x00\x10" + bytes(16),
    "SSL 2": b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10",
}


@pytest.mark.parametrize("said", NONSENSE.values(), ids=NONSENSE.keys())
async def test_nonsense_closes_at_once_and_hurts_nobody(tmp_path: Path, said: bytes) -> None:
    async with upstream(answers) as up, secured(tmp_path, table(route(up.url))) as gw:
        reader, writer = await asyncio.open_connection("127.0.0.1", gw.gateway.tls_port)
        writer.write(said)
        assert b"HTTP" not in await closes(reader)
        writer.close()
        assert (await get(gw)).status == 200
        assert not gw.gateway._listener._handshakes


async def test_a_plain_request_is_told_what_the_port_speaks(tmp_path: Path) -> None:
    async with secured(tmp_path, table()) as gw:
        reader, writer = await asyncio.open_connection("127.0.0.1", gw.gateway.tls_port)
        writer.write(HEAD)
        answer = await Caller(reader, writer).answer()
        assert (answer.status, answer.json["error"]) == (400, "bad_request")
        assert "TLS" in answer.json["message"]
        assert await closes(reader) == b""
        writer.close()


@pytest.mark.parametrize(
    "said", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00"], ids=["nothing", "a byte", "half a hello"]
)
async def test_a_handshake_that_stalls_ends_in_time(tmp_path: Path, said: bytes) -> None:
    async with secured(tmp_path, table(), head_timeout_s=0.3) as gw:
        reader, writer = await asyncio.open_connection("127.0.0.1", gw.gateway.tls_port)
        writer.write(said)
        await closes(reader)
        writer.close()
        async with asyncio.timeout(DEADLINE_S):
            while gw.metric("gateway_connections"):
                await asyncio.sleep(0.01)
        assert "it was not over in time" in json.dumps(gw.lines)


async def test_those_that_stall_make_room_for_those_that_do_not(tmp_path: Path) -> None:
    async with upstream(answers) as up, secured(tmp_path, table(route(up.url)), head_timeout_s=60.0) as gw:
        handshakes = gw.gateway._listener._handshakes
        assert handshakes is not None
        handshakes.most = 5
        stalled = [await asyncio.open_connection("127.0.0.1", gw.gateway.tls_port) for _ in range(20)]
        assert (await get(gw)).status == 200
        assert len(handshakes) <= 5
        for reader, writer in stalled[:15]:
            assert await closes(reader) == b""
            writer.close()
        for _, writer in stalled[15:]:
            writer.close()
