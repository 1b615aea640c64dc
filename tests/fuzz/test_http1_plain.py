"""The fast lane against the reader of record: what it takes, gate and h11 take, with the very same result.

Production risk: a head that the two read differently is a request that was never judged, or a body's end misplaced.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.http1 import plain
from dataplane.http1.buffer import TARGET_MAX_BYTES, HeadBuffer
from dataplane.http1.heads import Headers, ProtocolError
from dataplane.http1.plain import plain_request_head, plain_response_head
from dataplane.http1.request import HEADERS_MAX, read_request_head
from dataplane.http1.response import read_response_head
from tests.fuzz.test_http1_heads import TOKEN_CHARS, hostile_heads, hostile_responses
from tests.security.corpus.requests import CASES
from tests.security.corpus.responses import RESPONSES

METHODS = ("GET", "HEAD", "POST")


def agree(raw: bytes, max_headers: int = HEADERS_MAX) -> bool:
    """Whether the fast lane takes a request's head; fails where the reader of record does not make the same of it."""
    head = plain_request_head(raw, max_headers)
    if head is None:
        return False
    try:
        assert head == read_request_head(raw, max_headers=max_headers)
    except ProtocolError as failure:
        raise AssertionError(f"{raw!r} is refused by h11: {failure.reason}") from failure
    return True


def agree_on_response(raw: bytes, method: str) -> bool:
    """`agree` for a response to a request of `method`."""
    head = plain_response_head(raw, method)
    if head is None:
        return False
    try:
        assert head == read_response_head(raw, method)
    except ProtocolError as failure:
        raise AssertionError(f"{raw!r} is refused by h11: {failure.reason}") from failure
    return True


_names = st.sampled_from(
    ["accept", "Cookie", "x-a", "Content-Type", "Connection", "Content-Length", "keep-alive", "content_length"]
) | st.text(TOKEN_CHARS, min_size=1, max_size=8)
_values = st.sampled_from(
    [
        "close",
        "Keep-Alive",
        "keep-alive, close",
        "0",
        "5",
        "007",
        "5, 5",
        "+5",
        "",
        "9" * 18,
        "9" * 19,
        "chunked",
        "a  b",
    ]
) | st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=12)
_spaces = st.sampled_from(["", " ", "  "])
_lines = st.tuples(_names, st.just(":"), _spaces, _values, _spaces).map("".join)
_hosts = st.sampled_from(
    ["Host: app.example", "host:a:80", "HOST: [::1]:8080 ", "host: 127.0.0.1", "Host: a,b", "Host:"]
)


@st.composite
def plain_requests(draw: st.DrawFn) -> bytes:
    """Requests that are plain, or nearly so."""
    method = draw(st.sampled_from(["GET", "POST", "get", "CONNECT", "CONNECTS", "OPTIONS", "M-SEARCH"]))
    target = draw(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=12))
    lines = [draw(_hosts), *draw(st.lists(_lines, max_size=5))]
    lines = draw(st.permutations(lines))
    return "\r\n".join((f"{method} /{target} HTTP/1.1", *lines, "", "")).encode("ascii")


@st.composite
def plain_responses(draw: st.DrawFn) -> bytes:
    """Responses that are plain, or nearly so."""
    status = draw(st.sampled_from([200, 204, 205, 206, 304, 404, 999, 199, 101]) | st.integers(100, 999))
    reason = draw(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=8) | st.just("r" * 129))
    framing = draw(st.sampled_from([[], [], ["Transfer-Encoding: chunked"], ["transfer-encoding:Chunked "]]))
    lines = draw(st.permutations([*framing, *draw(st.lists(_lines, max_size=5))]))
    return "\r\n".join((f"HTTP/1.1 {status} {reason}", *lines, "", "")).encode("ascii")


def _changed(raw: bytes, at: int, instead: bytes) -> bytes:
    at %= len(raw)
    return raw[:at] + instead + raw[at + 1 :]


_bytes = st.sampled_from([b"\r", b"\n", b"\r\n", b"\r\n ", b"\0", b"\t", b" ", b":", b",", b"#", b"?", b"", b"_", b"."])
_changes = st.tuples(st.integers(0, 400), _bytes | st.binary(max_size=2))


