"""Another site cannot use the session cookie to change anything (§8, §10)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from dataplane.crosssite import CrossSiteGuard, parse_origin
from dataplane.errors import GatewayError
from dataplane.exchange import Downstream, Exchange
from dataplane.metrics import GatewayMetrics
from tests.support.forwarding import CONTEXT, match, request

OWN = "https://api.example.com"
LISTED = "https://console.example.com"
FOREIGN = "https://evil.example"
COOKIE = ("Cookie", "a=1; gateway_session=s")

WRITES = ["POST", "PUT", "PATCH", "DELETE", "patch", "delete", "MKCOL", "PROPPATCH", "ANYTHING"]
READS = ["GET", "HEAD", "OPTIONS", "TRACE"]


class Guarded:
    """A guard, and requests to it. `refused` is what the step does with a request that carries the session cookie."""

    def __init__(self, *, strict: bool = False, allowed: tuple[str, ...] = (LISTED,)) -> None:
        self.metrics = GatewayMetrics()
        self.guard = CrossSiteGuard(allowed, strict=strict, metrics=self.metrics)

    async def refused(
        self, *lines: tuple[str, str], method: str = "POST", upgrade: str = "", context: Any = CONTEXT, **fields: Any
    ) -> bool:
        return await self.step(exchange(COOKIE, *lines, method=method, upgrade=upgrade, context=context, **fields))

    async def step(self, x: Exchange) -> bool:
        try:
            self.guard(x)
        except GatewayError as error:
            return error.code == "cross_site_request"
        return False


def exchange(
    *lines: tuple[str, str], method: str = "POST", upgrade: str = "", context: Any = CONTEXT, **fields: Any
) -> Exchange:
    head = request(*lines, method=method, upgrade=upgrade)
    x = Exchange(head, cast("Downstream", None), peer="203.0.113.9", secure=True, started_at=0.0)
    x.forwarding = context
    x.match = x.matched = match(**fields)
    return x


def site(value: str) -> tuple[str, str]:
    return ("Sec-Fetch-Site", value)


def origin(value: str) -> tuple[str, str]:
    return ("Origin", value)


@pytest.mark.parametrize("method", WRITES)
@pytest.mark.parametrize("strict", [True, False])
async def test_a_cross_site_request_that_may_change_state_is_refused(method: str, *, strict: bool) -> None:
    guarded = Guarded(strict=strict)
    assert await guarded.refused(site("cross-site"), method=method)
    assert await guarded.refused(site("cross-site"), origin(FOREIGN), method=method)
    assert await guarded.refused(site("cross-site"), origin(LISTED), method=method)
    assert guarded.metrics.auth_failures.value("app", "cross_site") == 3


@pytest.mark.parametrize("method", READS)
async def test_a_cross_site_navigation_is_refused_only_where_it_is_strict(method: str) -> None:
    assert not await Guarded().refused(site("cross-site"), method=method)
    assert not await Guarded().refused(site("cross-site"), origin(FOREIGN), method=method)
    assert await Guarded(strict=True).refused(site("cross-site"), method=method)


async def test_a_route_may_be_stricter_or_laxer_than_the_deployment() -> None:
    assert await Guarded().refused(site("cross-site"), method="GET", cross_site="strict")
    assert not await Guarded(strict=True).refused(site("cross-site"), method="GET", cross_site="navigation")
    assert await Guarded().refused(site("cross-site"), method="POST", cross_site="navigation")


@pytest.mark.parametrize("sent", ["same-origin", "same-site", "none", None])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_within_the_site_the_origin_decides_what_may_change_state(sent: str | None, method: str) -> None:
    lines = [] if sent is None else [site(sent)]
    guarded = Guarded()
    assert not await guarded.refused(*lines, method=method)
    assert not await guarded.refused(*lines, origin(OWN), method=method)
    assert not await guarded.refused(*lines, origin(LISTED), method=method)
    assert await guarded.refused(*lines, origin(FOREIGN), method=method)
    assert await guarded.refused(*lines, origin("null"), method=method)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("sent", ["same-origin", "same-site", "none"])
async def test_a_sibling_of_the_same_site_may_read(sent: str, *, strict: bool) -> None:
    assert not await Guarded(strict=strict).refused(site(sent), origin(FOREIGN), method="GET")


async def test_without_a_site_header_a_foreign_origin_counts_as_cross_site_where_it_is_strict() -> None:
    assert not await Guarded().refused(origin(FOREIGN), method="GET")
    assert await Guarded(strict=True).refused(origin(FOREIGN), method="GET")
    assert not await Guarded(strict=True).refused(origin(OWN), method="GET")


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_a_request_with_neither_header_comes_from_no_browser(method: str, *, strict: bool) -> None:
    assert not await Guarded(strict=strict).refused(method=method)


@pytest.mark.parametrize("value", ["", "Cross-Site", "cross-site ", "same-origin, cross-site", "SAME-ORIGIN", "other"])
async def test_a_site_that_no_browser_names_is_cross_site(value: str) -> None:
    assert await Guarded().refused(site(value), origin(OWN))


async def test_two_answers_are_as_bad_as_a_foreign_one() -> None:
    assert await Guarded().refused(site("same-origin"), site("same-origin"))
    assert await Guarded().refused(origin(OWN), origin(OWN))
    assert await Guarded().refused(origin(f"{OWN} {OWN}"))


@pytest.mark.parametrize(
    "value",
    [
        "null",
        "",
        "*",
        "https://evil-api.example.com",
        "https://api.example.com.evil.example",
        "https://api.example.com@evil.example",
        "https://user@api.example.com",
        "https://api.example.com:444",
        "http://api.example.com",
        "https://api.example.com.",
        "https://api.example.com/",
        "https://api.example.com?x",
        "https://api.example.com#x",
        "https://api.example.com:",
        "https://api.example.com:0443x",
        "https://api.example.com\\@evil.example",
        "https://xn--pi-fka.example.com",
        "https://api\u2024example.com",
        "https://\u0430pi.example.com",
        "//api.example.com",
        "api.example.com",
        "https:api.example.com",
        " https://api.example.com",
        "https://api.example.com\t",
        "file://",
    ],
)
async def test_only_exactly_an_allowed_origin_passes(value: str) -> None:
    """R13: a check by suffix, by contained text or without the port."""
    lines = exchange(COOKIE)
    lines.head = replace(lines.head, headers=(*lines.head.headers, (b"origin", value.encode("utf-8"))))
    assert await Guarded(allowed=("https://api.example.com",)).step(lines)


@pytest.mark.parametrize(
    ("scheme", "host", "sent"),
    [
        ("https", "api.example.com", "https://api.example.com"),
        ("https", "API.Example.com:443", "https://api.example.com"),
        ("https", "api.example.com", "https://api.example.com:443"),
        ("http", "api.example.com:80", "http://api.example.com"),
        ("https", "api.example.com:8443", "https://api.example.com:8443"),
        ("https", "api.example.com", "HTTPS://API.EXAMPLE.COM"),
        ("http", "[::1]:8080", "http://[::1]:8080"),
        ("http", "[0:0::1]:80", "http://[::1]"),
        ("http", "localhost:8080", "http://localhost:8080"),
        ("https", "api.example.com.", "https://api.example.com."),
    ],
)
async def test_the_own_origin_is_the_effective_scheme_and_host(scheme: str, host: str, sent: str) -> None:
    context = replace(CONTEXT, scheme=scheme, host=host)
    assert not await Guarded(allowed=()).refused(origin(sent), context=context)


async def test_a_request_without_a_host_has_no_origin_of_its_own() -> None:
    context = replace(CONTEXT, host="", hostname=None)
    assert await Guarded().refused(origin("https://"), context=context)
    assert await Guarded().refused(origin(OWN), context=context)
    assert not await Guarded().refused(origin(LISTED), context=context)


async def test_without_the_session_cookie_nobody_is_asked_for_an_origin() -> None:
    """§8: an API client with a bearer token is no browser, whatever it sends."""
    guarded = Guarded(strict=True)
    for lines in ([], [("Cookie", "a=1; gateway_session2=s")], [("Authorization", "Bearer t")]):
        assert not await guarded.step(exchange(*lines, site("cross-site"), origin(FOREIGN)))


@pytest.mark.parametrize("mode", ["none", "session", "jwt-only", "any"])
async def test_the_cookie_counts_whatever_credential_authenticated_the_request(mode: str) -> None:
    assert await Guarded().refused(("Authorization", "Bearer t"), site("cross-site"), auth_mode=mode)


async def test_an_empty_session_cookie_is_a_session_cookie() -> None:
    assert await Guarded().step(exchange(("Cookie", "gateway_session="), site("cross-site")))


async def test_the_refusal_says_why_to_the_log_alone() -> None:
    with pytest.raises(GatewayError) as raised:
        await Guarded().guard(exchange(COOKIE, site("cross-site"), origin("https://" + "x" * 1_000)))
    assert raised.value.detail.startswith("sec-fetch-site=cross-site origin=https://xxx")
    assert len(raised.value.detail) < 300
    assert "evil" not in raised.value.message


HANDSHAKE: dict[str, Any] = {"method": "GET", "upgrade": "websocket", "websocket": True}


@pytest.mark.parametrize("strict", [True, False])
async def test_a_handshake_with_the_cookie_names_an_allowed_origin(*, strict: bool) -> None:
    """B55: a handshake is a GET, and opens a connection that another site's page could talk through."""
    guarded = Guarded(strict=strict)
    assert not await guarded.refused(origin(OWN), **HANDSHAKE)
    assert not await guarded.refused(origin(LISTED), site("same-site"), **HANDSHAKE)
    for foreign in (FOREIGN, "null", "http://api.example.com", "https://api.example.com:444"):
        assert await guarded.refused(origin(foreign), **HANDSHAKE)
        assert await guarded.refused(origin(foreign), site("same-site"), **HANDSHAKE)
    assert await guarded.refused(**HANDSHAKE)
    assert await guarded.refused(site("same-origin"), **HANDSHAKE)


