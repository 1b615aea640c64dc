"""What an upstream gets of a request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from common.identity.principal import Principal
from common.identity.signature import IdentitySigner, verify_identity
from common.routetable.compiled import Upstream
from dataplane.errors import GatewayError
from dataplane.forwarding.context import ForwardingContext
from dataplane.forwarding.policy import PROXY_CLAIMS
from dataplane.forwarding.request_headers import request_headers
from tests.support.forwarding import CONTEXT, TRACE, UPSTREAM, forwarded, request, route

SIGNER = IdentitySigner()
ALICE = Principal("alice", "alice@example.com", ("dev", "admin"))
WORKSPACE = "11111111-1111-4111-8111-111111111111"


def sent(*lines: tuple[str, str], upstream: Upstream = UPSTREAM, **changed: Any) -> list[tuple[bytes, bytes]]:
    return request_headers(forwarded(request(*lines), of=changed.pop("route", None), **changed), upstream, "/", SIGNER)


def values(headers: list[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    return [value for key, value in headers if key == name]


def test_an_anonymous_request_gets_exactly_the_gateways_own_headers() -> None:
    assert sent(("Accept", "*/*")) == [
        (b"host", b"app:3000"),
        (b"x-request-id", b"req-1"),
        (b"traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        (b"x-forwarded-for", b"203.0.113.9"),
        (b"x-forwarded-proto", b"https"),
        (b"x-forwarded-host", b"api.example.com"),
        (b"accept", b"*/*"),
    ]


def test_an_authenticated_request_gets_the_identity_too() -> None:
    headers = sent(principal=ALICE, workspace_id=WORKSPACE)
    assert headers[-6:-1] == [
        (b"x-gateway-authenticated", b"true"),
        (b"x-gateway-user-id", b"alice"),
        (b"x-gateway-email", b"alice@example.com"),
        (b"x-gateway-roles", b"admin,dev"),
        (b"x-gateway-workspace-id", WORKSPACE.encode()),
    ]
    name, signature = headers[-1]
    assert name == b"x-gateway-signature"
    assert signature.startswith(b"v5=")


IDENTITY_CLAIMS = (
    ("X-Gateway-Authenticated", "true"),
    ("X-Gateway-User-Id", "root"),
    ("X-Gateway-User", "root"),
    ("X-Gateway-Email", "root@example.com"),
    ("X-Gateway-Roles", "admin"),
    ("X-Gateway-Workspace-Id", "other"),
    ("X-Gateway-Internal", "1"),
    ("X-Gateway-Signature", "v5=a..b"),
    ("X-Gateway-Anything", "1"),
    ("X_Gateway_User_Id", "root"),
    ("X-Gateway.Roles", "admin"),
    ("X-Forwarded-User", "root"),
    ("X_Forwarded_Groups", "admin"),
    ("X-Remote-User", "root"),
    ("Remote-User", "root"),
)


@pytest.mark.parametrize("principal", [None, Principal("bob")])
def test_identity_that_a_caller_sends_is_gone_for_everybody(principal: Principal | None) -> None:
    """B23: a caller without roles or email, and one without a login, kept the headers that it had sent."""
    assert sent(*IDENTITY_CLAIMS, principal=principal)[:-1] == sent(principal=principal)[:-1]
    assert values(sent(*IDENTITY_CLAIMS, principal=principal), b"x-gateway-roles") == []
    assert values(sent(*IDENTITY_CLAIMS, principal=principal), b"x-gateway-email") == []


def test_no_single_value_of_the_gateway_is_ever_repeated() -> None:
    claims = (*IDENTITY_CLAIMS, ("Traceparent", "x"), ("X-Request-Id", "y"), ("X-Forwarded-For", "1.2.3.4"))
    headers = sent(*claims, *claims, ("Cookie", "a=1"), ("Cookie", "b=2"), principal=ALICE, workspace_id=WORKSPACE)
    names = [name for name, _ in headers]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", sorted(PROXY_CLAIMS))
def test_no_claim_of_a_proxy_passes_from_a_trusted_proxy_either(name: bytes) -> None:
    trusted = replace(CONTEXT, trusted=True)
    assert sent((name.decode(), "192.0.2.1"), forwarding=trusted) == sent(forwarding=trusted)


def test_forwarding_headers_are_the_contexts_and_no_others() -> None:
    """B25: one forgotten name was enough."""
    claims = ["For", "Host", "Proto", "Port", "Prefix", "Server", "Ssl", "Scheme", "By", "Path"]
    headers = sent(
        *((f"X-Forwarded-{name}", "192.0.2.1") for name in claims),
        ("Forwarded", "for=192.0.2.1"),
        ("X-Real-IP", "192.0.2.1"),
        ("X-Forwarded", "192.0.2.1"),
    )
    assert headers == sent()


def test_headers_of_the_callers_connection_end_here() -> None:
    """R05."""
    headers = sent(
        ("Connection", "close, X-Custom"),
        ("Connection", "x-other"),
        ("X-Custom", "1"),
        ("X-Other", "2"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Connection", "keep-alive"),
        ("Proxy-Authorization", "Basic c2VjcmV0"),
        ("TE", "trailers"),
        ("Trailer", "X-Checksum"),
        ("Upgrade", "h2c"),
        ("HTTP2-Settings", "AAMAAABkAAQAAP__"),
        ("Transfer-Encoding", "chunked"),
        ("Content-Length", "5"),
        ("Expect", "100-continue"),
        ("X-Kept", "3"),
    )
    assert headers == sent(("X-Kept", "3"))


def test_connection_can_drop_nothing_that_the_gateway_writes() -> None:
    named = "host, x-request-id, traceparent, x-forwarded-for, x-gateway-user-id, x-gateway-signature, x-gateway-roles"
    expected = sent(principal=ALICE)
    headers = sent(("Connection", named), principal=ALICE)
    assert headers[:-1] == expected[:-1]
    assert headers[-1][0] == b"x-gateway-signature"


def test_a_credential_that_connection_names_is_not_forwarded() -> None:
    headers = sent(
        ("Connection", "authorization, cookie"),
        ("Authorization", "Bearer a"),
        ("Cookie", "a=1"),
        route=route(forward_authorization=True),
    )
    assert headers == sent()


def test_the_callers_credential_stays_here_by_default() -> None:
    assert values(sent(("Authorization", "Bearer secret")), b"authorization") == []


def test_a_route_may_forward_the_callers_credential() -> None:
    headers = sent(("Authorization", "Bearer secret"), route=route(forward_authorization=True))
    assert values(headers, b"authorization") == [b"Bearer secret"]


def test_a_version_1_upstream_gets_its_own_credential() -> None:
    upstream = replace(UPSTREAM, authorization="Basic YTpi")
    assert values(sent(("Authorization", "Bearer a"), upstream=upstream), b"authorization") == [b"Basic YTpi"]
    assert values(sent(upstream=upstream), b"authorization") == [b"Basic YTpi"]


def test_where_the_callers_credential_is_forwarded_the_upstreams_own_never_takes_its_place() -> None:
    """A caller without a credential would act with the gateway's."""
    upstream = replace(UPSTREAM, authorization="Basic YTpi")
    forwards = route(forward_authorization=True)
    assert values(sent(upstream=upstream, route=forwards), b"authorization") == []
    assert values(sent(("Authorization", "Bearer a"), upstream=upstream, route=forwards), b"authorization") == [
        b"Bearer a"
    ]


