"""The checks around h11: what it lets through and two readers could read in two ways.

They are a few passes in C over a whole head and cost a small part of what h11 does.
"""

from __future__ import annotations

import re

from dataplane.http1.heads import ProtocolError

CRLF = b"\r\n"
HEAD_END = b"\r\n\r\n"

REQUEST_BYTES = b"\t\r\n" + bytes(range(0x20, 0x7F))
"""What a request head may be made of. Bytes from 0x80 on mean what each reader takes them for (RFC 9110 §5.5)."""
RESPONSE_BYTES = REQUEST_BYTES + bytes(range(0x80, 0x100))
"""A response may hold bytes from 0x80 on: applications put raw UTF-8 in `content-disposition` and the like, and as
opaque bytes they cannot change where a line or a body ends."""

# One whole head: lines that begin with a visible byte (so none is folded, RFC 9112 §5.2) and end in CRLF, and a blank
# one behind them. Possessive, so that hostile bytes cost one pass.
REQUEST_SHAPE = re.compile(rb"(?:[\x21-\x7e][\t\x20-\x7e]*+\r\n)++\r\n")
RESPONSE_SHAPE = re.compile(rb"(?:[\x21-\x7e][\t\x20-\x7e\x80-\xff]*+\r\n)++\r\n")

TOKEN_BYTES = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""`tchar` of RFC 9110 §5.6.2."""

LENGTH_MAX = 2**63 - 1
"""A body length that the next reader could not hold in 64 signed bits is refused."""


def check_head(raw: bytes, shape: re.Pattern[bytes], *, max_headers: int, malformed: str, too_many: str) -> int:
    """The number of header lines of one whole head that ends with its blank line; only CRLF ends a line in it.

    Raises `ProtocolError` with code `malformed` for whatever `shape` refuses: a byte that it does not list, a bare CR
    or LF, a folded line, bytes behind the blank line; and with code `too_many` above `max_headers` lines.
    """
    if shape.fullmatch(raw) is None:
        raise ProtocolError(malformed, _what_is_wrong(raw))
    headers = raw.count(b"\n") - 2
    if headers > max_headers:
        raise ProtocolError(too_many, "too many header lines")
    return headers


def _what_is_wrong(raw: bytes) -> str:
    """The reason for the log; the shape has decided already."""
    lines = raw.count(CRLF)
    if raw.count(b"\n") != lines or raw.count(b"\r") != lines:
        return "a bare CR or LF in the head"
    if b"\r\n " in raw or b"\r\n\t" in raw:
        return "a folded header line"
    if raw.find(HEAD_END) != len(raw) - len(HEAD_END):
        return "not one whole head"
    return "a control or non-ASCII byte in the head, or an empty first line"


def content_length(raw: bytes, value: bytes, malformed: str) -> int:
    """The length of a head with one `Content-Length`, whose value h11 read as `value`, digits.

    h11 reads `3, 3` as 3 and trims tabs: what was sent must be what was read (RFC 9112 §6.3).
    """
    if _sent(raw, b"content-length") != value:
        raise ProtocolError(malformed, "a content length written as a list or with a tab")
    length = int(value)
    if length > LENGTH_MAX:
        raise ProtocolError(malformed, "a content length beyond 63 bits")
    return length


def check_coding(raw: bytes, malformed: str) -> None:
    """A head with one `Transfer-Encoding`, which h11 read as `chunked`, says so in that very word.

    A tab at its side has been part of the coding's name for some readers, who then took the body for something else.
    """
    if _sent(raw, b"transfer-encoding") != b"chunked":
        raise ProtocolError(malformed, "a transfer coding written with a tab")


def _sent(raw: bytes, name: bytes) -> bytes:
    """The value of the first line of that name in lower case, as it was sent but for outer spaces."""
    lowered = raw.lower()
    start = lowered.index(b"\r\n" + name + b":") + len(name) + 3
    return lowered[start : lowered.index(CRLF, start)].strip(b" ")


def comma_tokens(value: bytes) -> list[bytes]:
    """The entries of a comma-separated list in lower case; empty ones are dropped."""
    return [token for part in value.lower().split(b",") if (token := part.strip(b" \t"))]
