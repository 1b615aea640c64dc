"""The checks on a head's raw bytes, before h11 reads it: what h11 lets through and two readers could read in two ways.

They run on whole heads and are a few passes in C, so that they cost a small part of what h11 does.
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

TOKEN_BYTES = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""`tchar` of RFC 9110 §5.6.2."""

# A framing header's whole line, with the value as it was sent: h11 hands on a list of equal lengths as one length, and
# trims a tab that other readers have taken as part of the coding's name.
_FRAMING_LINE = re.compile(rb"\r\n(content-length|transfer-encoding):([^\r\n]*)(?=\r\n)", re.IGNORECASE)
_PLAIN_VALUE = re.compile(rb" *(?:[0-9]+|chunked) *", re.IGNORECASE)

LENGTH_MAX = 2**63 - 1
"""A body length that the next reader could not hold in 64 signed bits is refused."""


def check_head(raw: bytes, allowed: bytes, *, max_headers: int, malformed: str, too_many: str) -> int:
    """The number of header lines of one whole head that ends with its blank line; only CRLF ends a line in it.

    Raises `ProtocolError` with code `malformed` for a byte outside `allowed`, a bare CR or LF, a folded line
    (RFC 9112 §5.2) and bytes behind the blank line, and with code `too_many` above `max_headers` lines.
    """
    if raw.translate(None, allowed):
        raise ProtocolError(malformed, "a control or non-ASCII byte in the head")
    lines = raw.count(CRLF)
    if raw.count(b"\n") != lines or raw.count(b"\r") != lines:
        raise ProtocolError(malformed, "a bare CR or LF in the head")
    if raw.find(HEAD_END) != len(raw) - 4 or len(raw) < 4:
        raise ProtocolError(malformed, "not one whole head")
    if b"\r\n " in raw or b"\r\n\t" in raw:
        raise ProtocolError(malformed, "a folded header line")
    if lines - 2 > max_headers:
        raise ProtocolError(too_many, "too many header lines")
    return lines - 2


def check_framing_lines(raw: bytes, malformed: str) -> None:
    """Refuse a head with two framing lines, or with one whose value is written in an unusual way.

    Called for heads that name a length or a coding. Two lines are `Content-Length` twice (even if equal),
    `Transfer-Encoding` twice, or both together: all of them are how requests are smuggled (RFC 9112 §6.3).
    """
    lines = _FRAMING_LINE.findall(raw)
    if len(lines) != 1:
        raise ProtocolError(malformed, "more than one framing header")
    if _PLAIN_VALUE.fullmatch(lines[0][1]) is None:
        raise ProtocolError(malformed, "a framing header with a list or a tab in its value")


def framing_line_count(raw: bytes) -> int:
    """How many framing lines a head has, whatever their values."""
    return len(_FRAMING_LINE.findall(raw))


def parse_length(value: bytes, malformed: str) -> int:
    """A `Content-Length` that h11 has found to be digits."""
    length = int(value)
    if length > LENGTH_MAX:
        raise ProtocolError(malformed, "a content length beyond 63 bits")
    return length


def comma_tokens(value: bytes) -> list[bytes]:
    """The entries of a comma-separated list in lower case; empty ones are dropped."""
    return [token for part in value.lower().split(b",") if (token := part.strip(b" \t"))]
