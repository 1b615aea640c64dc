"""Heads to bytes, chunk framing, and which framing headers a message gets.

A body is always framed anew: framing headers that came in are never copied (HOUSE, "Strict gate around h11").
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from operator import itemgetter
from typing import NamedTuple

from common.values import hot_value
from dataplane.http1.gate import TOKEN_BYTES
from dataplane.http1.heads import CHUNKED, Headers

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

_NAME = itemgetter(0)
_REASONS = {status.value: status.phrase.encode("ascii") for status in HTTPStatus}
_CHUNKED_HEADER = (b"transfer-encoding", b"chunked")
_CLOSE = (b"connection", b"close")
_KEEP_ALIVE = (b"connection", b"keep-alive")
# Methods whose requests are expected to have a body: an empty one is said in so many words (RFC 9110 §8.6).
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


def reason_phrase(status: int) -> bytes:
    """The registered reason phrase of a status, `b""` without one."""
    return _REASONS.get(status, b"")


class Lines(NamedTuple):
    """Header lines in the form in which they are sent, and how many there are: written once, sent in many heads."""

    written: bytes
    lines: int


NO_LINES = Lines(b"", 0)


def header_lines(headers: Sequence[tuple[bytes, bytes]]) -> Lines:
    """The lines of these headers. Raises `ValueError` like `request_head`."""
    _check_names(list(map(_NAME, headers)))
    written = b"".join([b"%b: %b\r\n" % header for header in headers])
    _check_ends(written, len(headers))
    return Lines(written, len(headers))


def request_head(method: str, target: str, headers: Sequence[tuple[bytes, bytes]], copied: Lines = NO_LINES) -> bytes:
    """A request's head as bytes: `headers`, `host` among them, then the lines that are `copied`.

    Raises `ValueError` where a part could end its line or split it in another place: that is a bug of the caller, and
    nothing may be sent then.
    """
    if " " in target or not target:
        raise ValueError("a request target that is empty or holds a space")
    _check_names((method.encode("ascii"),))
    return _head(f"{method} {target} HTTP/1.1".encode("ascii"), NO_LINES, headers, copied)


def response_head(
    status: int, reason: bytes, headers: Sequence[tuple[bytes, bytes]], copied: Lines = NO_LINES
) -> bytes:
    """A response's head as bytes, always as HTTP/1.1 (RFC 9110 §6.2). Otherwise like `request_head`,
    but `copied` comes first: of two cookies of one name a browser keeps the later.
    """
    if not 100 <= status <= 999:
        raise ValueError("a status outside 100 to 999")
    return _head(b"HTTP/1.1 %d %b" % (status, reason), copied, headers, NO_LINES)


def _head(first_line: bytes, before: Lines, headers: Sequence[tuple[bytes, bytes]], behind: Lines) -> bytes:
    _check_names(list(map(_NAME, headers)))
    own = b"".join([b"%b: %b\r\n" % header for header in headers])
    written = b"%b\r\n%b%b%b\r\n" % (first_line, before.written, own, behind.written)
    _check_ends(written, before.lines + len(headers) + behind.lines + 2)
    return written


def _check_names(names: Sequence[bytes]) -> None:
    if b"" in names or b"".join(names).translate(None, TOKEN_BYTES):
        raise ValueError("a method or header name that is no token")


def _check_ends(written: bytes, ends: int) -> None:
    """As many lines as were written, and no byte that a reader could take for an end."""
    if written.count(b"\n") != ends or written.count(b"\r") != ends or b"\0" in written:
        raise ValueError("CR, LF or NUL in a head")


def chunk_parts(data: bytes) -> tuple[bytes, ...]:
    """The pieces of one chunk, `data` among them as it is; none for no data, which would be the last chunk."""
    return (b"%x\r\n" % len(data), data, b"\r\n") if data else ()


def request_framing(method: str, body_length: int) -> Headers:
    """The framing header of a request to an upstream. `body_length` as in `RequestHead`."""
    if body_length == CHUNKED:
        return (_CHUNKED_HEADER,)
    if body_length or method in _WITH_BODY:
        return ((b"content-length", b"%d" % body_length),)
    return ()


@hot_value
class ResponseFraming:
    """How a response is sent: `headers` to add (framing and `connection`), the body as chunks or as it is, and whether
    the connection closes behind it. Without `has_body` no byte of a body may be written.
    """

    headers: Headers
    has_body: bool
    chunked: bool
    close: bool


def response_framing(
    *, method: str, status: int, body_length: int, declared: bytes | None, http_1_0: bool, keep_alive: bool
) -> ResponseFraming:
    """How a final response goes to a caller.

    `method` and `http_1_0` are the request's; `body_length` is the response's, as in `ResponseHead`; `declared` is the
    `content-length` that a response without a body carries for `HEAD` and 304; `keep_alive` says whether the
    connection may go on as far as the gateway is concerned. A body of unknown length is chunked, or for HTTP/1.0 sent
    until close (RFC 9112 §6.1, §6.3).
    """
    framing: Headers = ()
    has_body = chunked = False
    close = not keep_alive
    if method == "HEAD" or status == 304:
        if declared is not None and status >= 200 and status != 204:
            framing = ((b"content-length", declared),)
    elif status >= 200 and status != 204:
        has_body = body_length != 0
        if body_length >= 0:
            framing = ((b"content-length", b"%d" % body_length),)
        elif http_1_0:
            close = True
        else:
            chunked = True
            framing = (_CHUNKED_HEADER,)
    if close:
        framing = (*framing, _CLOSE)
    elif http_1_0:
        framing = (*framing, _KEEP_ALIVE)
    return ResponseFraming(framing, has_body, chunked, close)
