"""What a response head means; what none may look like is in the corpus of hostile responses."""

from __future__ import annotations

import pytest

from dataplane.http1.heads import CHUNKED, UNTIL_CLOSE, ProtocolError, ResponseHead
from dataplane.http1.response import read_response_head


def read(*lines: bytes, first: bytes = b"HTTP/1.1 200 OK", method: str = "GET") -> ResponseHead:
    return read_response_head(b"\r\n".join((first, *lines, b"", b"")), method)


def test_an_ordinary_head_is_read_to_the_field() -> None:
    head = read(b"Content-Type: text/plain", b"Content-Length: 5", b"Set-Cookie: a=b", b"Set-Cookie: c=d")
    assert head == ResponseHead(
        status=200,
        reason=b"OK",
        headers=(
            (b"content-type", b"text/plain"),
            (b"content-length", b"5"),
            (b"set-cookie", b"a=b"),
            (b"set-cookie", b"c=d"),
        ),
        body_length=5,
        keep_alive=True,
    )


@pytest.mark.parametrize("status", [100, 101, 102, 103, 199])
def test_an_interim_response_is_a_head_without_a_body(status: int) -> None:
    head = read(b"Link: </a>", first=b"HTTP/1.1 %d -" % status)
    assert (head.status, head.body_length, head.headers) == (status, 0, ((b"link", b"</a>"),))


@pytest.mark.parametrize(
    ("lines", "version", "length", "kept"),
    [
        ((b"Content-Length: 5",), b"1.1", 5, True),
        ((b"Content-Length: 0",), b"1.1", 0, True),
        ((b"Transfer-Encoding: chunked",), b"1.1", CHUNKED, True),
        ((), b"1.1", UNTIL_CLOSE, False),
        ((b"Connection: keep-alive",), b"1.1", UNTIL_CLOSE, False),
        ((b"Content-Length: 5", b"Connection: close"), b"1.1", 5, False),
        ((b"Content-Length: 5",), b"1.0", 5, False),
        ((b"Content-Length: 5", b"Connection: Keep-Alive"), b"1.0", 5, True),
        ((), b"1.0", UNTIL_CLOSE, False),
    ],
)
def test_a_body_ends_and_a_connection_is_kept_as_the_head_says(
    lines: tuple[bytes, ...], version: bytes, length: int, kept: bool
) -> None:
    head = read(*lines, first=b"HTTP/" + version + b" 200 OK")
    assert (head.body_length, head.keep_alive) == (length, kept)


@pytest.mark.parametrize(
    ("method", "status", "lines", "kept"),
    [
        ("HEAD", 200, (b"Content-Length: 5",), True),
        ("HEAD", 200, (b"Transfer-Encoding: chunked",), True),
        ("HEAD", 200, (), True),
        ("GET", 304, (b"Content-Length: 5",), True),
        ("GET", 304, (), True),
        ("GET", 204, (), True),
        ("GET", 204, (b"Content-Length: 0",), True),
        ("GET", 204, (b"Content-Length: 5",), False),
        ("GET", 204, (b"Transfer-Encoding: chunked",), False),
        ("GET", 205, (b"Content-Length: 0",), True),
        ("GET", 205, (b"Content-Length: 5",), False),
        ("GET", 205, (b"Transfer-Encoding: chunked",), False),
        ("GET", 205, (), False),
    ],
)
def test_no_body_follows_where_method_or_status_rule_it_out(
    method: str, status: int, lines: tuple[bytes, ...], kept: bool
) -> None:
    """Bytes of a body that must not be there would become the start of the next answer on a kept connection."""
    head = read(*lines, first=b"HTTP/1.1 %d -" % status, method=method)
    assert (head.body_length, head.keep_alive) == (0, kept)


def test_the_length_of_a_head_answer_stays_a_header() -> None:
    assert read(b"Content-Length: 5", method="HEAD").headers == ((b"content-length", b"5"),)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b" OK", b"OK"),
        (b"", b""),
        (b" ", b""),
        (b" Not\tFound", b"NotFound"),
        ("  café".encode(), b" caf"),
        (b" " + b"a" * 500, b"a" * 128),
    ],
)
def test_a_reason_is_reduced_to_visible_ascii_of_a_bounded_length(sent: bytes, reason: bytes) -> None:
    assert read(b"Content-Length: 0", first=b"HTTP/1.1 200" + sent).reason == reason


def test_bytes_above_ascii_pass_in_values_as_they_are() -> None:
    value = 'attachment; filename="é.txt"'.encode()
    assert (b"content-disposition", value) in read(b"Content-Disposition: " + value).headers


def test_a_reason_for_the_log_quotes_nothing_of_the_response() -> None:
    with pytest.raises(ProtocolError) as raised:
        read(b"Set-Cookie secret")
    assert raised.value.code == "bad_gateway"
    assert "secret" not in raised.value.reason
