"""Header spoofing: nobody but the gateway writes identity, forwarding or framing headers, however they are spelled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from common.identity.signature import verify_identity
from dataplane.forwarding import policy
from tests.support.gateway import Running, route, running, table
from tests.support.upstreams import answers_with, ok, upstream
from tests.support.wire import Recorded, still_open

MARK = "spoofed-by-the-caller"

IDENTITY = (
    "x-gateway-user",
    "x-gateway-user-id",
    "x-gateway-email",
    "x-gateway-roles",
    "x-gateway-workspace",
    "x-gateway-workspace-id",
    "x-gateway-internal",
    "x-gateway-authenticated",
    "x-gateway-signature",
    "x-gateway",
    "x-gateway-anything-new",
    "x-forwarded-user",
    "x-forwarded-email",
    "x-forwarded-groups",
    "x-remote-user",
    "x-remote-email",
)
FORWARDING = (
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-server",
    "x-forwarded-ssl",
    "x-forwarded-scheme",
    "x-forwarded-client-cert",
    "x-forwarded-anything",
    "x-forwarded",
    "forwarded",
    "x-real-ip",
    "true-client-ip",
    "x-original-url",
    "x-original-uri",
    "x-rewrite-url",
    "x-request-id",
)
HOP_BY_HOP = ("keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer", "http2-settings")
RESERVED = IDENTITY + FORWARDING + HOP_BY_HOP

ADDED_MAX = 90
"""Of the hundred headers of a request, some are its own."""


def spellings(name: str) -> Iterator[str]:
    """Names that some server, language or gateway interface takes for `name`."""
    yield name
    yield name.upper()
    yield name.title()
    yield name.swapcase().replace("x", "X", 1)
    if "-" not in name:
        return
    for mark in "_.~!#$%&'*+^`|":
        yield name.replace("-", mark)
        yield name.upper().replace("-", mark)
    first, _, rest = name.partition("-")
    yield f"{first}_{rest}"
    yield f"{first}.{rest.replace('-', '_')}"
    yield f"{first}-{rest.replace('-', '_').upper()}"
    yield "".join(mark if letter == "-" else letter for letter, mark in zip(name, "_-." * len(name), strict=False))


def batches(names: tuple[str, ...]) -> Iterator[list[str]]:
    spelled = [spelling for name in names for spelling in dict.fromkeys(spellings(name))]
    for start in range(0, len(spelled), ADDED_MAX):
        yield spelled[start : start + ADDED_MAX]


@dataclass
class World:
    gw: Running
    app: Recorded


@asynccontextmanager
async def world(tmp_path: Path, **settings: object) -> AsyncIterator[World]:
    app = Recorded()
    async with upstream(app.script) as public:
        document = table(
            route(public.url),
            route(public.url, "/session", auth={"mode": "session"}),
            route(public.url, "/given", auth={"mode": "session"}, forwardAuthorization=True),
            route(public.url, "/socket", websocket=True),
            route(public.url, "/private-socket", websocket=True, auth={"mode": "session"}),
        )
        async with running(tmp_path, document, **settings) as gw:
            yield World(gw, app)


def test_there_are_dozens_of_spellings_of_each_name() -> None:
    assert all(len(set(spellings(name))) > 24 for name in RESERVED if "-" in name)


@pytest.mark.parametrize("path", ["/", "/session", "/given"])
async def test_no_spelling_of_a_reserved_name_reaches_an_upstream(tmp_path: Path, path: str) -> None:
    """On a route without login too: an application behind both must not learn to believe the headers."""
    async with world(tmp_path) as here:
        cookie = await here.gw.session("user-1", "a@b.test", ("dev",))
        for batch in batches(RESERVED):
            here.app.clear()
            answer = await here.gw.get(path, cookie, *(f"{name}: {MARK}" for name in batch))
            assert answer.status == 200, answer.body
            (request,) = here.app.whole
            assert MARK.encode() not in request.head, request.head
            names = [name for name, _ in request.headers()]
            assert len(names) == len(set(names)), "each header of the gateway stands once"
            identity = {name for name in names if name.startswith(b"x-gateway")}
            written = (b"authenticated", b"user-id", b"email", b"roles", b"signature")
            assert identity == (set() if path == "/" else {b"x-gateway-" + name for name in written})
        assert MARK not in str(here.gw.lines)


async def test_what_the_gateway_writes_is_what_it_knows_and_verifies(tmp_path: Path) -> None:
    """B23: a caller without e-mail and roles gets none from its own headers."""
    async with world(tmp_path) as here:
        spoofed = [f"{name}: {MARK}" for name in IDENTITY]
        assert (await here.gw.get("/session?a=b", await here.gw.session("user-9"), *spoofed)).status == 200
        (request,) = here.app.whole
        assert request.values(b"x-gateway-user-id") == [b"user-9"]
        assert request.values(b"x-gateway-email") == request.values(b"x-gateway-roles") == []
        fields = verify_identity(
            here.gw.gateway._signer.public_key_pem, request.headers(), method="GET", path="/session", query="?a=b"
        )
        assert (fields.subject, fields.email, fields.roles) == ("user-9", "", ())


NAMED = (
    "host", "content-length", "transfer-encoding", "cookie", "authorization", "x-request-id", "traceparent",
    "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-gateway-user-id", "x-gateway-signature",
    "x-gateway-authenticated", "x-gateway-roles", "X_Gateway_User_Id", "origin", "sec-fetch-site",
)  # fmt: skip


@pytest.mark.parametrize("lines", [1, 2])
async def test_connection_cannot_name_away_what_the_gateway_writes(tmp_path: Path, lines: int) -> None:
    """R05: the caller's headers that `Connection` names go, before the gateway writes its own."""
    named = [", ".join(NAMED[start::lines]) for start in range(lines)]
    async with world(tmp_path) as here:
        cookie = await here.gw.session("user-1", roles=("dev",))
        head = [
            "POST /session HTTP/1.1",
            "host: app.test",
            *(f"connection: keep-alive, {value}" for value in named),
            cookie + "; app=1",
            "content-length: 5",
            "x-custom: stays",
        ]
        caller = await here.gw.connect()
        answer = await caller.ask("\r\n".join([*head, "", ""]).encode() + b"hello")
        assert (answer.status, answer.body) == (200, b"POST /session HTTP/1.1|5")
        (request,) = here.app.whole
        fields = verify_identity(
            here.gw.gateway._signer.public_key_pem, request.headers(), method="POST", path="/session", query=""
        )
        assert (fields.subject, fields.roles) == ("user-1", ("dev",))
        (host,) = request.values(b"host")
        assert host.startswith(b"127.0.0.1:"), "the upstream's own"
        assert request.values(b"x-forwarded-for") == [b"127.0.0.1"]
        assert request.values(b"x-forwarded-host") == [b"app.test"]
        assert request.values(b"x-custom") == [b"stays"]
        assert request.values(b"connection") == []
        assert len(request.values(b"x-request-id")) == len(request.values(b"traceparent")) == 1
        assert await still_open(caller)


