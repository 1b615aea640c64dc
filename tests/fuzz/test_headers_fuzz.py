"""Whatever a caller or an upstream sends, no header, cookie or address of the gateway's can be forged."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from common.identity.headers import IdentityFields, written_identity
from common.identity.principal import Principal
from common.identity.signature import IdentityInvalid, IdentitySigner, identity_payload, verify_identity
from common.telemetry.request_id import request_id
from common.telemetry.trace import continue_trace
from dataplane.errors import GatewayError
from dataplane.forwarding.context import forwarding_context
from dataplane.forwarding.cookies import GATEWAY_COOKIES, parse_cookies, upstream_cookie
from dataplane.forwarding.location import relative_location
from dataplane.forwarding.policy import HOP_BY_HOP, PROXY_CLAIMS, RESERVED, folded
from dataplane.forwarding.request_headers import request_headers
from dataplane.forwarding.response_headers import response_headers
from dataplane.http1.heads import RequestHead, ResponseHead
from tests.support.forwarding import CONTEXT, UPSTREAM, forwarded, request, route

SIGNER = IdentitySigner()
MARKS = "!#$%&'*+-.^_`|~"
RESERVED_NAMES = sorted(
    name.decode()
    for name in HOP_BY_HOP | RESERVED | PROXY_CLAIMS
    | {b"x-gateway-user-id", b"x-gateway-signature", b"x-gateway-roles", b"x-forwarded-for", b"x-forwarded-user"}
)  # fmt: skip
OWN = {
    b"host",
    b"x-request-id",
    b"traceparent",
    b"x-forwarded-for",
    b"x-forwarded-proto",
    b"x-forwarded-host",
    b"x-gateway-authenticated",
    b"x-gateway-user-id",
    b"x-gateway-signature",
}


@st.composite
def spellings(draw: st.DrawFn) -> bytes:
    """A name that some server reads as a reserved one: other case, other marks."""
    letters = [
        draw(st.sampled_from(MARKS)) if letter == "-" else draw(st.sampled_from([letter, letter.upper()]))
        for letter in draw(st.sampled_from(RESERVED_NAMES))
    ]
    return "".join(letters).encode()


any_name = st.one_of(
    spellings(), st.binary(max_size=24), st.sampled_from([b"accept", b"cookie", b"connection", b"x-a"])
)
any_value = st.one_of(
    st.binary(max_size=40), st.sampled_from([b"x-forwarded-for, host, x-gateway-user-id", b"gateway_session=evil; a=1"])
)
any_headers = st.lists(st.tuples(any_name, any_value), max_size=12)


def head_with(headers: list[tuple[bytes, bytes]]) -> RequestHead:
    plain = request()
    return RequestHead("GET", "/", "", False, (*plain.headers, *headers), plain.authority, 0, True)


def sent(headers: list[tuple[bytes, bytes]], principal: Principal | None) -> list[tuple[bytes, bytes]]:
    return request_headers(forwarded(head_with(headers), principal=principal), UPSTREAM, "/", SIGNER)


@given(any_headers, st.sampled_from([None, Principal("alice")]))
def test_a_name_that_folds_to_a_reserved_one_never_passes(
    headers: list[tuple[bytes, bytes]], principal: Principal | None
) -> None:
    without = sent([], principal)
    written = [header for header in sent(headers, principal) if folded(header[0]) in OWN]
    assert [name for name, _ in written] == [name for name, _ in without]
    assert written[:-1] == without[:-1]
    reserved = {name.encode() for name in RESERVED_NAMES}
    for name, value in sent(headers, principal):
        if name not in OWN:
            assert folded(name) not in reserved
            assert not folded(name).startswith((b"x-gateway-", b"x-forwarded-"))
        assert not set(value) & {0x0D, 0x0A, 0x00}


@given(any_headers)
def test_a_response_never_speaks_in_the_gateways_name(headers: list[tuple[bytes, bytes]]) -> None:
    got = response_headers(
        ResponseHead(200, b"OK", tuple(headers), 0, True),
        route=route(),
        upstream=UPSTREAM,
        forwarding=CONTEXT,
        request_id="req-1",
    ).all()
    assert got[-1] == (b"x-request-id", b"req-1")
    for name, value in got[:-1]:
        assert folded(name) not in HOP_BY_HOP | RESERVED
        assert not folded(name).startswith((b"x-gateway-", b"x-forwarded-"))
        assert not set(value) & {0x0D, 0x0A, 0x00}


pairs = st.lists(
    st.tuples(
        st.text("abc_-gateway_session", min_size=1, max_size=16).filter(
            lambda name: name.encode() not in GATEWAY_COOKIES
        ),
        st.binary(max_size=12).filter(lambda value: b";" not in value and value == value.strip(b" \t")),
    ),
    max_size=6,
)


@given(pairs)
def test_a_cookie_line_that_is_printed_is_read_again_and_forwarded_as_it_is(pairs: list[tuple[str, bytes]]) -> None:
    assume(all(0x20 <= byte != 0x7F for _, value in pairs for byte in value))
    line = b"; ".join(name.encode() + b"=" + value for name, value in pairs)
    assert parse_cookies([line]) == [(name, value.decode("latin-1")) for name, value in pairs]
    assert (upstream_cookie([line]) or b"") == line


@given(
    st.lists(st.one_of(st.binary(max_size=60), st.just(b"gateway_session=s; a=1 ;gateway_oidc_state =x")), max_size=4)
)
def test_what_the_gateway_reads_is_what_it_forwards(lines: list[bytes]) -> None:
    read = parse_cookies(lines)
    forwarded = upstream_cookie(lines)
    expected = [(name, value) for name, value in read if name.encode() not in GATEWAY_COOKIES]
    assert parse_cookies([] if forwarded is None else [forwarded]) == expected
    assert (forwarded is None) == (not expected)


TRUSTED = (ip_network("10.0.0.0/28"),)
addresses = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str)
noise = st.one_of(addresses, st.sampled_from(["unknown", "10.0.0.1", "[::1]:80", "x", "1.2.3.4:5", "_a", '"x"']))


def canonical(text: str) -> str:
    address = ip_address(text)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(address if mapped is None else mapped)


@given(st.lists(noise, max_size=8), st.lists(addresses, min_size=1, max_size=3), st.data())
def test_the_caller_is_never_an_address_that_a_client_chose(
    injected: list[str], seen: list[str], data: st.DataObject
) -> None:
    """`injected` is the client's; each of the `len(seen)` proxies appended the address that it saw."""
    entries = [*injected, *seen]
    cut = data.draw(st.integers(0, len(entries)))
    lines = [part for part in (entries[:cut], entries[cut:]) if part]
    head = head_with([(b"x-forwarded-for", ", ".join(part).encode()) for part in lines])
    found = forwarding_context(head, "10.0.0.2", trusted_proxies=TRUSTED, hops=len(seen), scheme="https")
    assert found.client == canonical(seen[0])
    assert found.chain.decode().split(", ") == [*map(canonical, seen), "10.0.0.2"]


