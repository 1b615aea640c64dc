"""Each permissive setting warns, and nothing else does (§12.2)."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import pytest

from common.routetable.warnings import Surroundings, permissive_settings
from tests.support.route_tables import loaded, route

QUIET: dict[str, Any] = {"host": "a.example", "auth": {"mode": "session"}, "accessCheck": True}
WORKSPACE = {"mode": "any", "workspace": {"param": "id", "requireUuid": False}}


USUAL = Surroundings()


def warned(surroundings: Surroundings = USUAL, *, top: Any = None, path: str = "/{id}", **fields: Any) -> list[str]:
    one = route("r", path, **{**QUIET, **fields})
    return [found.setting for found in permissive_settings(loaded(one, **(top or {})), surroundings)]


def test_a_careful_route_warns_of_nothing() -> None:
    assert warned() == []


@pytest.mark.parametrize(
    ("fields", "setting"),
    [
        ({"auth": {"mode": "none"}, "accessCheck": False}, "auth.mode"),
        ({"accessCheck": False}, "accessCheck"),
        ({"auth": WORKSPACE}, "auth.workspace.requireUuid"),
        ({"forwardAuthorization": True}, "forwardAuthorization"),
        ({"accessStaleGraceMs": 1}, "accessStaleGraceMs"),
        ({"host": "*"}, "match.host"),
        ({"maxBodyBytes": 0}, "maxBodyBytes"),
        ({"rateLimits": {"client": {"max": 0}}}, "rateLimits"),
        ({"upstream": "http://app.example.com"}, "upstream"),
        ({"upstream": ["https://app.example.com", "http://8.8.8.8"]}, "upstream"),
    ],
)
def test_a_permissive_field_of_a_route_warns(fields: dict[str, Any], setting: str) -> None:
    assert warned(**fields) == [setting]


@pytest.mark.parametrize(
    "upstream",
    [
        "https://app.example.com",
        "http://localhost",
        "http://127.0.0.1",
        "http://[::1]",
        "http://10.1.2.3",
        "http://172.31.0.1",
        "http://192.168.0.1",
        "http://169.254.1.1",
        "http://[fd00::1]",
        "http://[fe80::1]",
        "http://app",
        "http://app.internal",
        "http://printer.local",
        "http://app.ns.svc",
    ],
)
def test_plain_http_inside_the_private_network_does_not_warn(upstream: str) -> None:
    assert warned(upstream=upstream) == []


@pytest.mark.parametrize(
    "upstream", ["http://172.32.0.1", "http://11.0.0.1", "http://[2001:db8::1]", "http://internal.test"]
)
def test_plain_http_to_elsewhere_warns(upstream: str) -> None:
    assert warned(upstream=upstream) == ["upstream"]


def test_cross_site_navigation_warns_only_in_a_strict_deployment() -> None:
    assert warned(crossSite="navigation") == []
    assert warned(Surroundings(csrf_strict=True), crossSite="navigation") == ["crossSite"]
    assert warned(Surroundings(csrf_strict=True), crossSite="strict") == []


def test_limiters_warn_only_where_every_one_that_applies_is_off() -> None:
    off = {"client": {"max": 0}}
    assert warned(Surroundings(principal_limit_max=5), rateLimits=off) == []
    assert warned(rateLimits={**off, "principal": {"max": 5}}) == []
    assert warned(Surroundings(route_limit_max=0)) == ["rateLimits"]
    assert warned(Surroundings(route_limit_max=0), rateLimits={"client": {"max": 1}}) == []
    # Nobody is authenticated, so nobody has a principal's budget.
    open_route = {"auth": {"mode": "none"}, "accessCheck": False, "rateLimits": off}
    assert warned(Surroundings(principal_limit_max=5), **open_route) == ["auth.mode", "rateLimits"]


def test_a_grace_on_a_route_that_asks_access_nothing_says_nothing() -> None:
    assert warned(accessCheck=False, accessStaleGraceMs=1_000) == ["accessCheck"]


@pytest.mark.parametrize(
    ("text", "warns"), [("10.0.0.0/28", False), ("10.0.0.0/27", True), ("fd00::/124", False), ("::/0", True)]
)
def test_a_trusted_range_above_sixteen_addresses_warns(text: str, warns: bool) -> None:
    assert (warned(top={"trustedProxies": [text]}) == ["trustedProxies"]) is warns


def test_the_environments_trusted_ranges_are_judged_in_place_of_the_tables() -> None:
    wide = {"trustedProxies": ["10.0.0.0/8"]}
    assert warned(Surroundings(trusted_proxies=(ip_network("10.0.0.1/32"),)), top=wide) == []
    assert warned(Surroundings(trusted_proxies=(ip_network("10.0.0.0/8"),))) == ["GATEWAY_TRUSTED_PROXIES"]


def test_revalidation_that_is_off_warns_where_there_are_websockets() -> None:
    off = Surroundings(revalidate_interval_ms=0)
    assert warned(off) == []
    assert warned(off, websocket=True) == ["GATEWAY_WS_REVALIDATE_INTERVAL_MS"]


CLOSED: dict[str, Any] = {"auth": {"mode": "session"}, "accessCheck": True, "host": "a.example"}


def by_method(*routes: Any) -> dict[str, str]:
    found = permissive_settings(loaded(*routes), USUAL)
    return {each.route_id: each.message for each in found if each.setting == "match.methods"}


def test_methods_that_a_closed_route_leaves_to_an_open_one_are_told() -> None:
    """Whoever may not GET the page may POST to it: nobody sees that from the route itself."""
    told = by_method(route("page", "/a/{id}", methods=["GET", "HEAD"], **CLOSED), route("site", "/"))
    assert told == {"page": "DELETE, OPTIONS, PATCH, POST, PUT to this path goes to route site, which anybody may call"}


def test_methods_that_an_open_route_takes_from_a_closed_one_are_told() -> None:
    """The method comes before the path: GET of /admin is for the shorter route that lists GET."""
    told = by_method(route("admin", "/admin/", **CLOSED), route("site", "/", host="a.example", methods=["GET"]))
    assert told == {"admin": "GET to this path goes to route site, which anybody may call"}


@pytest.mark.parametrize(
    "other",
    [
        route("other", "/", methods=["GET"], **CLOSED),
        route("other", "/", host="b.example", methods=["GET"]),
        route("other", "/", host="*", methods=["GET"]),
        # One path whose methods are divided is meant so.
        route("other", "/a/", host="a.example", methods=["GET"]),
        # And so is an open part of a closed path.
        route("other", "/a/public/", host="a.example", methods=["GET"]),
    ],
)
def test_nothing_is_told_where_no_path_is_opened_by_its_method(other: Any) -> None:
    assert by_method(route("closed", "/a/", **CLOSED), other) == {}


def test_a_closed_route_whose_other_methods_go_nowhere_warns_of_nothing() -> None:
    assert by_method(route("closed", "/a/", methods=["GET"], **CLOSED), route("open", "/b/", host="a.example")) == {}
