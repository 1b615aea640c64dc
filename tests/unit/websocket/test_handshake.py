"""The two handshakes: what a caller must send, what the upstream is asked, what it may answer (RFC 6455 §4)."""

from __future__ import annotations

import pytest

from dataplane.errors import GatewayError
from dataplane.http1.heads import ProtocolError, RequestHead, ResponseHead
from dataplane.websocket.handshake import (
    Acceptance,
    Offer,
    accept_of,
    caller_response,
    new_key,
    read_acceptance,
    read_offer,
    upstream_request,
)
from tests.support.forwarding import request, response

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
OURS = new_key(bytes(range(16)))


def handshake(*lines: tuple[str, str], key: str = KEY, version: str = "13", method: str = "GET") -> RequestHead:
    own = (("Sec-WebSocket-Key", key), ("Sec-WebSocket-Version", version))
    return request(*own, *lines, method=method, upgrade="websocket")


def refused(head: RequestHead) -> GatewayError:
    with pytest.raises(GatewayError) as refusal:
        read_offer(head)
    return refusal.value


def test_the_accept_value_is_that_of_the_rfc() -> None:
    assert accept_of(KEY.encode()) == b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def test_a_plain_handshake_offers_nothing() -> None:
    assert read_offer(handshake()) == Offer(KEY.encode(), (), b"")


@pytest.mark.parametrize("version", ["8", "0", "14", "013", "13, 8", ""])
def test_another_version_is_told_which_one_is_spoken(version: str) -> None:
    error = refused(handshake(version=version))
    assert (error.code, error.headers) == ("upgrade_required", ((b"sec-websocket-version", b"13"),))


def test_no_version_and_two_versions_are_no_version_13() -> None:
    assert refused(request(("Sec-WebSocket-Key", KEY))).code == "upgrade_required"
    assert refused(handshake(("Sec-WebSocket-Version", "13"))).code == "upgrade_required"


@pytest.mark.parametrize(
    "key",
    ["", "x", "dGhlIHNhbXBsZSBub25j", "dGhlIHNhbXBsZSBub25jZQ", "dGhlIHNhbXBsZSBub25jZSE=",
     "dGhlIHNhbXBsZ!!Bub25jZQ=="],
)  # fmt: skip
def test_a_key_that_is_not_sixteen_bytes_is_a_bad_request(key: str) -> None:
    assert refused(handshake(key=key)).code == "bad_request"


def test_no_key_and_two_keys_are_bad_requests() -> None:
    assert refused(request(("Sec-WebSocket-Version", "13"))).code == "bad_request"
    assert refused(handshake(("Sec-WebSocket-Key", KEY))).code == "bad_request"


@pytest.mark.parametrize("method", ["POST", "HEAD", "get"])
def test_only_get_opens_a_websocket(method: str) -> None:
    assert refused(handshake(method=method)).code == "bad_request"


def test_subprotocols_pass_whole_and_in_order_from_however_many_lines() -> None:
    head = handshake(("Sec-WebSocket-Protocol", "b, a"), ("Sec-WebSocket-Protocol", "c,, A"))
    assert read_offer(head).subprotocols == (b"b", b"a", b"c", b"A")


@pytest.mark.parametrize("value", ["a b", "a;b", "a, é", '"a"'])
def test_a_subprotocol_that_is_no_token_is_a_bad_request(value: str) -> None:
    assert refused(handshake(("Sec-WebSocket-Protocol", value))).code == "bad_request"


@pytest.mark.parametrize(
    ("values", "deflate"),
    [
        (("permessage-deflate",), "permessage-deflate"),
        (("permessage-deflate; client_max_window_bits",), "permessage-deflate; client_max_window_bits"),
        (('permessage-deflate ;a="10"; b',), 'permessage-deflate ;a="10"; b'),
        (("x-webkit-deflate-frame, permessage-deflate; a=1",), "permessage-deflate; a=1"),
        (("permessage-deflate; a=1, permessage-deflate",), "permessage-deflate; a=1, permessage-deflate"),
        (("permessage-deflate; a=1", "foo, Permessage-Deflate"), "permessage-deflate; a=1, Permessage-Deflate"),
        (("foo", "bar; x"), ""),
        (("", ","), ""),
    ],
)
def test_offers_of_deflate_pass_as_they_were_sent_and_others_are_dropped(values: tuple[str, ...], deflate: str) -> None:
    head = handshake(*(("Sec-WebSocket-Extensions", value) for value in values))
    assert read_offer(head).deflate == deflate.encode()


@pytest.mark.parametrize("value", ["permessage-deflate;", "a b", "a; b=", 'a; b="c', "a; b=c d", 'a; b="c d"'])
def test_a_malformed_extension_is_a_bad_request(value: str) -> None:
    assert refused(handshake(("Sec-WebSocket-Extensions", value))).code == "bad_request"


def test_a_long_list_costs_one_pass() -> None:
    hostile = "permessage-deflate" + "; a" * 8_000 + ";" + " " * 8_000 + "!\x00"
    assert refused(handshake(("Sec-WebSocket-Extensions", hostile))).code == "bad_request"


