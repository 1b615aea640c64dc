"""What is written cannot be split in another place, and every message says where its body ends."""

from __future__ import annotations

import pytest

from dataplane.http1.heads import CHUNKED, UNTIL_CLOSE, Headers
from dataplane.http1.write import (
    CONTINUE,
    LAST_CHUNK,
    ResponseFraming,
    chunk_parts,
    header_lines,
    reason_phrase,
    request_framing,
    request_head,
    response_framing,
    response_head,
)

LENGTH_5: Headers = ((b"content-length", b"5"),)
LENGTH_0: Headers = ((b"content-length", b"0"),)
CODED: Headers = ((b"transfer-encoding", b"chunked"),)
CLOSE: Headers = ((b"connection", b"close"),)
KEEP: Headers = ((b"connection", b"keep-alive"),)


def test_a_request_head_is_written_to_the_byte() -> None:
    written = request_head("GET", "/a?b", [(b"host", b"a"), (b"x", b"")])
    assert written == b"GET /a?b HTTP/1.1\r\nhost: a\r\nx: \r\n\r\n"


def test_a_response_head_is_written_to_the_byte() -> None:
    assert response_head(404, b"Not Found", ((b"x", b"y"),)) == b"HTTP/1.1 404 Not Found\r\nx: y\r\n\r\n"
    assert response_head(299, b"", ()) == b"HTTP/1.1 299 \r\n\r\n"


@pytest.mark.parametrize("bad", [b"a\r\nb: c", b"a\nb", b"a\rb", b"a\0b", b"\r\n", b"a\r\n\r\nb"])
def test_a_line_end_or_nul_is_never_written(bad: bytes) -> None:
    text = bad.decode("ascii")
    for attempt in (
        lambda: request_head("GET", "/", [(b"x", bad)]),
        lambda: request_head("GET", "/", [(bad, b"x")]),
        lambda: request_head("GET", f"/{text}", []),
        lambda: request_head(text, "/", []),
        lambda: response_head(200, bad, []),
        lambda: response_head(200, b"OK", [(b"a", b"b"), (b"x", bad)]),
    ):
        with pytest.raises(ValueError):
            attempt()


def test_lines_written_before_stand_behind_the_others_to_the_byte() -> None:
    copied = header_lines(((b"accept", b"*/*"), (b"x-a", b"")))
    assert copied == b"accept: */*\r\nx-a: \r\n"
    sent = request_head("GET", "/", ((b"host", b"a"),), copied)
    assert sent == b"GET / HTTP/1.1\r\nhost: a\r\naccept: */*\r\nx-a: \r\n\r\n"
    of_both = response_head(204, b"", ((b"x-b", b"1"),), copied)
    assert of_both == b"HTTP/1.1 204 \r\naccept: */*\r\nx-a: \r\nx-b: 1\r\n\r\n"
    assert response_head(204, b"", (), copied) == b"HTTP/1.1 204 \r\naccept: */*\r\nx-a: \r\n\r\n"


@pytest.mark.parametrize("header", [(b"a\r\nb", b""), (b"", b""), (b"a b", b""), (b"a", b"1\r\nb: 2"), (b"a", b"\0")])
def test_lines_that_a_reader_could_split_elsewhere_are_never_written(header: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError):
        header_lines((header,))


@pytest.mark.parametrize("name", [b"", b"a b", b"a:", b"a: b", b" a", b"\xe9", b"a\t"])
def test_a_name_that_is_no_token_is_never_written(name: bytes) -> None:
    with pytest.raises(ValueError):
        response_head(200, b"OK", [(b"x", b"y"), (name, b"z")])


@pytest.mark.parametrize(
    ("method", "target"), [("", "/"), ("G T", "/"), ("GET", ""), ("GET", "/a b"), ("GET", "/é"), ("GÉT", "/")]
)
def test_a_request_line_that_reads_in_another_way_is_never_written(method: str, target: str) -> None:
    with pytest.raises(ValueError):
        request_head(method, target, [])


@pytest.mark.parametrize("status", [99, 1000, -200])
def test_a_status_has_three_digits(status: int) -> None:
    with pytest.raises(ValueError):
        response_head(status, b"OK", [])