@given(plain_requests() | hostile_heads(), st.integers(0, 7))
def test_a_request_that_the_fast_lane_takes_is_what_h11_reads(raw: bytes, max_headers: int) -> None:
    agree(raw)
    agree(raw, max_headers)


@given(plain_responses() | hostile_responses(), st.sampled_from(METHODS))
def test_a_response_that_the_fast_lane_takes_is_what_h11_reads(raw: bytes, method: str) -> None:
    agree_on_response(raw, method)


@given(plain_requests(), st.lists(_changes, min_size=1, max_size=2))
def test_a_plain_request_with_changed_bytes_is_never_taken_where_h11_refuses(
    raw: bytes, changes: list[tuple[int, bytes]]
) -> None:
    for at, instead in changes:
        raw = _changed(raw, at, instead)
    agree(raw)


@given(plain_responses(), st.lists(_changes, min_size=1, max_size=2), st.sampled_from(METHODS))
def test_a_plain_response_with_changed_bytes_is_never_taken_where_h11_refuses(
    raw: bytes, changes: list[tuple[int, bytes]], method: str
) -> None:
    for at, instead in changes:
        raw = _changed(raw, at, instead)
    agree_on_response(raw, method)


REQUEST = (
    b"POST /a?b HTTP/1.1\r\nHost: a.example:80\r\nX-A: b \r\n"
    b"Content-Length: 12\r\nConnection: close\r\nCookie: a=b\r\n\r\n"
)
RESPONSE = b"HTTP/1.1 200 OK\r\nServer: a \r\nContent-Length: 12\r\nConnection: close\r\n\r\n"
CHUNKED_RESPONSE = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n"


def test_every_single_byte_of_a_plain_head_may_be_any_other() -> None:
    """All of them, not a sample: some 40 000 heads."""
    assert agree(REQUEST)
    for at, byte in product(range(len(REQUEST)), range(256)):
        agree(_changed(REQUEST, at, bytes([byte])))


@pytest.mark.parametrize("raw", [RESPONSE, CHUNKED_RESPONSE])
def test_every_single_byte_of_a_plain_response_may_be_any_other(raw: bytes) -> None:
    assert agree_on_response(raw, "GET")
    for at, byte in product(range(len(raw)), range(256)):
        agree_on_response(_changed(raw, at, bytes([byte])), "GET")


def _heads(raw: bytes, *, from_upstream: bool) -> list[bytes]:
    buffer = HeadBuffer(64 * 1024, skip_empty_line=not from_upstream, from_upstream=from_upstream)
    buffer.feed(raw)
    heads: list[bytes] = []
    try:
        while (head := buffer.take()) is not None:
            heads.append(head)
    except ProtocolError:
        pass
    return heads


def test_the_hostile_corpus_is_read_alike_and_a_good_part_of_it_is_plain() -> None:
    taken = [agree(raw) for case in CASES for raw in [case.raw, *_heads(case.raw, from_upstream=False)]]
    assert sum(taken) > 20
    taken = [
        agree_on_response(raw, method)
        for case in RESPONSES
        for raw in [case.raw, *_heads(case.raw, from_upstream=True)]
        for method in METHODS
    ]
    assert sum(taken) > 20


_GET = b"GET / HTTP/1.1\r\nHost: a\r\n"


@pytest.mark.parametrize(
    ("within", "unit"),
    [
        (b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n" % (b"a" * (TARGET_MAX_BYTES - 1)), b"a"),
        (b"GET /?%b HTTP/1.1\r\nHost: a\r\n\r\n" % (b"a" * (TARGET_MAX_BYTES - 2)), b"a"),
        (_GET + b"x: a\r\n" * (HEADERS_MAX - 1) + b"\r\n", b"x: a\r\n"),
        (_GET + b"Content-Length: " + b"9" * 18 + b"\r\n\r\n", b"9"),
    ],
)
def test_a_head_at_its_bound_is_plain_and_beyond_it_handed_on(within: bytes, unit: bytes) -> None:
    assert agree(within)
    assert not agree(within.replace(unit, 2 * unit, 1))


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.0\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
        b"CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nx: a\tb\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
    ],
)
def test_a_request_that_is_not_plain_is_handed_on(raw: bytes) -> None:
    assert plain_request_head(raw, HEADERS_MAX) is None


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n",
        b"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: \xc3\xa9\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: x-a\r\n\r\n",
    ],
)
def test_a_response_that_is_not_plain_is_handed_on(raw: bytes) -> None:
    assert plain_response_head(raw, "GET") is None