def test_cookies_are_one_line_without_the_gateways() -> None:
    """B32."""
    headers = sent(("Cookie", "a=1; gateway_session=s"), ("Cookie", "gateway_oidc_state=t; b=2"))
    assert values(headers, b"cookie") == [b"a=1; b=2"]
    assert values(sent(("Cookie", "gateway_session=s")), b"cookie") == []


@pytest.mark.parametrize(
    ("upstream_host", "host"),
    [("upstream", b"app:3000"), ("request", b"api.example.com"), ("internal.example", b"internal.example")],
)
def test_the_route_says_which_host_the_upstream_sees(upstream_host: str, host: bytes) -> None:
    headers = sent(("X-Forwarded-Host", "evil.example"), route=route(upstream_host=upstream_host))
    assert values(headers, b"host") == [host]
    assert values(headers, b"x-forwarded-host") == [b"api.example.com"]


def test_an_ipv6_upstream_keeps_its_brackets() -> None:
    upstream = replace(UPSTREAM, host="::1", authority="[::1]:9000")
    assert values(sent(upstream=upstream), b"host") == [b"[::1]:9000"]


def test_a_request_without_a_host_reaches_the_upstream_under_its_own() -> None:
    nowhere = ForwardingContext("203.0.113.9", "http", "", None, b"203.0.113.9", False)
    headers = sent(forwarding=nowhere, route=route(upstream_host="request"), principal=ALICE)
    assert values(headers, b"host") == [b"app:3000"]
    assert values(headers, b"x-forwarded-host") == []
    verify_identity(SIGNER.public_key_pem, headers, method="GET", path="/", query="")