def test_the_upstream_is_asked_with_a_key_of_the_gateways_and_the_callers_offers() -> None:
    headers = [
        (b"host", b"app"),
        (b"sec-websocket-key", KEY.encode()),
        (b"Sec_WebSocket.Extensions", b"x"),
        (b"sec-websocket-protocol", b"a"),
        (b"sec-websocket-version", b"13"),
        (b"origin", b"https://app.example.com"),
    ]
    offer = Offer(KEY.encode(), (b"a", b"b"), b"permessage-deflate; x=1")
    assert upstream_request(headers, offer, OURS) == [
        (b"host", b"app"),
        (b"origin", b"https://app.example.com"),
        (b"connection", b"Upgrade"),
        (b"upgrade", b"websocket"),
        (b"sec-websocket-version", b"13"),
        (b"sec-websocket-key", OURS),
        (b"sec-websocket-protocol", b"a, b"),
        (b"sec-websocket-extensions", b"permessage-deflate; x=1"),
    ]
    bare = upstream_request([], Offer(KEY.encode(), (), b""), OURS)
    assert [name for name, _ in bare] == [b"connection", b"upgrade", b"sec-websocket-version", b"sec-websocket-key"]


OFFER = Offer(KEY.encode(), (b"a", b"b"), b"permessage-deflate; client_max_window_bits")


def switched(*lines: tuple[str, str], **replaced: str | None) -> ResponseHead:
    """An upstream's 101; `replaced` changes one of its lines, or leaves it out."""
    own: dict[str, str | None] = {"upgrade": "websocket", "connection": "Upgrade", "accept": accept_of(OURS).decode()}
    own |= replaced
    names = {"upgrade": "Upgrade", "connection": "Connection", "accept": "Sec-WebSocket-Accept"}
    kept = tuple((names[name], value) for name, value in own.items() if value is not None)
    return response(*kept, *lines, status=101)


def accepted(head: ResponseHead, offer: Offer = OFFER) -> Acceptance:
    return read_acceptance(head, offer, OURS)


def test_an_upstream_may_choose_nothing() -> None:
    assert accepted(switched()) == Acceptance(b"", b"")
    assert accepted(switched(upgrade="WebSocket", connection="keep-alive, upgrade")) == Acceptance(b"", b"")


def test_an_upstreams_choice_returns_as_it_was_sent() -> None:
    head = switched(
        ("Sec-WebSocket-Protocol", "b"), ("Sec-WebSocket-Extensions", "permessage-deflate;client_max_window_bits=10")
    )
    assert accepted(head) == Acceptance(b"b", b"permessage-deflate;client_max_window_bits=10")


@pytest.mark.parametrize(
    "head",
    [
        switched(upgrade=None),
        switched(upgrade="h2c"),
        switched(upgrade="websocket, x"),
        switched(connection=None),
        switched(connection="keep-alive"),
        switched(accept=None),
        switched(accept=accept_of(KEY.encode()).decode()),
        switched(("Sec-WebSocket-Accept", "x")),
        switched(("Sec-WebSocket-Protocol", "c")),
        switched(("Sec-WebSocket-Protocol", "A")),
        switched(("Sec-WebSocket-Protocol", "a, b")),
        switched(("Sec-WebSocket-Protocol", "a"), ("Sec-WebSocket-Protocol", "b")),
        switched(("Sec-WebSocket-Protocol", "")),
        switched(("Sec-WebSocket-Extensions", "foo")),
        switched(("Sec-WebSocket-Extensions", "permessage-deflate, foo")),
        switched(("Sec-WebSocket-Extensions", "permessage-deflate, permessage-deflate")),
        switched(("Sec-WebSocket-Extensions", "permessage-deflate;")),
    ],
    ids=[
        "no upgrade", "another upgrade", "two upgrades", "no connection", "connection without upgrade", "no accept",
        "the accept of the caller's key", "two accepts", "a subprotocol unasked", "a subprotocol in another case",
        "two subprotocols", "two subprotocol lines", "an empty subprotocol", "an extension unasked",
        "an extension more", "deflate twice", "a malformed extension",
    ],
)  # fmt: skip
def test_an_answer_that_a_client_would_fail_is_no_handshake(head: ResponseHead) -> None:
    with pytest.raises(ProtocolError) as failure:
        accepted(head)
    assert failure.value.code == "bad_gateway"


def test_what_was_not_offered_cannot_be_chosen() -> None:
    nothing = Offer(KEY.encode(), (), b"")
    for line in (("Sec-WebSocket-Protocol", "a"), ("Sec-WebSocket-Extensions", "permessage-deflate")):
        with pytest.raises(ProtocolError):
            accepted(switched(line), nothing)


def test_the_caller_is_answered_for_its_own_key_with_the_upstreams_choice() -> None:
    headers = [(b"set-cookie", b"sticky=1"), (b"sec-websocket-accept", b"theirs"), (b"sec-websocket-version", b"13")]
    assert caller_response(headers, OFFER, Acceptance(b"b", b"permessage-deflate")) == [
        (b"set-cookie", b"sticky=1"),
        (b"connection", b"Upgrade"),
        (b"upgrade", b"websocket"),
        (b"sec-websocket-accept", b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        (b"sec-websocket-protocol", b"b"),
        (b"sec-websocket-extensions", b"permessage-deflate"),
    ]
