"""Heads to bytes, chunk framing, and which framing headers a message gets.

A body is always framed anew: framing headers that came in are never copied (HOUSE, "Strict gate around h11").
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from operator import itemgetter
from typing import NewType

from common.values import hot_value
from dataplane.http1.gate import TOKEN_BYTES
from dataplane.http1.heads import CHUNKED, Headers

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

_NAME, _VALUE = itemgetter(0), itemgetter(1)
_LINE = b": ".join
# As numbers: asked for bytes, `in` makes and drops an exception first.
_NUL, _LF, _CR = 0, 10, 13
_REASONS = {status.value: status.phrase.encode("ascii") for status in HTTPStatus}
_CHUNKED_HEADER = (b"transfer-encoding", b"chunked")
_CLOSE = (b"connection", b"close")
_KEEP_ALIVE = (b"connection", b"keep-alive")
# Methods whose requests are expected to have a body: an empty one is said in so many words (RFC 9110 §8.6).
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})

# Names that were found to be tokens once: those that the gateway writes come with every head. Made-up ones of callers
# and upstreams find no place any more when it is full.
KNOWN_TOKENS_MAX = 512
KNOWN_TOKEN_MAX_BYTES = 64
_known_tokens: set[bytes] = set()


def reason_phrase(status: int) -> bytes:
    """The registered reason phrase of a status, `b""` without one."""
    return _REASONS.get(status, b"")


Lines = NewType("Lines", bytes)
"""Header lines in the form in which they are sent, checked: written once, sent in many heads."""

NO_LINES = Lines(b"")


def header_lines(headers: Sequence[tuple[bytes, bytes]]) -> Lines:
    """The lines of these headers. Raises `ValueError` like `request_head`."""
    if not _known_tokens.issuperset(map(_NAME, headers)):
        _check_tokens([name for name, _ in headers])
    _check_text(b"".join(map(_VALUE, headers)))
    return Lines(b"\r\n".join([*map(_LINE, headers), b""]))


def request_head(method: str, target: str, headers: Sequence[tuple[bytes, bytes]], *copied: Lines) -> bytes:
    """A request's head as bytes: `headers`, then the lines that are `copied`; `host` is among them.

    Raises `ValueError` where a part could end its line or split it in another place: that is a bug of the caller, and
    nothing may be sent then.
    """
    if " " in target or not target:
        raise ValueError("a request target that is empty or holds a space")
    token = method.encode("ascii")
    if token not in _known_tokens:
        _check_tokens([token])
    wanted = target.encode("ascii")
    _check_text(wanted)
    own = header_lines(headers) if headers else NO_LINES
    return b"".join((token, b" ", wanted, b" HTTP/1.1\r\n", own, *copied, b"\r\n"))


def response_head(
    status: int, reason: bytes, headers: Sequence[tuple[bytes, bytes]], copied: Lines = NO_LINES
) -> bytes:
    """A response's head as bytes, always as HTTP/1.1 (RFC 9110 §6.2). Otherwise like `request_head`,
    but `copied` comes first: of two cookies of one name a browser keeps the later.
    """
    if not 100 <= status <= 999:
        raise ValueError("a status outside 100 to 999")
    _check_text(reason)
    return b"HTTP/1.1 %d %b\r\n%b%b\r\n" % (status, reason, copied, header_lines(headers))


def _check_tokens(names: Sequence[bytes]) -> None:
    """Raise for one that is no token; the others are known from now on."""
    if b"" in names or b"".join(names).translate(None, TOKEN_BYTES):
        raise ValueError("a method or header name that is no token")
    if len(_known_tokens) < KNOWN_TOKENS_MAX:
        _known_tokens.update([name for name in names if len(name) <= KNOWN_TOKEN_MAX_BYTES])


def _check_text(text: bytes) -> None:
    """No byte that a reader could take for the end of a line."""
    if _LF in text or _CR in text or _NUL in text:
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
