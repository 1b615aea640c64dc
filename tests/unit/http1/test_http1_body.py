"""Bodies end where their framing says, and a broken one is never taken for a whole one."""

from __future__ import annotations

import pytest

from dataplane.http1.body import EXTENSION_MAX_BYTES, ChunkedBody, LengthBody, UntilCloseBody
from dataplane.http1.heads import ProtocolError


def refusal(body: ChunkedBody | LengthBody, *fed: bytes) -> str:
    try:
        for data in fed:
            body.feed(data)
        body.eof()
    except ProtocolError as failure:
        return failure.code
    raise AssertionError("the body was accepted")


def test_a_length_body_hands_on_what_was_fed_without_a_copy() -> None:
    body, data = LengthBody(5), b"hello"
    assert body.feed(data)[0] is data
    assert body.done
    body.eof()


def test_a_length_body_of_zero_is_done_and_leaves_everything() -> None:
    body = LengthBody(0)
    assert body.done
    assert body.feed(b"next") == []
    assert body.feed(b"more") == []
    assert body.leftover == b"nextmore"


def test_a_length_body_cut_short_is_an_error_of_its_side() -> None:
    assert refusal(LengthBody(5), b"hell") == "bad_request"
    assert refusal(LengthBody(5, from_upstream=True), b"hell") == "bad_gateway"


def test_a_body_until_close_is_done_when_its_peer_closes() -> None:
    body = UntilCloseBody()
    assert body.feed(b"a") == [b"a"]
    assert body.feed(b"") == []
    assert not body.done
    body.eof()
    assert body.done
    assert body.leftover == b""


def test_chunk_data_that_is_fed_alone_is_handed_on_without_a_copy() -> None:
    body, data = ChunkedBody(), b"x" * 100
    assert body.feed(b"c8\r\n") == []
    assert body.feed(data)[0] is data
    assert body.feed(data)[0] is data
    assert body.feed(b"\r\n0\r\n\r\n") == []
    assert body.done
    body.eof()


def test_what_stands_behind_a_chunked_body_is_left() -> None:
    body = ChunkedBody()
    assert body.feed(b"1\r\na\r\n0\r\n\r\nGET ") == [b"a"]
    assert body.done
    assert body.feed(b"/") == []
    assert body.leftover == b"GET /"


@pytest.mark.parametrize("upto", range(len(b"5;a\r\nhello\r\n0\r\nX: y\r\n\r\n")))
def test_a_chunked_body_cut_anywhere_is_an_error(upto: int) -> None:
    raw = b"5;a\r\nhello\r\n0\r\nX: y\r\n\r\n"[:upto]
    assert refusal(ChunkedBody(), raw) == "bad_request"
    assert refusal(ChunkedBody(from_upstream=True), raw) == "bad_gateway"


def test_a_wrong_byte_behind_chunk_data_is_refused_at_once() -> None:
    assert refusal(ChunkedBody(), b"1\r\na", b"X") == "bad_request"
    assert refusal(ChunkedBody(), b"1\r\na\r", b"X") == "bad_request"


@pytest.mark.parametrize("fed", [[b"1;" + b"a" * 2000], [b"1;", *[b"a" * 100] * 20], [b"1" * 2000]])
def test_a_chunk_line_is_bounded_before_its_end(fed: list[bytes]) -> None:
    assert refusal(ChunkedBody(), *fed) == "bad_request"


def test_an_extension_may_have_its_bound_and_not_one_byte_more() -> None:
    body = ChunkedBody()
    assert body.feed(b"1;" + b"a" * (EXTENSION_MAX_BYTES - 1) + b"\r\nx\r\n") == [b"x"]
    assert refusal(body, b"1;" + b"a" * EXTENSION_MAX_BYTES + b"\r\n") == "bad_request"


def test_extensions_may_not_outweigh_the_data_they_come_with() -> None:
    """A body within every limit could else keep a reader busy with a thousand times its size."""
    body = ChunkedBody()
    line = b"1;" + b"a" * 999 + b"\r\nx\r\n"
    for _ in range(16):
        body.feed(line)
    assert refusal(body, line) == "bad_request"


def test_signed_chunks_of_an_ordinary_size_pass_without_end() -> None:
    body = ChunkedBody()
    chunk = b"400;chunk-signature=" + b"0" * 64 + b"\r\n" + b"x" * 1024 + b"\r\n"
    for _ in range(1000):
        body.feed(chunk)
    body.feed(b"0\r\n\r\n")
    assert body.done


@pytest.mark.parametrize(("count", "refused"), [(2, False), (3, True)])
def test_trailers_are_bounded_in_number(count: int, refused: bool) -> None:
    body = ChunkedBody(trailers_max=2)
    raw = b"0\r\n" + b"X: a\r\n" * count + b"\r\n"
    if refused:
        assert refusal(body, raw) == "headers_too_large"
    else:
        assert body.feed(raw) == []
        assert body.done


@pytest.mark.parametrize(("size", "refused"), [(30, False), (31, True)])
def test_trailers_are_bounded_in_bytes_with_their_blank_line(size: int, refused: bool) -> None:
    raw = b"0\r\nX: " + b"a" * (size - 7) + b"\r\n\r\n"
    for fed in ([raw], [raw[at : at + 1] for at in range(len(raw))]):
        body = ChunkedBody(trailers_max_bytes=30)
        if refused:
            assert refusal(body, *fed) == "headers_too_large"
        else:
            for data in fed:
                body.feed(data)
            assert body.done


def test_trailers_of_an_upstream_over_their_bound_are_bad_gateway() -> None:
    body = ChunkedBody(trailers_max=1, from_upstream=True)
    assert refusal(body, b"0\r\nX: \xe9\r\nX: a\r\n\r\n") == "bad_gateway"