async def test_a_lax_route_does_not_relax_the_handshake() -> None:
    assert await Guarded().refused(origin(FOREIGN), cross_site="navigation", **HANDSHAKE)


async def test_a_handshake_without_the_cookie_needs_no_origin() -> None:
    guarded = Guarded(strict=True)
    assert not await guarded.step(exchange(("Authorization", "Bearer t"), **HANDSHAKE))
    assert not await guarded.step(exchange(origin(FOREIGN), **HANDSHAKE))


async def test_an_upgrade_that_is_none_for_this_route_is_an_ordinary_request() -> None:
    assert not await Guarded().refused(method="GET", upgrade="websocket", websocket=False)
    assert not await Guarded().refused(method="GET", upgrade="other", websocket=True)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_logout_from_another_site_is_refused_whatever_the_method(method: str) -> None:
    guard = Guarded().guard

    def refuses(*lines: tuple[str, str]) -> bool:
        return guard.refuses(request(*lines, method=method), CONTEXT, state_changing=True, strict=True)

    assert refuses(site("cross-site"))
    assert refuses(origin(FOREIGN))
    assert not refuses(site("none"))
    assert not refuses(site("same-origin"), origin(OWN))
    assert not refuses()


@pytest.mark.parametrize("text", ["null", "https://a.example/", "a.example", "*", "https://*.example", ""])
def test_a_configured_origin_that_is_none_stops_the_start(text: str) -> None:
    with pytest.raises(ValueError, match="not an origin"):
        CrossSiteGuard((text,), strict=False, metrics=GatewayMetrics())


def test_equal_origins_are_equal_values() -> None:
    assert (
        parse_origin("HTTPS://App.Example:443") == parse_origin("https://app.example") == ("https", "app.example", 443)
    )
    assert parse_origin("http://[2001:DB8::0:1]") == ("http", "2001:db8::1", 80)
    assert parse_origin("chrome-extension://abcdef") == ("chrome-extension", "abcdef", None)
    assert parse_origin("https://app.example.") == ("https", "app.example.", 443)
    assert parse_origin("https://app.example.:8443") == ("https", "app.example.", 8443)
