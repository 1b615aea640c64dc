"""Which names pass, and that the documentation lists what does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dataplane.forwarding import policy
from dataplane.forwarding.policy import connection_names, folded, passes_downstream, passes_upstream, without_unsafe

GUIDE = Path(__file__).parents[3] / "docs" / "upstream-identity.md"

# §7.1: "Removed in both directions, never configurable".
NEVER = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "host",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-server",
    "x-forwarded-ssl",
    "x-forwarded-anything",
    "x-real-ip",
    "forwarded",
    "x-gateway-user",
    "x-gateway-user-id",
    "x-gateway-email",
    "x-gateway-roles",
    "x-gateway-workspace",
    "x-gateway-workspace-id",
    "x-gateway-internal",
    "x-gateway-authenticated",
    "x-gateway-signature",
    "x-forwarded-user",
    "x-forwarded-email",
    "x-forwarded-groups",
    "x-remote-user",
    "x-remote-email",
]

ORDINARY = [
    "accept",
    "accept-encoding",
    "content-type",
    "content-encoding",
    "user-agent",
    "range",
    "if-none-match",
    "origin",
    "referer",
    "sec-fetch-site",
    "access-control-request-method",
    "x-requested-with",
    "x-custom",
    "via",
    "x-csrf-token",
    "sec-websocket-protocol",
    "x-http-method-override",
    "gateway-user",
    "x-gatewayuser",
    "forwarded-for",
    "x-forward",
]


@pytest.mark.parametrize("name", NEVER)
def test_a_reserved_name_passes_in_neither_direction(name: str) -> None:
    assert not passes_upstream(name.encode())
    assert not passes_downstream(name.encode())


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_name_passes_in_both_directions(name: str) -> None:
    assert passes_upstream(name.encode())
    assert passes_downstream(name.encode())


@pytest.mark.parametrize(
    "name",
    [
        "X_Gateway.User-Id",
        "x_gateway_user_id",
        "X_FORWARDED_FOR",
        "x.real.ip",
        "x_forwarded-User",
        "Transfer_Encoding",
        "content.length",
        "x_original_url",
        "True_Client_IP",
        "X_Request_Id",
        "x!gateway~user'id",
        "x|forwarded*for",
        "Remote.User",
    ],
)
def test_a_spelling_that_some_server_reads_as_a_reserved_name_is_that_name(name: str) -> None:
    """B22: underscores survived the removal, and the upstream read them as dashes."""
    assert not passes_upstream(name.encode())
    assert not passes_upstream(name.lower().encode())


@pytest.mark.parametrize("name", sorted(policy.PROXY_CLAIMS))
def test_what_only_a_proxy_may_claim_is_removed_from_requests_alone(name: bytes) -> None:
    """B25."""
    assert not passes_upstream(name)
    assert passes_downstream(name)


@pytest.mark.parametrize("name", [b"authorization", b"cookie", b"traceparent", b"tracestate"])
def test_what_the_gateway_rewrites_is_not_copied_from_a_request(name: bytes) -> None:
    assert not passes_upstream(name)
    assert passes_downstream(name)


@pytest.mark.parametrize("name", [b"", b"a b", b"a:b", b"a\r\nx", b"a\x00", b"caf\xc3\xa9", b"a(b)", b"a,b", b' "a"'])
def test_a_name_that_is_no_token_passes_in_neither_direction(name: bytes) -> None:
    assert not passes_upstream(name)
    assert not passes_downstream(name)


@pytest.mark.parametrize("value", [b"a\r", b"\n", b"x\r\nset-cookie: a=1", b"\x00"])
def test_a_value_that_could_end_a_line_is_dropped_and_the_others_stay(value: bytes) -> None:
    assert without_unsafe([(b"a", b"1"), (b"b", value), (b"c", b"\t\xff")]) == [(b"a", b"1"), (b"c", b"\t\xff")]


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([], set()),
        ([b"close"], set()),
        ([b"Keep-Alive"], set()),
        ([b"keep-alive, Upgrade"], set()),
        ([b"close, X-Custom"], {b"x-custom"}),
        ([b"X-A", b" x-b ,,\tX-C\t"], {b"x-a", b"x-b", b"x-c"}),
    ],
)
def test_connection_names_headers_of_this_connection(values: list[bytes], names: set[bytes]) -> None:
    assert connection_names(values) == names


def test_folding_reads_every_mark_as_a_dash_and_nothing_else_changes() -> None:
    assert folded(b"X_Gateway.User-Id") == b"x-gateway-user-id"
    assert folded(b"a!b#c$d%e&f'g*h+i^j`k|l~m") == b"a-b-c-d-e-f-g-h-i-j-k-l-m"
    assert folded(b"0azAZ9") == b"0azaz9"


def test_every_name_of_the_lists_is_folded_itself() -> None:
    names = policy.HOP_BY_HOP | policy.FRAMING | policy.RESERVED | policy.PROXY_CLAIMS | policy.WRITTEN
    assert all(folded(name) == name for name in names)


def test_the_guide_lists_every_name_that_never_reaches_an_application() -> None:
    section = GUIDE.read_text().partition("## What never reaches your application")[2].partition("\n## ")[0]
    listed = {name.encode() for name in re.findall(r"`([a-z][a-z0-9-]+)`", section)}
    names = policy.HOP_BY_HOP | policy.FRAMING | policy.RESERVED | policy.PROXY_CLAIMS
    assert names <= listed
    assert set(policy.RESERVED_PREFIXES) <= listed
    known = names | set(policy.RESERVED_PREFIXES) | policy.WRITTEN
    own = {b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"x-http-method-override"}
    assert listed - known == own
