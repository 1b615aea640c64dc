"""What a caller gets of an upstream's response head."""

from __future__ import annotations

import pytest

from dataplane.forwarding.response_headers import response_headers, sets_gateway_cookie
from tests.support.forwarding import CONTEXT, UPSTREAM, response, route

OWN = (b"x-request-id", b"req-1")
PRIVATE = (b"cache-control", b"private")


def got(
    *lines: tuple[str, str], upstream_host: str = "upstream", added: tuple[tuple[bytes, bytes], ...] = ()
) -> list[tuple[bytes, bytes]]:
    return response_headers(
        response(*lines),
        route=route(upstream_host=upstream_host),
        upstream=UPSTREAM,
        forwarding=CONTEXT,
        request_id="req-1",
        added=added,
    ).all()


def test_an_answer_with_a_cookie_of_the_gateway_is_kept_by_no_shared_cache() -> None:
    """Else the next caller of a cache gets this one's session."""
    cookie = (b"set-cookie", b"gateway_session=x")
    headers = got(("Cache-Control", "public, s-maxage=3600"), added=(cookie,))
    assert headers == [(b"cache-control", b"public, s-maxage=3600"), cookie, PRIVATE, OWN]
    assert got(("Cache-Control", "public"), added=((b"ratelimit", b"x"),))[0] == (b"cache-control", b"public")
    assert len(got(("Cache-Control", "public"), added=((b"ratelimit", b"x"),))) == 3


@pytest.mark.parametrize("value", ["wicketgate; error=http_request_denied", "edge, Wicketgate;error=x", "WICKETGATE"])
def test_an_upstream_cannot_say_that_the_gateway_answered(value: str) -> None:
    """RFC 9209: an operator tells by this header who made an error."""
    assert got(("Proxy-Status", value)) == [OWN]
    assert got(("Proxy-Status", "edge; error=x"))[0] == (b"proxy-status", b"edge; error=x")


def test_ordinary_headers_pass_in_order_with_repeats_and_bytes() -> None:
    """B62, R26."""
    lines = (
        ("Content-Type", "text/html; charset=utf-8"),
        ("Set-Cookie", "a=1; Expires=Wed, 09 Jun 2021 10:18:14 GMT; Path=/"),
        ("Content-Encoding", "br"),
        ("Set-Cookie", "b=2"),
        ("Link", "</a>; rel=preload"),
        ("Link", "</b>; rel=preload"),
        ("Vary", "Accept"),
        ("Vary", "Cookie"),
        ("WWW-Authenticate", "Basic"),
        ("WWW-Authenticate", "Bearer"),
        ("Set-Cookie", "a=1; Expires=Wed, 09 Jun 2021 10:18:14 GMT; Path=/"),
        ("ETag", '"caf\u00e9"'),
        ("Server", "app"),
    )
    assert got(*lines) == [*((n.lower().encode(), v.encode("latin-1")) for n, v in lines), OWN]


def test_what_belongs_to_the_gateway_never_comes_from_an_upstream() -> None:
    lines = (
        ("X-Gateway-User-Id", "root"),
        ("X_Gateway_Roles", "admin"),
        ("X-Forwarded-For", "10.0.0.1"),
        ("X-Forwarded-Host", "app"),
        ("X-Real-IP", "10.0.0.1"),
        ("Forwarded", "for=10.0.0.1"),
        ("X-Remote-User", "root"),
        ("X-Request-Id", "another"),
        ("Host", "app"),
    )
    assert got(*lines) == [OWN]


def test_headers_of_the_upstreams_connection_and_framing_end_here() -> None:
    lines = (
        ("Connection", "close, X-Hop"),
        ("X-Hop", "1"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Authenticate", "Basic"),
        ("Transfer-Encoding", "chunked"),
        ("Content-Length", "5"),
        ("Trailer", "X-Checksum"),
        ("Upgrade", "h2c"),
        ("X-Kept", "1"),
    )
    assert got(*lines) == [(b"x-kept", b"1"), OWN]


def test_connection_cannot_drop_what_the_gateway_adds() -> None:
    session = (b"set-cookie", b"gateway_session=new; HttpOnly")
    assert got(("Connection", "set-cookie, x-request-id"), ("Set-Cookie", "a=1"), added=(session,)) == [
        session,
        PRIVATE,
        OWN,
    ]


def test_the_gateways_own_cookie_goes_out_beside_the_upstreams() -> None:
    session = (b"set-cookie", b"gateway_session=new; HttpOnly")
    assert got(("Set-Cookie", "a=1"), ("Set-Cookie", "gateway_session=evil"), added=(session,)) == [
        (b"set-cookie", b"a=1"),
        session,
        PRIVATE,
        OWN,
    ]


def test_a_bad_name_or_value_is_dropped() -> None:
    assert got(("X-A", "1\r\nSet-Cookie: gateway_session=x"), ("B\u00e9", "1"), ("X-C", "\x00"), ("X-D", "1")) == [
        (b"x-d", b"1"),
        OWN,
    ]


@pytest.mark.parametrize(
    "value",
    [
        b"gateway_session=x",
        b"gateway_session=; Max-Age=0",
        b"gateway_session",
        b"gateway_oidc_state=x; Path=/auth",
        b"  gateway_session=x",
        b"\tgateway_session\t=x",
        b"Gateway_Session=x",
        b"=gateway_session=x",
        b" = gateway_session = x",
        b"==gateway_session=x",
        b"\x01gateway_session=x",
        b"gateway\x7f_session=x",
        b"gateway_session=x; Domain=example.com",
    ],
)
def test_no_spelling_lets_an_upstream_set_or_clear_a_gateway_cookie(value: bytes) -> None:
    """§7.2: it would fix a browser's session to an id of its choice."""
    assert sets_gateway_cookie(value)


@pytest.mark.parametrize(
    "value",
    [
        b"a=gateway_session=x",
        b"gateway_session2=x",
        b"my_gateway_session=x",
        b"gateway-session=x",
        b"gateway session=x",
        b"a=1; gateway_session=x",
        b"a=1, gateway_session=x",
        b"",
        b";gateway_session=x",
    ],
)
def test_other_cookies_are_the_applications_business(value: bytes) -> None:
    assert not sets_gateway_cookie(value)


@pytest.mark.parametrize("name", ["Location", "Content-Location"])
def test_an_address_of_the_upstream_itself_becomes_a_path(name: str) -> None:
    assert got((name, "http://app:3000/login?next=%2F#top")) == [(name.lower().encode(), b"/login?next=%2F#top"), OWN]
    assert got((name, "https://elsewhere.example/")) == [(name.lower().encode(), b"https://elsewhere.example/"), OWN]


def test_a_host_that_only_the_route_knows_never_reaches_the_browser() -> None:
    line = ("Location", "http://internal.example/x")
    assert got(line, upstream_host="internal.example") == [(b"location", b"/x"), OWN]
    assert got(line) == [(b"location", b"http://internal.example/x"), OWN]


@pytest.mark.parametrize("upstream_host", ["request", "api.example.com"])
def test_a_redirect_of_the_public_host_to_https_is_left_alone(upstream_host: str) -> None:
    """Made relative it would lead back to where it came from."""
    line = ("Location", "https://api.example.com/x")
    assert got(line, upstream_host=upstream_host) == [(b"location", b"https://api.example.com/x"), OWN]
