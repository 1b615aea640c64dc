"""Heads are cut out of whatever pieces arrive; what cannot become one is refused at the first byte that shows it."""

from __future__ import annotations

import pytest

from dataplane.http1.buffer import REQUEST_LINE_MAX_BYTES, HeadBuffer
from dataplane.http1.heads import ProtocolError

HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def requests(max_bytes: int = 1024) -> HeadBuffer:
    return HeadBuffer(max_bytes, skip_empty_line=True)


def refusal(buffer: HeadBuffer) -> str:
    with pytest.raises(ProtocolError) as raised:
        buffer.take()
    return raised.value.code


def fed(raw: bytes, max_bytes: int = 1024) -> HeadBuffer:
    buffer = requests(max_bytes)
    buffer.feed(raw)
    return buffer


def test_a_head_that_arrives_whole_is_not_copied() -> None:
    buffer = requests()
    buffer.feed(HEAD)
    assert buffer.take() is HEAD
    assert buffer.take() is None
    assert not buffer.started


def test_heads_that_arrive_together_are_taken_one_by_one_and_the_rest_is_left() -> None:
    buffer = fed(HEAD + HEAD + b"GET /b")
    assert [buffer.take(), buffer.take(), buffer.take()] == [HEAD, HEAD, None]
    assert buffer.started
    buffer.feed(b" HTTP/1.1\r\n\r\n")
    assert buffer.take() == b"GET /b HTTP/1.1\r\n\r\n"


def test_what_stands_behind_a_head_is_handed_over_once() -> None:
    buffer = fed(HEAD + b"body")
    assert buffer.take() == HEAD
    assert buffer.leftover() == b"body"
    assert buffer.leftover() == b""
    assert not buffer.started
    buffer.feed(HEAD)
    assert buffer.take() == HEAD


def test_taken_heads_are_not_kept_while_a_part_of_the_next_is_always_there() -> None:
    """One connection that is used in this way for long would else hold all it ever sent."""
    buffer = fed(HEAD[:5])
    for _ in range(1000):
        buffer.feed(HEAD[5:] + HEAD[:5])
        assert buffer.take() == HEAD
    assert len(buffer._data) <= 2 * len(HEAD)


@pytest.mark.parametrize("cut", range(1, len(HEAD)))
def test_a_head_in_two_pieces_is_taken_with_the_second(cut: int) -> None:
    buffer = fed(HEAD[:cut])
    assert buffer.take() is None
    assert buffer.started
    buffer.feed(HEAD[cut:])
    assert buffer.take() == HEAD


def test_nothing_has_started_before_the_first_byte_nor_with_an_empty_line() -> None:
    buffer = requests()
    assert not buffer.started
    assert buffer.take() is None
    buffer.feed(b"\r\n")
    assert buffer.take() is None
    assert not buffer.started
    buffer.feed(b"G")
    assert buffer.take() is None
    assert buffer.started


def test_one_empty_line_in_front_of_each_head_is_forgiven_and_no_second() -> None:
    buffer = fed(b"\r\n" + HEAD + b"\r\n" + HEAD + b"\r\n\r\n")
    assert [buffer.take(), buffer.take()] == [HEAD, HEAD]
    assert refusal(buffer) == "bad_request"


def test_an_empty_line_is_not_forgiven_where_it_is_not_asked_for() -> None:
    buffer = HeadBuffer(1024, skip_empty_line=False)
    buffer.feed(b"\r\nG")
    assert refusal(buffer) == "bad_request"


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\n",
        b"\n",
        b"GET\r/",
        b"\rG",
        b"GET /\0",
        b"\x16\x03\x01",
        b"GET /\xc3",
        b"GET /\x7f",
        b"\r\n\r\n",
    ],
)
def test_bytes_that_cannot_begin_a_head_are_refused_before_its_end(raw: bytes) -> None:
    assert refusal(fed(raw)) == "bad_request"


def test_a_cr_at_the_end_is_judged_with_the_next_byte() -> None:
    buffer = fed(b"GET / HTTP/1.1\r")
    assert buffer.take() is None
    buffer.feed(b"X")
    assert refusal(buffer) == "bad_request"


@pytest.mark.parametrize(("over", "taken"), [(-1, True), (0, True), (1, False)])
def test_a_head_may_have_its_bound_and_not_one_byte_more(over: int, taken: bool) -> None:
    raw = b"GET / HTTP/1.1\r\nX: " + b"a" * (1024 - 23 + over) + b"\r\n\r\n"
    assert len(raw) == 1024 + over
    if taken:
        assert fed(raw).take() == raw
    else:
        assert refusal(fed(raw)) == "headers_too_large"


def test_a_head_without_end_is_refused_when_its_bound_is_full() -> None:
    buffer = fed(b"GET / HTTP/1.1\r\nX: " + b"a" * 1004)
    assert buffer.take() is None
    buffer.feed(b"a")
    assert refusal(buffer) == "headers_too_large"


@pytest.mark.parametrize("end", [b"", b" HTTP/1.1\r\nHost: a\r\n\r\n"])
def test_a_request_line_over_its_bound_is_refused_with_or_without_an_end(end: bytes) -> None:
    assert refusal(fed(b"GET /" + b"a" * REQUEST_LINE_MAX_BYTES + end, 32768)) == "uri_too_long"


def test_a_request_line_may_have_its_bound() -> None:
    buffer = fed(b"a" * REQUEST_LINE_MAX_BYTES + b"\r", 32768)
    assert buffer.take() is None
    buffer.feed(b"\n")
    assert buffer.take() is None
    buffer.feed(b"\r\n")
    assert buffer.take() == b"a" * REQUEST_LINE_MAX_BYTES + b"\r\n\r\n"


def test_what_is_wrong_first_is_what_is_reported() -> None:
    """A refusal must not depend on how the network cut the bytes."""
    assert refusal(fed(b"a\nb" + b"a" * 2000)) == "bad_request"
    assert refusal(fed(b"a" * 2000 + b"\n")) == "headers_too_large"
    assert refusal(fed(b"a" * 9000 + b"\n", 32768)) == "uri_too_long"


@pytest.mark.parametrize("raw", [b"HTTP/1.1 200 OK\n", b"a" * 2000, b"\r\nHTTP", b"HTTP/1.1\0"])
def test_every_failure_of_an_upstream_is_bad_gateway(raw: bytes) -> None:
    buffer = HeadBuffer(1024, skip_empty_line=False, from_upstream=True)
    buffer.feed(raw)
    assert refusal(buffer) == "bad_gateway"


def test_an_upstream_may_send_bytes_above_ascii_and_a_long_first_line() -> None:
    buffer = HeadBuffer(32768, skip_empty_line=False, from_upstream=True)
    buffer.feed("HTTP/1.1 200 é".encode() + b"a" * 9000)
    assert buffer.take() is None
    buffer.feed(b"\r\n\r\n")
    assert buffer.take() is not None