@pytest.mark.parametrize(
    ("remembered", "head"),
    [
        (plain._remembered_request, b"GET / HTTP/1.1\r\nHost: a\r\nx: %b\r\n\r\n"),
        (plain._remembered_response, b"HTTP/1.1 200 OK\r\nx: %b\r\n\r\n"),
    ],
    ids=["requests", "responses"],
)
def test_what_is_remembered_is_bounded_in_number_and_size(remembered: Any, head: bytes) -> None:
    """Production risk: made-up header lines fill the memory, or keep credentials there for good."""

    def read(line: bytes) -> bool:
        return agree(head % line) or agree_on_response(head % line, "GET")

    remembered.cache_clear()
    assert all(read(b"%d" % number) for number in range(2 * plain.REMEMBERED_BLOCKS))
    assert remembered.cache_info().currsize == plain.REMEMBERED_BLOCKS
    remembered.cache_clear()
    assert read(b"a" * plain.REMEMBERED_MAX_BYTES)
    assert remembered.cache_info().currsize == 0


def test_first_lines_are_remembered_in_a_bounded_number_and_size() -> None:
    """Production risk: a caller that asks for ever new paths fills the memory."""
    lines = b"Host: a\r\nx: first-lines\r\n\r\n"
    targets = [b"/", *(b"/%d" % number for number in range(2 * plain.REMEMBERED_HEADS)), b"/"]
    assert all(agree(b"GET %b HTTP/1.1\r\n%b" % (target, lines)) for target in targets)
    block = plain._remembered_request(lines)
    assert block is not None
    assert 0 < len(block.heads) <= plain.REMEMBERED_HEADS
    block.heads.clear()
    longest = b"/" * (plain.REMEMBERED_FIRST_LINE_MAX_BYTES - len(b"GET  HTTP/1.1"))
    for target, remembered in ((longest + b"/", 0), (longest, 1), (longest, 1)):
        assert agree(b"GET %b HTTP/1.1\r\n%b" % (target, lines))
        assert len(block.heads) == remembered


def test_a_remembered_request_is_still_held_to_the_number_of_its_lines() -> None:
    raw = b"GET / HTTP/1.1\r\nHost: a\r\nx: 1\r\n\r\n"
    assert plain_request_head(raw, 2) is plain_request_head(raw, 2)
    assert plain_request_head(raw, 1) is None


def names_of(headers: Headers) -> tuple[bytes, ...]:
    return tuple(name for name, _ in headers)


def test_only_requests_with_the_very_same_lines_share_what_is_derived_from_them() -> None:
    """Production risk: what was derived of one caller's cookies serves another caller."""
    first, again, other = (
        plain_request_head(b"GET /%b HTTP/1.1\r\nHost: a\r\n%b: s\r\n\r\n" % (path, name), HEADERS_MAX)
        for path, name in ((b"1", b"x"), (b"2", b"x"), (b"3", b"X"))
    )
    assert first is not None
    assert again is not None
    assert other is not None
    assert first.derived(names_of) is again.derived(names_of)
    assert other.known is not first.known
    assert read_request_head(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").derived(names_of) == (b"host",)


def test_an_answer_to_head_is_never_remembered_for_another_method() -> None:
    """Production risk: a body is taken for the next answer, or one is waited for that never comes."""
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
    heads = [plain_response_head(raw, method) for method in ("GET", "HEAD", "POST", "HEAD")]
    assert [head and head.body_length for head in heads] == [5, 0, 5, 0]