async def test_naming_the_session_cookie_does_not_lose_a_check(tmp_path: Path) -> None:
    """The cross-site guard and the authentication read what was sent, not what is forwarded."""
    async with world(tmp_path) as here:
        cookie = await here.gw.session()
        named = "connection: cookie, origin, sec-fetch-site"
        for evil in ("sec-fetch-site: cross-site", "origin: https://evil.test", "origin: null"):
            answer = await here.gw.get("/session", cookie, named, evil, method="POST")
            assert (answer.status, answer.json["error"]) == (403, "cross_site_request")
        assert (await here.gw.get("/session", named)).status == 401
        assert here.app.begun == []


async def test_named_and_hop_by_hop_headers_of_the_caller_are_dropped(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        answer = await here.gw.get(
            "/", "connection: close, X-Custom,x-other ,", "x-custom: 1", "x-other: 2", "keep-alive: timeout=5",
            "te: trailers, deflate", "proxy-connection: keep-alive", "proxy-authorization: Basic eDp5", "upgrade: h2c",
            "http2-settings: AAMAAABkAAQAAP__", "x-third: 3",
        )  # fmt: skip
        assert answer.status == 200
        (request,) = here.app.whole
        names = {name for name, _ in request.headers()}
        own = {b"host", b"x-request-id", b"traceparent", b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host"}
        assert names == own | {b"x-third"}


@pytest.mark.parametrize(
    "line",
    [
        "content_length: 5", "content.length: 5", "Content_Length: 5", "transfer_encoding: chunked",
        "Transfer.Encoding: chunked",
    ],
)  # fmt: skip
async def test_a_name_that_passes_for_a_framing_header_is_refused(tmp_path: Path, line: str) -> None:
    async with world(tmp_path) as here:
        answer = await here.gw.get("/", line)
        assert (answer.status, answer.value("connection")) == (400, "close")
        assert here.app.begun == []


@pytest.mark.parametrize("mark", "~!#$%&'*+^`|")
async def test_any_other_spelling_of_a_framing_header_is_dropped(tmp_path: Path, mark: str) -> None:
    async with world(tmp_path) as here:
        lines = [f"content{mark}length: 99", f"transfer{mark}encoding: chunked", f"Content{mark}Length: 1"]
        assert (await here.gw.get("/", *lines)).status == 200
        (request,) = here.app.whole
        assert not any(name.startswith((b"content", b"transfer")) for name, _ in request.headers())


async def test_a_handshake_carries_no_spoofed_header_either(tmp_path: Path) -> None:
    """B23, with and without a login; and a route without WebSockets passes no handshake on."""
    async with world(tmp_path) as here:
        cookie = await here.gw.session("user-1")
        handshake = (
            "connection: upgrade, x-gateway-user-id", "upgrade: websocket", "sec-websocket-version: 13",
            "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==", "origin: http://app.test", cookie,
        )  # fmt: skip
        for path, identity in (("/socket", 0), ("/private-socket", 1)):
            for batch in batches(RESERVED):
                here.app.clear()
                await here.gw.get(path, *handshake, *(f"{name}: {MARK}" for name in batch[:80]))
                (request,) = here.app.begun
                assert MARK.encode() not in request.head
                assert b"gateway_session" not in request.head
                assert len(request.values(b"x-gateway-user-id")) == identity
        here.app.clear()
        assert (await here.gw.get("/", *handshake, f"x-gateway-user-id: {MARK}")).status == 400
        assert here.app.begun == []


SPOOFED_FORWARDING = (
    "x-forwarded-for: 1.2.3.4",
    "x-forwarded-host: evil.example",
    "x-forwarded-proto: evil_protocol",
    "x-forwarded-port: 444",
    "forwarded: for=1.2.3.4;host=evil.example;proto=https",
    "x-real-ip: 1.2.3.4",
    "true-client-ip: 1.2.3.4",
)


async def test_an_untrusted_peer_chooses_neither_address_nor_host_nor_scheme(tmp_path: Path) -> None:
    """B25, R11."""
    async with world(tmp_path) as here:
        answer = await here.gw.get("/session", "accept: text/html", *SPOOFED_FORWARDING)
        assert answer.value("location") == "/auth/login?redirect=%2Fsession"
        assert b"evil" not in answer.raw_head
        assert (await here.gw.get("/", *SPOOFED_FORWARDING)).status == 200
        (request,) = here.app.whole
        assert b"evil" not in request.head
        assert b"1.2.3.4" not in request.head
        assert request.values(b"x-forwarded-proto") == [b"http"]
        line = await here.gw.request_line(2)
        assert (line["client"], line["host"]) == ("127.0.0.1", "app.test")


CHAINS = {
    # what is sent (`|` begins a second header line) -> who is taken for the caller, and the chain that goes on
    "1.1.1.1": ("1.1.1.1", "1.1.1.1, 127.0.0.1"),
    "9.9.9.9, 1.1.1.1": ("1.1.1.1", "1.1.1.1, 127.0.0.1"),
    "9.9.9.9|1.1.1.1": ("1.1.1.1", "1.1.1.1, 127.0.0.1"),
    "1.1.1.1, , 2.2.2.2": ("127.0.0.1", "127.0.0.1"),
    "1.1.1.1,": ("127.0.0.1", "127.0.0.1"),
    "unknown": ("127.0.0.1", "127.0.0.1"),
    "1.1.1.1, unknown": ("127.0.0.1", "127.0.0.1"),
    "_hidden": ("127.0.0.1", "127.0.0.1"),
    "[2001:db8::1]:4711": ("2001:db8::1", "2001:db8::1, 127.0.0.1"),
    "2001:DB8:0::1": ("2001:db8::1", "2001:db8::1, 127.0.0.1"),
    "::ffff:1.1.1.1": ("1.1.1.1", "1.1.1.1, 127.0.0.1"),
    "1.1.1.1:80": ("1.1.1.1", "1.1.1.1, 127.0.0.1"),
    "1.1.1.1.1": ("127.0.0.1", "127.0.0.1"),
    "fe80::1%eth0": ("127.0.0.1", "127.0.0.1"),
    "1.1.1.1 x": ("127.0.0.1", "127.0.0.1"),
    '"1.1.1.1"': ("127.0.0.1", "127.0.0.1"),
    ", ".join(["9.9.9.9"] * 499 + ["1.1.1.1"]): ("1.1.1.1", "1.1.1.1, 127.0.0.1"),
}


async def test_a_trusted_peers_chain_is_read_from_the_right_and_only_where_it_is_whole(tmp_path: Path) -> None:
    """B26."""
    async with world(tmp_path, trusted_proxies=(ip_network("127.0.0.1/32"),)) as here:
        for count, (sent, (client, chain)) in enumerate(CHAINS.items(), 1):
            here.app.clear()
            lines = [f"x-forwarded-for: {part}" for part in sent.split("|")]
            assert (await here.gw.get("/", *lines)).status == 200
            assert here.app.whole[0].values(b"x-forwarded-for") == [chain.encode()], sent
            assert (await here.gw.request_line(count))["client"] == client, sent


@pytest.mark.parametrize(
    "sent",
    [
        "evil.example/path", "evil example", "a@evil.example", "", "evil.example:99999", "http://evil.example", "[::1",
        "evil.example,", "evil..example",
    ],
)  # fmt: skip
async def test_a_trusted_peers_garbage_is_ignored(tmp_path: Path, sent: str) -> None:
    async with world(tmp_path, trusted_proxies=(ip_network("127.0.0.1/32"),)) as here:
        lines = (f"x-forwarded-host: {sent}", "x-forwarded-proto: gopher", "x-forwarded-proto: https")
        assert (await here.gw.get("/", *lines)).status == 200
        (request,) = here.app.whole
        assert request.values(b"x-forwarded-host") == [b"app.test"]
        assert request.values(b"x-forwarded-proto") == [b"http"]


async def test_an_upstream_cannot_speak_in_the_gateways_name_in_any_spelling(tmp_path: Path) -> None:
    claims = ("true-client-ip", "x-original-url", "x-original-uri", "x-rewrite-url")  # they mean nothing to a caller
    names = tuple(name for name in IDENTITY + FORWARDING if name not in claims)
    for number, batch in enumerate(batches(names)):
        lines = "".join(f"{name}: {MARK}\r\n" for name in batch).encode()
        folder = tmp_path / str(number)
        folder.mkdir()
        async with upstream(answers_with(ok(b"ok", lines))) as app, running(folder, table(route(app.url))) as gw:
            answer = await gw.get("/")
            assert answer.status == 200
            assert MARK.encode() not in answer.raw_head
            assert len(answer.values("x-request-id")) == 1


async def test_a_request_id_or_trace_of_a_caller_is_taken_only_as_the_one_harmless_value(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        for sent in (
            ["x-request-id: a b"], ["x-request-id: a", "x-request-id: b"], ["x-request-id: " + "a" * 65],
            ["x-request-id: <script>"], ["x-request-id:"], ["x_request_id: abc"],
        ):  # fmt: skip
            answer = await here.gw.get("/", *sent)
            assert len(answer.value("x-request-id")) == 36, sent
        zero = "00-" + "0" * 32 + "-" + "1" * 16 + "-01"
        for trace in ("garbage", zero, "ff-" + "1" * 32 + "-" + "1" * 16 + "-01"):
            here.app.clear()
            await here.gw.get("/", f"traceparent: {trace}", "tracestate: evil=1")
            (request,) = here.app.whole
            assert request.values(b"tracestate") == []
            assert request.values(b"traceparent")[0].endswith(b"-00")


async def test_a_flood_of_header_names_leaves_nothing_behind_in_memory_or_metrics(tmp_path: Path) -> None:
    """What is remembered of names is bounded in bytes: each may be as long as a head."""
    async with world(tmp_path) as here:
        before = len(list(text_string_to_metric_families(here.gw.gateway.metrics.render().decode())))
        for number in range(50):
            name = f"x-{number}-" + "a" * 30_000
            assert (await here.gw.get("/", f"{name}: 1")).status == 200
        remembered = policy.passes_upstream.cache_parameters()["maxsize"]
        assert remembered is not None
        assert remembered * 32_768 <= 16 * 2**20
        assert len(list(text_string_to_metric_families(here.gw.gateway.metrics.render().decode()))) == before
