"""Cookies and sessions over sockets: the gateway's cookies reach no upstream, and no upstream sets them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from common.settings.secret import Secret
from tests.support.gateway import Answer, Running, route, running, table
from tests.support.upstreams import Peer, Upstream, answers_with, ok, upstream
from tests.support.wire import Recorded

PAGE = "accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"


@dataclass
class World:
    gw: Running
    app: Recorded
    provider: Upstream


async def metadata(peer: Peer) -> None:
    """A provider as far as a login's first step needs one."""
    while True:
        await peer.read_request()
        issuer = peer.upstream.url
        document = {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize",
            "token_endpoint": f"{issuer}/token",
            "jwks_uri": f"{issuer}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }
        await peer.write(ok(json.dumps(document).encode(), b"content-type: application/json\r\n"))


@asynccontextmanager
async def world(tmp_path: Path, **settings: Any) -> AsyncIterator[World]:
    app = Recorded()
    async with upstream(app.script) as public, upstream(metadata) as provider:
        document = table(
            route(public.url),
            route(public.url, "/session", auth={"mode": "session"}),
            route(public.url, "/any", auth={"mode": "any"}),
            route(public.url, "/token", auth={"mode": "jwt-only"}),
        )
        chosen = {
            "oidc_issuer": provider.url,
            "oidc_client_id": "client",
            "oidc_client_secret": Secret("s" * 40),
            "metrics_token": Secret("m" * 40),
            "rate_limit_login_max": 0,
            **settings,
        }
        async with running(tmp_path, document, **chosen) as gw:
            yield World(gw, app, provider)


def id_of(cookie: str) -> str:
    return cookie.partition("gateway_session=")[2]


COOKIES = {
    # what stands around the session cookie -> the upstream's one Cookie line, None where there is none
    "{ours}": None,
    "{ours}; a=1": b"a=1",
    "a=1; {ours}; b=2": b"a=1; b=2",
    'a="x y"; {ours}; b=c=d==; c=': b'a="x y"; b=c=d==; c=',
    "a=1;{ours};b=2": b"a=1; b=2",
    "a=1 ; {ours} ;  b=2": b"a=1; b=2",
    "gateway_oidc_state=x; {ours}; a=1": b"a=1",
    "a=1|{ours}|b=2": b"a=1; b=2",
    "{ours}|{ours}": None,
    "a=1; a=2; {ours}": b"a=1; a=2",
    "{ours}; nameless; =x; a=1": b"a=1",
    "{ours}; gateway_session=other; a=1": b"a=1",
    "{spaced}; a=1": b"a=1",
    'a={{"json": [1]}}; {ours}': b'a={"json": [1]}',
    "$Version=1; {ours}; $Path=/": b"$Version=1; $Path=/",
    "{ours}; Gateway_Session=theirs": b"Gateway_Session=theirs",
    "{ours}; xgateway_session=theirs; gateway_session2=theirs": b"xgateway_session=theirs; gateway_session2=theirs",
}


@pytest.mark.parametrize("path", ["/", "/session", "/any"])
async def test_the_gateways_cookies_reach_no_upstream_and_the_others_stay_byte_for_byte(
    tmp_path: Path, path: str
) -> None:
    """B32, on a public route too: an application must not learn the session of whoever looks in."""
    async with world(tmp_path) as here:
        session_id = id_of(await here.gw.session())
        for sent, expected in COOKIES.items():
            here.app.clear()
            line = sent.format(ours=f"gateway_session={session_id}", spaced=f"gateway_session = {session_id} ")
            answer = await here.gw.get(path, *(f"cookie: {part}" for part in line.split("|")))
            assert answer.status == 200, sent
            (request,) = here.app.whole
            assert request.values(b"cookie") == ([] if expected is None else [expected]), sent
            assert session_id.encode() not in request.head
        assert session_id not in str(here.gw.lines)


@pytest.mark.parametrize(
    "cookie",
    [
        "gateway_session=", 'gateway_session="{id}"', "gateway_session={id}=", "gateway_session={id}x",
        "gateway_session={cut}", "gateway_session={upper}", "Gateway_Session={id}", "gateway_session%3D{id}",
        "gateway%5Fsession={id}", "x=1, gateway_session={id}", "gateway_session", "gateway_session={hash}",
        "gateway_session=../{id}", "gateway_session=*", "gateway_session=' OR 1=1 --",
        "gateway_session=a; gateway_session=b; gateway_session=c; gateway_session=d; gateway_session={id}",
    ],
)  # fmt: skip
async def test_what_is_not_exactly_the_session_is_no_session(tmp_path: Path, cookie: str) -> None:
    async with world(tmp_path) as here:
        known = id_of(await here.gw.session())
        digest = hashlib.sha256(known.encode()).hexdigest()
        line = cookie.format(id=known, cut=known[:-1], upper=known.upper(), hash=digest)
        answer = await here.gw.get("/session", f"cookie: {line}")
        assert (answer.status, answer.json["error"]) == (401, "unauthorized")
        assert here.app.begun == []
        assert known not in str(here.gw.lines) + answer.raw_head.decode()
        assert (await here.gw.get("/session", f"cookie: gateway_session={known}")).status == 200


async def test_two_live_sessions_are_nobodys(tmp_path: Path) -> None:
    """A sibling host of the domain slips its own session in front of the caller's."""
    async with world(tmp_path) as here:
        mine, planted = id_of(await here.gw.session("me")), id_of(await here.gw.session("attacker"))
        for first, second in ((mine, planted), (planted, mine)):
            answer = await here.gw.get("/session", f"cookie: gateway_session={first}; gateway_session={second}")
            assert answer.status == 401
            assert answer.values("set-cookie") == []
        answer = await here.gw.get("/session", f"cookie: gateway_session={'A' * 43}; gateway_session={mine}")
        assert answer.status == 200
        assert [request.values(b"x-gateway-user-id") for request in here.app.whole] == [[b"me"]]


PLANTED = (
    b"gateway_session=evil", b"gateway_oidc_state=evil", b"Gateway_Session=evil", b"GATEWAY_SESSION=evil",
    b" gateway_session=evil", b"\tgateway_session=evil", b"gateway_session =evil", b"gateway_session\t=evil",
    b"=gateway_session=evil", b"==gateway_session=evil", b" = gateway_session=evil", b"gateway_session",
    b"gateway_session=evil; Path=/; HttpOnly; Secure", b"gateway_session=evil; Domain=test; Path=/session",
    b"gateway_session=; Max-Age=0", b"gateway_session=evil; SameSite=None; Secure; Partitioned",
    b"gateway_session=evil=gateway", b"gateway_session;=evil", b"gateway_oidc_state=; Expires=Thu, 01 Jan 1970",
)  # fmt: skip
KEPT = (
    b"app=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT; Path=/",
    b"app=2; Path=/x",
    b'quoted="a, b; c"',
    b"gateway_sessions=theirs",
    b"x=gateway_session=fine",
    b"caf\xc3\xa9=1",
)


@pytest.mark.parametrize(
    ("method", "first", "framing"),
    [
        ("GET", b"200 OK", b"content-length: 2\r\n\r\nok"),
        ("GET", b"302 Found", b"location: /x\r\ncontent-length: 0\r\n\r\n"),
        ("GET", b"304 Not Modified", b"\r\n"),
        (
            "GET",
            b"404 Not Found",
            b"transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nset-cookie: gateway_session=evil\r\n\r\n",
        ),
        ("HEAD", b"200 OK", b"content-length: 2\r\n\r\n"),
        ("POST", b"500 No", b"content-length: 0\r\n\r\n"),
    ],
)  # fmt: skip
async def test_no_upstream_sets_or_clears_a_cookie_of_the_gateway(
    tmp_path: Path, method: str, first: bytes, framing: bytes
) -> None:
    """B62: in whatever response, and in an interim one; its other cookies stay separate, in order, byte for byte."""
    lines = b"".join(b"set-cookie: %b\r\n" % value for value in (*PLANTED, *KEPT, *PLANTED))
    interim = b"HTTP/1.1 103 Early Hints\r\nset-cookie: gateway_session=evil\r\nlink: </a>\r\n\r\n"
    response = interim + b"HTTP/1.1 " + first + b"\r\n" + lines + framing
    async with upstream(answers_with(response)) as app, running(tmp_path, table(route(app.url))) as gw:
        caller = await gw.connect()
        for _ in range(2):
            await caller.send(f"{method} / HTTP/1.1\r\nhost: app.test\r\n\r\n".encode())
            answer = await caller.answer(method)
            assert [value.encode("latin-1") for value in answer.values("set-cookie")] == list(KEPT)
            assert b"evil" not in answer.raw_head + answer.body
        assert app.connections == 1


@pytest.mark.parametrize("byte", [b"\x00", b"\x0b", b"\x0c", b"\x1f", b"\x7f", b"\r", b"\n"])
async def test_a_control_byte_in_a_cookie_of_the_upstream_is_no_response_at_all(tmp_path: Path, byte: bytes) -> None:
    for number, value in enumerate((byte + b"gateway_session=evil", b"gateway_" + byte + b"session=evil")):
        folder = tmp_path / str(number)
        folder.mkdir()
        response = ok(b"ok", b"set-cookie: " + value + b"\r\n")
        async with upstream(answers_with(response)) as app, running(folder, table(route(app.url))) as gw:
            answer = await gw.get()
            assert (answer.status, answer.json["error"]) == (502, "bad_gateway")
            assert b"evil" not in answer.raw_head


async def test_the_gateways_own_cookie_goes_out_beside_the_upstreams(tmp_path: Path) -> None:
    response = ok(b"ok", b"set-cookie: app=1\r\nset-cookie: gateway_session=evil\r\nset-cookie: app=2\r\n")
    async with upstream(answers_with(response)) as app:
        document = table(route(app.url, auth={"mode": "session"}))
        async with running(tmp_path, document, session_idle_ms=4_000) as gw:
            cookie = await gw.session()
            await asyncio.sleep(0.45)  # a tenth of the idle time: the session is written again, and its cookie sent
            values = (await gw.get("/", cookie)).values("set-cookie")
            assert values[:2] == ["app=1", "app=2"]
            assert [value.partition(";")[0] for value in values[2:]] == [f"gateway_session={id_of(cookie)}"]


async def test_no_endpoint_log_or_metric_shows_a_session_id_or_token(tmp_path: Path) -> None:
    """R20."""
    async with world(tmp_path) as here:
        cookie = await here.gw.session("user-1", "a@b.test", ("dev",))
        bearer = "authorization: Bearer " + "m" * 40
        told = []
        for path, *lines in (
            ("/auth/session",), ("/healthz",), ("/readyz",), ("/metrics", bearer), ("/session",),
            ("/auth/callback?state=x",), ("/nothing",), ("/auth/logout", "sec-fetch-site: cross-site"), ("/token",),
            ("/any",),
        ):  # fmt: skip
            answer = await here.gw.get(path, cookie, *lines)
            told.append(answer.raw_head.decode("latin-1") + answer.body.decode("latin-1"))
        assert '"subject":"user-1"' in told[0]
        assert id_of(cookie) not in "".join(told) + str(here.gw.lines)
        assert hashlib.sha256(id_of(cookie).encode()).hexdigest() not in "".join(told)
        assert "m" * 40 not in "".join(told) + str(here.gw.lines)


async def test_a_session_that_was_logged_out_opens_nothing_on_any_connection(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        cookie = await here.gw.session()
        kept = await here.gw.connect()
        request = f"GET /session HTTP/1.1\r\nhost: app.test\r\n{cookie}\r\n\r\n".encode()
        assert (await kept.ask(request)).status == 200
        out = await here.gw.get("/auth/logout", cookie)
        assert out.status == 302
        assert out.value("set-cookie").startswith("gateway_session=; ")
        assert (await kept.ask(request)).status == 401
        assert len(here.app.whole) == 1


async def test_pipelined_requests_do_not_share_a_session(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        one, two = await here.gw.session("one"), await here.gw.session("two")
        caller = await here.gw.connect()
        for cookie in (one, "x: y", two, "x: y"):
            await caller.send(f"GET /session HTTP/1.1\r\nhost: app.test\r\n{cookie}\r\n\r\n".encode())
        assert [(await caller.answer()).status for _ in range(4)] == [200, 401, 200, 401]
        assert [request.values(b"x-gateway-user-id") for request in here.app.whole] == [[b"one"], [b"two"]]


SCRIPTS = (
    ("accept: application/json",),
    ("accept: */*",),
    (PAGE, "sec-fetch-mode: cors"),
    (PAGE, "sec-fetch-mode: no-cors"),
    (PAGE, "x-requested-with: XMLHttpRequest"),
    ("accept: text/event-stream",),
    ("accept: text/html;q=0",),
    (PAGE, "connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13"),
)


@pytest.mark.parametrize("cookie", ["", f"cookie: gateway_session={'A' * 43}"])
async def test_a_scripts_request_gets_401_and_begins_no_login(tmp_path: Path, cookie: str) -> None:
    """B41: a redirect would end in a CORS error, and leave a login behind that nobody finishes."""
    async with world(tmp_path) as here:
        given_cookie = [cookie] if cookie else []
        for lines in SCRIPTS:
            answer = await here.gw.get("/session", *given_cookie, *lines)
            assert (answer.status, answer.values("location")) == (401, [])
            assert not any(value.startswith("gateway_oidc_state") for value in answer.values("set-cookie"))
        for method in ("POST", "OPTIONS", "PUT"):
            assert (await here.gw.get("/session", PAGE, *given_cookie, method=method)).status == 401
        answer = await here.gw.get("/session", PAGE, "sec-fetch-mode: navigate", *given_cookie)
        assert answer.value("location") == "/auth/login?redirect=%2Fsession"
        cleared = [value for value in answer.values("set-cookie") if value.startswith("gateway_session=; ")]
        assert len(cleared) == len(given_cookie)
        assert here.app.begun == []
        assert here.provider.connections == 0


TARGETS = (
    # B28
    "/\\evil.example", "/%5Cevil.example", "/%5cevil.example", "\\\\evil.example", "https:/evil.example",
    "https:evil.example", "//evil.example", "///evil.example", "/.//evil.example", "https://evil.example/",
    "//evil.example\\@app.test", "javascript:alert(1)", "/%2fevil.example", "/%2Fevil.example", "/%252fevil.example",
    "//app.test@evil.example", "/./evil/..//evil.example", "/x/..//evil.example", "evil.example", "",
    "/..//evil.example",
    # B29, R13
    "/%09/evil.example", "/%0a/evil.example", "/%0d%0a/evil.example", "/\t\\evil.example", "/\t/evil.example",
    " /evil", "\t//evil.example", "/%00/evil.example", "/\r\nset-cookie: gateway_session=evil", "/%250a/evil.example",
    "/%c2%85/evil.example", "http://app.test.evil.example/", "http://app.test@evil.example/", "http://app.test:444/",
    "/auth/login", "/auth/login?redirect=/auth/login", "/%61uth/logout", "/auth/callback?code=1&state=2",
)  # fmt: skip


def pending(answer: Answer) -> list[list[Any]]:
    """The logins in the state cookie that an answer sets."""
    (line,) = [value for value in answer.values("set-cookie") if value.startswith("gateway_oidc_state=")]
    payload = line.partition("=")[2].partition(".")[0]
    return json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


async def test_a_login_leads_back_to_no_other_place_than_a_path_of_this_gateway(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        for target in TARGETS:
            answer = await here.gw.get(f"/auth/login?redirect={quote(target, safe='')}", PAGE)
            assert answer.status == 302
            location = answer.value("location")
            assert location.startswith(f"{here.provider.url}/authorize?")
            assert "evil" not in answer.raw_head.decode("latin-1"), "the answer never echoes the target"
            assert [login[3] for login in pending(answer)] == ["/"], target
            assert not re.search(r"[\x00-\x20\x7f]", location)
        for target in ("/a?b=c&d=%2F", "/caf%C3%A9", "/x#y"):
            answer = await here.gw.get(f"/auth/login?redirect={quote(target, safe='')}", PAGE)
            assert [login[3] for login in pending(answer)] == [target]


async def test_a_hostile_path_leads_to_no_other_place_after_the_login(tmp_path: Path) -> None:
    async with upstream(Recorded().script) as app:
        async with running(tmp_path, table(route(app.url, auth={"mode": "session"}))) as gw:
            for target in (
                "//evil.example",
                "///evil.example/x",
                "/%2fevil.example",
                "/%5cevil.example",
                "/%09/evil.example",
            ):
                answer = await gw.get(target, PAGE)
                if answer.status != 400:
                    assert answer.value("location") == "/auth/login?redirect=%2F", target
        assert app.connections == 0


async def test_whatever_host_a_request_names_the_provider_sends_back_to_the_configured_one(tmp_path: Path) -> None:
    """R11, R14."""
    async with world(tmp_path) as here:
        answer = await here.gw.get(
            "/auth/login?redirect=/&redirect_uri=https://evil.example&client_id=evil&response_mode=fragment",
            PAGE, "x-forwarded-host: evil.example", "x-forwarded-proto: https", "origin: https://evil.example",
            host="evil.example",
        )  # fmt: skip
        assert answer.status == 302
        query = parse_qs(urlsplit(answer.value("location")).query)
        assert query["redirect_uri"] == ["http://app.test/auth/callback"]
        assert query["client_id"] == ["client"]
        assert "evil" not in answer.value("location")
        assert query["code_challenge_method"] == ["S256"]


async def test_a_hundred_logins_that_nobody_finishes_leave_one_bounded_cookie(tmp_path: Path) -> None:
    """R16: a cookie an attempt, or one that grows, ends in 431 for the user."""
    async with world(tmp_path) as here:
        cookie = "x: y"
        for number in range(100):
            target = quote(f"/page-{number}?" + "q" * (number * 20), safe="")
            answer = await here.gw.get(f"/auth/login?redirect={target}", PAGE, cookie)
            (line,) = answer.values("set-cookie")
            assert len(line) <= 4096
            assert 1 <= len(pending(answer)) <= 4
            cookie = "cookie: " + line.partition(";")[0]
        assert pending(answer)[-1][3].startswith("/page-99?")
        assert (await here.gw.get("/", cookie)).status == 200
        assert here.app.whole[-1].values(b"cookie") == []


@pytest.mark.parametrize("change", ["tag", "payload", "none", "swapped", "foreign"])
async def test_a_state_cookie_that_the_gateway_did_not_write_completes_nothing(tmp_path: Path, change: str) -> None:
    async with world(tmp_path) as here:
        answer = await here.gw.get("/auth/login?redirect=/", PAGE)
        value = answer.value("set-cookie").partition(";")[0].partition("=")[2]
        state = pending(answer)[0][0]
        payload, _, tag = value.partition(".")
        forged = {
            "tag": f"{payload}.{'A' * len(tag)}",
            "payload": f"{payload[:-2]}AA.{tag}",
            "none": payload,
            "swapped": f"{tag}.{payload}",
            "foreign": "W1siYSIsImIiLCJjIiwiLyIsMV1d." + tag,
        }[change]
        before = here.provider.connections
        refused = await here.gw.get(f"/auth/callback?code=c&state={state}", f"cookie: gateway_oidc_state={forged}")
        assert (refused.status, refused.json["error"]) == (400, "login_failed")
        assert refused.values("set-cookie") == []
        assert here.provider.connections == before, "the provider is asked nothing"
        assert here.gw.metric("gateway_logins_total", result="failed") == 1


CROSS_SITE = (
    ("POST", ("sec-fetch-site: cross-site",), 403),
    ("POST", ("sec-fetch-site: Cross-Site",), 403),
    ("POST", ("sec-fetch-site: same-origin", "sec-fetch-site: cross-site"), 403),
    ("POST", ("sec-fetch-site: none", "origin: https://evil.example"), 403),
    ("POST", ("origin: null",), 403),
    ("POST", ("origin: http://app.test.evil.example",), 403),
    ("POST", ("origin: http://evil-app.test",), 403),
    ("POST", ("origin: http://app.test@evil.example",), 403),
    ("POST", ("origin: http://app.test:444",), 403),
    ("POST", ("origin: https://app.test",), 403),
    ("POST", ("origin: http://app.test.",), 403),
    ("POST", ("origin: http://app.test/",), 403),
    ("POST", ("origin: http://app.test", "origin: http://evil.example"), 403),
    ("POST", ("origin:",), 403),
    ("PATCH", ("origin: http://evil.example",), 403),
    ("patch", ("origin: http://evil.example",), 403),
    ("PROPPATCH", ("sec-fetch-site: cross-site",), 403),
    ("PURGE", ("sec-fetch-site: cross-site",), 403),
    ("POST", ("origin: http://app.test", "sec-fetch-site: same-origin"), 200),
    ("POST", ("origin: HTTP://APP.TEST:80",), 200),
    ("POST", (), 200),
    ("GET", ("sec-fetch-site: cross-site",), 200),
)


async def test_another_site_changes_nothing_with_the_callers_cookie(tmp_path: Path) -> None:
    """R13, also on a route that ignores the cookie: the browser sent it, and that is what counts."""
    async with world(tmp_path) as here:
        cookie = await here.gw.session()
        for path in ("/", "/session", "/any"):
            for method, lines, status in CROSS_SITE:
                here.app.clear()
                answer = await here.gw.get(path, cookie, *lines, method=method)
                assert answer.status == status, (path, method, lines)
                assert len(here.app.begun) == (status == 200)
                if status == 403:
                    assert answer.json["error"] == "cross_site_request"


async def test_an_allowed_origin_is_exactly_itself(tmp_path: Path) -> None:
    """R13: not by suffix, by contained text, by another port or scheme, or with somebody's name in front."""
    async with world(tmp_path, allowed_origins=("https://app.example",)) as here:
        cookie = await here.gw.session()
        for origin, status in {
            "https://app.example": 200,
            "https://app.example:443": 200,
            "HTTPS://App.Example": 200,
            "https://evil-app.example": 403,
            "https://app.example.evil.com": 403,
            "https://app.example@evil.com": 403,
            "https://user@app.example": 403,
            "https://app.example:444": 403,
            "http://app.example": 403,
            "http://app.example:443": 403,
            "https://app.example.": 403,
            "https://app.example/": 403,
            "https://app.example/x": 403,
            "https://sub.app.example": 403,
            "https://xn--pp-fka.example": 403,
            "https://app.example https://evil.com": 403,
            "app.example": 403,
            "//app.example": 403,
        }.items():
            answer = await here.gw.get("/session", cookie, f"origin: {origin}", method="POST")
            assert answer.status == status, origin
        assert len(here.app.whole) == 3