def test_no_data_is_no_chunk_since_that_would_be_the_last() -> None:
    assert chunk_parts(b"") == ()
    data = b"x" * 26
    assert chunk_parts(data) == (b"1a\r\n", data, b"\r\n")
    assert chunk_parts(data)[1] is data
    assert LAST_CHUNK == b"0\r\n\r\n"
    assert response_head(100, b"Continue", ()) == CONTINUE


def test_registered_statuses_have_their_phrase() -> None:
    assert (reason_phrase(200), reason_phrase(431)) == (b"OK", b"Request Header Fields Too Large")
    assert reason_phrase(299) == b""


@pytest.mark.parametrize(
    ("method", "length", "headers"),
    [
        ("GET", 0, ()),
        ("DELETE", 0, ()),
        ("POST", 0, LENGTH_0),
        ("PUT", 0, LENGTH_0),
        ("PATCH", 0, LENGTH_0),
        ("GET", 5, LENGTH_5),
        ("POST", CHUNKED, CODED),
        ("GET", CHUNKED, CODED),
    ],
)
def test_a_request_says_where_its_body_ends(method: str, length: int, headers: Headers) -> None:
    assert request_framing(method, length) == headers


def frame(
    status: int = 200,
    length: int = 5,
    *,
    method: str = "GET",
    declared: bytes | None = None,
    http_1_0: bool = False,
    keep_alive: bool = True,
) -> ResponseFraming:
    return response_framing(
        method=method,
        status=status,
        body_length=length,
        declared=declared,
        http_1_0=http_1_0,
        keep_alive=keep_alive,
    )


@pytest.mark.parametrize(
    ("http_1_0", "keep_alive", "length", "expected"),
    [
        (False, True, 5, ResponseFraming(LENGTH_5, has_body=True, chunked=False, close=False)),
        (False, False, 5, ResponseFraming(LENGTH_5 + CLOSE, has_body=True, chunked=False, close=True)),
        (False, True, 0, ResponseFraming(LENGTH_0, has_body=False, chunked=False, close=False)),
        (False, True, CHUNKED, ResponseFraming(CODED, has_body=True, chunked=True, close=False)),
        (False, True, UNTIL_CLOSE, ResponseFraming(CODED, has_body=True, chunked=True, close=False)),
        (False, False, UNTIL_CLOSE, ResponseFraming(CODED + CLOSE, has_body=True, chunked=True, close=True)),
        (True, True, 5, ResponseFraming(LENGTH_5 + KEEP, has_body=True, chunked=False, close=False)),
        (True, False, 5, ResponseFraming(LENGTH_5 + CLOSE, has_body=True, chunked=False, close=True)),
        (True, True, CHUNKED, ResponseFraming(CLOSE, has_body=True, chunked=False, close=True)),
        (True, True, UNTIL_CLOSE, ResponseFraming(CLOSE, has_body=True, chunked=False, close=True)),
    ],
)
def test_a_response_says_where_its_body_ends_in_words_its_caller_knows(
    http_1_0: bool, keep_alive: bool, length: int, expected: ResponseFraming
) -> None:
    assert frame(length=length, http_1_0=http_1_0, keep_alive=keep_alive) == expected


@pytest.mark.parametrize(
    ("method", "status", "declared", "headers"),
    [
        ("HEAD", 200, b"5", LENGTH_5),
        ("HEAD", 200, None, ()),
        ("GET", 304, b"5", LENGTH_5),
        ("GET", 304, None, ()),
        ("HEAD", 204, b"5", ()),
        ("GET", 204, b"5", ()),
        ("GET", 204, None, ()),
        ("GET", 205, b"5", LENGTH_0),
        ("GET", 205, None, LENGTH_0),
    ],
)
def test_a_response_without_a_body_keeps_only_the_length_that_may_stand(
    method: str, status: int, declared: bytes | None, headers: Headers
) -> None:
    for http_1_0 in (False, True):
        framing = frame(status, 0, method=method, declared=declared, http_1_0=http_1_0)
        assert framing == ResponseFraming(
            headers + (KEEP if http_1_0 else ()), has_body=False, chunked=False, close=False
        )