def test_a_caller_without_an_address_has_no_chain() -> None:
    headers = sent(forwarding=replace(CONTEXT, client="", chain=b""))
    assert values(headers, b"x-forwarded-for") == []


def test_tracestate_is_sent_where_the_trace_goes_on() -> None:
    assert values(sent(("Tracestate", "a=1")), b"tracestate") == []
    assert values(sent(("Tracestate", "a=1"), trace=replace(TRACE, tracestate=b"a=1")), b"tracestate") == [b"a=1"]


def test_ordinary_headers_keep_their_order_their_repeats_and_their_bytes() -> None:
    lines = (("Accept", "a"), ("X-A", "1"), ("accept", "b"), ("X-A", "caf\u00e9 \t;"), ("Accept-Encoding", "gzip"))
    kept = sent(*lines)[-5:]
    assert kept == [(n.lower().encode(), v.encode("latin-1")) for n, v in lines]


def test_nothing_is_added_for_the_caller() -> None:
    """R26: an Accept-Encoding of the gateway's own would change what the caller gets."""
    names = {name for name, _ in sent()}
    assert names == {
        b"host",
        b"x-request-id",
        b"traceparent",
        *(b"x-forwarded-" + n for n in (b"for", b"proto", b"host")),
    }


def test_a_value_that_could_end_a_line_never_passes() -> None:
    lines = (("X-A", "1\r\nX-Gateway-User-Id: root"), ("X-B", "\x00"), ("X-C", "ok"), ("Cookie", "a=1\r\nX: y"))
    headers = sent(*lines, ("Authorization", "Bearer\na"), route=route(forward_authorization=True))
    assert headers == sent(("X-C", "ok"), ("Cookie", "a=1X: y"))


@pytest.mark.parametrize(
    "subject", ["", "a\nb", "a\x00", "a\x7f", "a\x85b", "x" * 513, " alice", "alice ", "\ud800", " "]
)
def test_a_subject_that_no_header_can_carry_fails_the_request(subject: str) -> None:
    """§7.1: rewriting it could make one caller another."""
    with pytest.raises(GatewayError) as raised:
        sent(principal=Principal(subject))
    assert raised.value.code == "internal_error"
    assert subject.strip() == "" or subject not in raised.value.detail


def test_the_longest_subject_is_written_unchanged() -> None:
    subject = "\u00e9" * 512
    assert values(sent(principal=Principal(subject)), b"x-gateway-user-id") == [subject.encode()]


def test_the_signature_covers_the_request_as_the_upstream_receives_it() -> None:
    head = request(method="POST", path="/ws/1", query="?x=1")
    x = forwarded(head, principal=ALICE, workspace_id=WORKSPACE)
    headers = request_headers(x, UPSTREAM, "/base/ws/1", SIGNER)
    told = {"method": "POST", "path": "/base/ws/1", "query": "?x=1"}
    fields = verify_identity(SIGNER.public_key_pem, headers, **told)
    assert (fields.subject, fields.workspace_id, fields.roles) == ("alice", WORKSPACE, ("admin", "dev"))


def test_each_upstream_of_a_request_gets_headers_of_its_own() -> None:
    first = UPSTREAM
    second = replace(UPSTREAM, host="b", authority="b:3000", base_path="/v2", authorization="Basic YTpi")
    x = forwarded(request(), principal=ALICE)
    one, two = request_headers(x, first, "/", SIGNER), request_headers(x, second, "/v2/", SIGNER)
    assert values(one, b"host") == [b"app:3000"]
    assert values(two, b"host") == [b"b:3000"]
    assert values(one, b"authorization") == []
    verify_identity(SIGNER.public_key_pem, one, method="GET", path="/", query="")
    verify_identity(SIGNER.public_key_pem, two, method="GET", path="/v2/", query="")
    assert request_headers(x, first, "/", SIGNER) == one