@given(any_headers, st.lists(st.tuples(st.just(b"x-forwarded-for"), st.binary(max_size=60)), max_size=4), addresses)
def test_an_untrusted_peer_changes_nothing_by_its_headers(
    headers: list[tuple[bytes, bytes]], chain: list[tuple[bytes, bytes]], peer: str
) -> None:
    assume(not any(ip_address(canonical(peer)) in network for network in TRUSTED))
    options: dict[str, Any] = {"trusted_proxies": TRUSTED, "hops": 1, "scheme": "https"}
    found = forwarding_context(head_with([*headers, *chain]), peer, **options)
    assert found == forwarding_context(head_with([]), peer, **options)
    assert found.client == canonical(peer)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto"]), st.binary(max_size=80)
        ),
        max_size=5,
    )
)
def test_a_trusted_proxy_that_sends_garbage_breaks_nothing(headers: list[tuple[bytes, bytes]]) -> None:
    found = forwarding_context(head_with(headers), "10.0.0.2", trusted_proxies=TRUSTED, hops=1, scheme="https")
    assert canonical(found.client) == found.client
    assert found.scheme in ("http", "https")
    assert found.host.isascii()
    assert not set(found.host) & set(" \t\r\n/@,")


# Few letters, and those that JSON is made of: values that could run into each other, and pairs that are equal.
texts = st.text('a",:\\[]{}', max_size=3)
fields = st.builds(IdentityFields, texts, texts, texts, st.lists(texts, max_size=2).map(tuple))
requests = st.fixed_dictionaries(dict.fromkeys(("method", "path", "query", "host"), texts))


@given(fields, requests, fields, requests)
def test_no_two_statements_share_a_payload(
    one: IdentityFields, to: dict[str, str], other: IdentityFields, at: dict[str, str]
) -> None:
    same = (one, to) == (other, at)
    assert (identity_payload(one, **to) == identity_payload(other, **at)) is same


@given(
    st.builds(
        Principal, st.text(max_size=30), st.text(max_size=30), st.lists(st.text(max_size=10), max_size=4).map(tuple)
    ),
    st.one_of(st.none(), st.text(max_size=30)),
)
def test_what_is_written_of_a_caller_verifies_as_it_arrives(principal: Principal, workspace: str | None) -> None:
    """A header value loses its outer white space on the way (RFC 9110 §5.5); the signature must hold all the same."""
    prepared: list[tuple[bytes, bytes]]
    try:
        prepared = request_headers(
            forwarded(request(), principal=principal, workspace_id=workspace), UPSTREAM, "/", SIGNER
        )
    except GatewayError:
        return  # a subject that no header can carry
    arrived = [(name, value.strip(b" \t")) for name, value in prepared]
    found = verify_identity(SIGNER.public_key_pem, arrived, method="GET", path="/", query="")
    assert found == written_identity(principal, workspace).fields
    assert found.subject == principal.subject
    assert set(found.roles) <= set(principal.roles)


@given(st.binary(max_size=60))
def test_a_signature_of_any_bytes_is_refused_and_nothing_worse(value: bytes) -> None:
    for signature in (value, b"v5=" + value, b"v5=" + value + b".." + value):
        headers = [(b"x-gateway-user-id", b"root"), (b"x-gateway-signature", signature)]
        try:
            verify_identity(SIGNER.public_key_pem, headers, method="GET", path="/", query="")
        except IdentityInvalid:
            continue
        raise AssertionError("a forged signature was accepted")


@given(st.binary(max_size=80), st.sampled_from([b"", b"http://app:3000", b"//app:3000", b"HTTP:\\\\app.:3000"]))
def test_a_location_that_is_made_relative_stays_on_the_public_host(tail: bytes, start: bytes) -> None:
    value = start + tail
    relative = relative_location(value, UPSTREAM)
    if relative != value:
        assert relative[:1] == b"/"
        assert relative[1:2] not in (b"/", b"\\")
        assert not set(relative) & {0x09, 0x0A, 0x0D}


@given(st.lists(st.binary(max_size=70), max_size=3), st.lists(st.binary(max_size=20), max_size=3))
def test_trace_and_request_id_are_well_formed_whatever_was_sent(sent: list[bytes], state: list[bytes]) -> None:
    trace = continue_trace(sent, state)
    assert continue_trace([trace.traceparent.encode()], []).trace_id == trace.trace_id
    made = request_id(sent)
    assert request_id([made.encode()]) == made
