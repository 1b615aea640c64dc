"""Cookies are read by one rule, and forwarded as they were read."""

from __future__ import annotations

import pytest

from dataplane.forwarding.cookies import parse_cookies, upstream_cookie

SESSION = b"gateway_session=Zm9vYmFy"


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (b"a=1; b=2", [("a", "1"), ("b", "2")]),
        (b"a=1;b=2", [("a", "1"), ("b", "2")]),
        (b"a=1; a=2", [("a", "1"), ("a", "2")]),
        (b"a=x=y==", [("a", "x=y==")]),
        (b"a=", [("a", "")]),
        (b" a = 1 ;\tb\t=\t2\t", [("a", "1"), ("b", "2")]),
        (b'q="v w"', [("q", '"v w"')]),
        (b"a=\xc3\xa9", [("a", "\u00c3\u00a9")]),
        (b"", []),
        (b";;; ;", []),
        (b"alone", []),
        (b"=nameless", []),
        (b"=gateway_session=x", []),
        (b"b\x01ad=1; ok=2", [("ok", "2")]),
        (b"a\tb=1; ok=2", [("ok", "2")]),
        (b"\x0bgateway_session=x", []),
        (b"a=1\x002\x1f3\x7f", [("a", "123")]),
    ],
)
def test_a_cookie_line_has_one_reading(sent: bytes, read: list[tuple[str, str]]) -> None:
    assert parse_cookies([sent]) == read


def test_several_cookie_lines_are_read_in_order() -> None:
    assert parse_cookies([b"a=1", b"", b"b=2; a=3"]) == [("a", "1"), ("b", "2"), ("a", "3")]


def test_no_cookie_line_is_no_cookies() -> None:
    assert parse_cookies([]) == []
    assert upstream_cookie([]) is None


def test_the_gateways_cookies_never_reach_an_upstream() -> None:
    line = b"first=1; " + SESSION + b"; gateway_oidc_state=abc.def; last=2"
    assert upstream_cookie([line]) == b"first=1; last=2"


@pytest.mark.parametrize("spelling", [b"gateway_session =x", b"\tgateway_session\t=\tx", b"gateway_session=", SESSION])
def test_no_spelling_that_reads_as_the_session_reaches_an_upstream(spelling: bytes) -> None:
    assert upstream_cookie([spelling]) is None
    assert upstream_cookie([b"a=1; " + spelling + b"; " + spelling]) == b"a=1"


def test_the_others_stay_in_order_and_byte_for_byte() -> None:
    line = b'theme="dark mode"; \xc3\xa9t\xc3\xa9=\xff; a=1; a=2; Gateway_Session=theirs; x=a=b'
    assert upstream_cookie([line]) == line


def test_an_empty_cookie_header_is_not_sent() -> None:
    assert upstream_cookie([b""]) is None
    assert upstream_cookie([b"; ;", b"nameless"]) is None


def test_a_quoted_value_cannot_hide_the_session_from_the_gateway() -> None:
    # A reader that honours quotes takes all of this for one cookie; the gateway cuts at the semicolons.
    assert upstream_cookie([b'a="x; ' + SESSION + b'; y"']) == b'a="x'


def test_control_characters_are_gone_from_what_is_forwarded() -> None:
    assert upstream_cookie([b"a=1\r\nX: y; b\x00=2; c=\x7f3"]) == b"a=1X: y; c=3"
