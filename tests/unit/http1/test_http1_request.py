"""What a request head means; what none may look like is in the corpus of hostile requests."""

from __future__ import annotations

import pytest

from dataplane.http1.heads import CHUNKED, Authority, ProtocolError, RequestHead
from dataplane.http1.request import read_request_head


def read(*lines: bytes, first: bytes = b"GET / HTTP/1.1", host: bytes | None = b"a") -> RequestHead:
    named = () if host is None else (b"Host: " + host,)
    return read_request_head(b"\r\n".join((first, *named, *lines, b"", b"")))


def refusal(raw: bytes, *, max_headers: int = 100) -> ProtocolError:
    with pytest.raises(ProtocolError) as raised:
        read_request_head(raw, max_headers=max_headers)
    return raised.value


def test_a_browsers_head_is_read_to_the_field() -> None:
    head = read(
        b"User-Agent: Mozilla/5.0",
        b"Accept:text/html",
        b"Cookie:  a=b; c=d  ",
        first=b"GET /app/x%2Fy?q=1&r HTTP/1.1",
        host=b"App.example.com:443",
    )
    assert head == RequestHead(
        method="GET",
        path="/app/x%2Fy",
        query="?q=1&r",
        http_1_0=False,
        headers=(
            (b"host", b"App.example.com:443"),
            (b"user-agent", b"Mozilla/5.0"),
            (b"accept", b"text/html"),
            (b"cookie", b"a=b; c=d"),
        ),
        authority=Authority("app.example.com", 443, "App.example.com:443"),
        body_length=0,
        keep_alive=True,
    )


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/", "/", ""),
        (b"/?", "/", "?"),
        (b"/a?b?c", "/a", "?b?c"),
        (b"//b/c", "//b/c", ""),
        (b"/a/../b/./c", "/a/../b/./c", ""),
        (b"/%zz%", "/%zz%", ""),
        (b"http://a/b?c", "/b", "?c"),
        (b"http://a", "/", ""),
        (b"http://a?b/c", "/", "?b/c"),
        (b"HTTPS://A.:443/b", "/b", ""),
        (b"http://a//b", "//b", ""),
    ],
)
def test_a_target_is_kept_as_sent_in_its_origin_form(target: bytes, path: str, query: str) -> None:
    head = read(first=b"GET " + target + b" HTTP/1.1")
    assert (head.path, head.query) == (path, query)


@pytest.mark.parametrize(
    ("target", "path"), [(b"*", "*"), (b"http://a", "*"), (b"http://a/", "/"), (b"http://a/*", "/*")]
)
def test_options_of_the_server_itself_keeps_its_asterisk(target: bytes, path: str) -> None:
    assert read(first=b"OPTIONS " + target + b" HTTP/1.1").path == path


def test_http_1_0_may_lack_a_host_and_then_names_none() -> None:
    head = read(first=b"GET / HTTP/1.0", host=None)
    assert head.http_1_0
    assert head.authority is None


@pytest.mark.parametrize(
    ("line", "length"),
    [
        (b"X: a", 0),
        (b"Content-Length: 0", 0),
        (b"Content-Length: 5", 5),
        (b"Content-Length: 0005", 5),
        (b"Content-Length: 9223372036854775807", 2**63 - 1),
        (b"Transfer-Encoding: chunked", CHUNKED),
        (b"transfer-encoding: CHUNKED", CHUNKED),
    ],
)
def test_the_body_has_the_length_that_one_header_states(line: bytes, length: int) -> None:
    assert read(line).body_length == length


@pytest.mark.parametrize(
    ("version", "connection", "kept"),
    [
        (b"1.1", (), True),
        (b"1.1", (b"keep-alive",), True),
        (b"1.1", (b"close",), False),
        (b"1.1", (b"Close",), False),
        (b"1.1", (b"x, close",), False),
        (b"1.1", (b"keep-alive", b"close"), False),
        (b"1.1", (b"closed",), True),
        (b"1.0", (), False),
        (b"1.0", (b"Keep-Alive",), True),
        (b"1.0", (b"keep-alive, close",), False),
    ],
)
def test_a_connection_is_kept_as_its_version_and_options_say(
    version: bytes, connection: tuple[bytes, ...], kept: bool
) -> None:
    head = read(*(b"Connection: " + value for value in connection), first=b"GET / HTTP/" + version)
    assert head.keep_alive is kept


@pytest.mark.parametrize(
    ("lines", "upgrade"),
    [
        ((b"Connection: Upgrade", b"Upgrade: WebSocket"), "websocket"),
        ((b"Connection: keep-alive, Upgrade", b"Upgrade: websocket"), "websocket"),
        ((b"Connection: keep-alive", b"Connection: upgrade", b"Upgrade: websocket"), "websocket"),
        ((b"Connection: upgrade", b"Upgrade: h2c, websocket, foo"), "websocket"),
        ((b"Connection: upgrade", b"Upgrade: foo", b"Upgrade: websocket"), "websocket"),
        ((b"Connection: upgrade", b"Upgrade: Foo/1, bar"), "foo/1, bar"),
        ((b"Connection: upgrade", b"Upgrade: h2c"), ""),
        ((b"Connection: upgrade",), ""),
        ((b"Connection: upgraded", b"Upgrade: websocket"), ""),
        ((b"Upgrade: websocket",), ""),
    ],
)
def test_an_upgrade_is_what_both_headers_ask_for(lines: tuple[bytes, ...], upgrade: str) -> None:
    assert read(*lines).upgrade == upgrade


def test_an_upgrade_is_ignored_in_http_1_0() -> None:
    head = read(b"Connection: upgrade", b"Upgrade: websocket", b"Content-Length: 1", first=b"GET / HTTP/1.0")
    assert head.upgrade == ""


@pytest.mark.parametrize(
    ("first", "lines", "expected"),
    [
        (b"PUT / HTTP/1.1", (b"Expect: 100-continue", b"Content-Length: 1"), True),
        (b"PUT / HTTP/1.1", (b"Expect: 100-Continue", b"Transfer-Encoding: chunked"), True),
        (b"PUT / HTTP/1.1", (b"Expect: 100-continue",), False),
        (b"PUT / HTTP/1.0", (b"Expect: 100-continue", b"Content-Length: 1"), False),
        (b"PUT / HTTP/1.0", (b"Expect: other", b"Content-Length: 1"), False),
        (b"PUT / HTTP/1.1", (b"Content-Length: 1",), False),
    ],
)
def test_100_continue_is_expected_only_where_a_body_waits_for_it(
    first: bytes, lines: tuple[bytes, ...], expected: bool
) -> None:
    assert read(*lines, first=first).expect_continue is expected


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_headers_may_number_their_limit_and_no_more(limit: int) -> None:
    within = b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: a\r\n" * (limit - 1) + b"\r\n"
    assert len(read_request_head(within, max_headers=limit).headers) == limit
    assert refusal(within[:-2] + b"X: a\r\n\r\n", max_headers=limit).code == "headers_too_large"


@pytest.mark.parametrize("raw", [b"", b"\r\n", b"\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\n", b"GET / HTTP/1.1"])
def test_what_is_not_one_whole_head_is_refused(raw: bytes) -> None:
    assert refusal(raw).code == "bad_request"


def test_two_heads_are_not_read_as_one() -> None:
    head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    assert refusal(head + head).code == "bad_request"
    assert refusal(head + b"body\r\n\r\n").code == "bad_request"


@pytest.mark.parametrize(
    "line", [b"Authorization secret", b"Authorization: secret\x01", b"secret\0: a", b"Content-Length: secret"]
)
def test_a_reason_for_the_log_quotes_nothing_of_the_request(line: bytes) -> None:
    failure = refusal(b"GET /secret HTTP/1.1\r\nHost: a\r\n" + line + b"\r\n\r\n")
    assert failure.reason
    assert "secret" not in failure.reason.lower()
    assert failure.__context__ is None or failure.__suppress_context__
