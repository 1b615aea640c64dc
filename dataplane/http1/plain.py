"""The fast lane: plain heads, which nearly all are, by one grammar each way; whatever else there is goes to h11.

    raw -> first line, header block by their grammars -> the very head that gate and h11 make of these bytes
        -> None where the head is anything but plain: it is handed on, never refused here

Plain is HTTP/1.1, lines that end in CRLF, names that are tokens, values of visible ASCII and space, one statement of
each kind that decides something, and nothing that asks for more than a request and its answer. `read_request_head` and
`read_response_head` stay the readers of record: `tests/fuzz/test_http1_plain.py` compares every head with theirs.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

from dataplane.http1.authority import parse_authority
from dataplane.http1.buffer import TARGET_MAX_BYTES
from dataplane.http1.heads import CHUNKED, UNTIL_CLOSE, Authority, Headers, ProtocolError, RequestHead, ResponseHead
from dataplane.http1.request import FRAMING_LOOKALIKES
from dataplane.http1.response import REASON_MAX_BYTES, RESPONSE_HEADERS_MAX, body_of

_TCHAR = r"!#$%&'*+.^_`|~0-9A-Za-z-"
# The path ends at the first question mark; a fragment, CONNECT and the other target forms are not plain.
_REQUEST_LINE = re.compile(rf"(?!CONNECT )([{_TCHAR}]++) (/[!-\"$->@-~]*+)(\?[!-\"$-~]*+)? HTTP/1\.1")
_STATUS_LINE = re.compile(rb"HTTP/1\.1 ([2-9][0-9]{2}) ([ -~]{0,%d})" % REASON_MAX_BYTES)
_BLOCK = re.compile(rb"(?:[%b]++:[ -~]*+\r\n)++\r\n" % _TCHAR.encode("ascii"))
_LENGTH = re.compile(rb"[0-9]{1,18}")

_UNUSUAL = FRAMING_LOOKALIKES | {b"transfer-encoding", b"upgrade", b"expect"}
_DECIDING_RESPONSE = frozenset({b"connection", b"content-length", b"transfer-encoding"})
_KEPT = {b"keep-alive": True, b"close": False}

# A caller sends the same header lines with request after request, and an upstream gives the same head many times a
# second: so what a request's lines mean is remembered by their exact bytes, with the heads that they made behind the
# last few first lines, and a response's head whole. They hold credentials: few are kept, in this process alone, until
# others take their place.
REMEMBERED_BLOCKS = 256
REMEMBERED_MAX_BYTES = 4 * 1024
REMEMBERED_HEADS = 8
"""With each block of lines."""
REMEMBERED_FIRST_LINE_MAX_BYTES = 512


class _RequestBlock(NamedTuple):
    """The lines behind a request's first one."""

    headers: Headers
    authority: Authority
    body_length: int
    keep_alive: bool
    known: dict[Any, Any]
    heads: dict[bytes, RequestHead]
    """By their first lines."""


def plain_request_head(raw: bytes, max_headers: int) -> RequestHead | None:
    """What `read_request_head` makes of `raw`, or None where it is not plain. A pure function of its arguments."""
    first, _, lines = raw.partition(b"\r\n")
    block = _remembered_request(lines) if len(lines) <= REMEMBERED_MAX_BYTES else _request_block(lines)
    if block is None or len(block.headers) > max_headers:
        return None
    heads = block.heads
    head = heads.get(first)
    if head is None:
        head = _request_head(first, block)
        if head is not None and len(first) <= REMEMBERED_FIRST_LINE_MAX_BYTES:
            if len(heads) >= REMEMBERED_HEADS:
                heads.clear()
            heads[first] = head
    return head


def _request_head(first: bytes, block: _RequestBlock) -> RequestHead | None:
    line = _REQUEST_LINE.fullmatch(first.decode("latin-1"))
    if line is None:
        return None
    method, path, query = line.groups("")
    if len(first) > TARGET_MAX_BYTES and len(path) + len(query) > TARGET_MAX_BYTES:
        return None
    headers, authority, body_length, keep_alive, known, _ = block
    return RequestHead(method, path, query, False, headers, authority, body_length, keep_alive, False, "", known)


def plain_response_head(raw: bytes, request_method: str) -> ResponseHead | None:
    """What `read_response_head` makes of `raw`, or None where it is not plain. A pure function of its arguments."""
    if request_method == "HEAD" or len(raw) > REMEMBERED_MAX_BYTES:
        return _response_head(raw, request_method)
    return _remembered_response(raw)


def _headers(lines: bytes) -> Headers | None:
    """Names in lower case and values without outer spaces; None where a line is not plain."""
    if _BLOCK.fullmatch(lines) is None:
        return None
    parts = [line.partition(b":") for line in lines[:-4].split(b"\r\n")]
    return tuple([(name.lower(), value.strip(b" ")) for name, _, value in parts])


def _request_block(lines: bytes) -> _RequestBlock | None:
    headers = _headers(lines)
    if headers is None:
        return None
    stated = dict(headers)
    names = [name for name, _ in headers]
    if names.count(b"host") != 1 or not _UNUSUAL.isdisjoint(stated):
        return None
    if names.count(b"content-length") > 1 or names.count(b"connection") > 1:
        return None
    keep_alive = _KEPT.get(stated.get(b"connection", b"keep-alive").lower())
    length = stated.get(b"content-length", b"0")
    if keep_alive is None or _LENGTH.fullmatch(length) is None:
        return None
    try:
        return _RequestBlock(headers, parse_authority(stated[b"host"]), int(length), keep_alive, {}, {})
    except ProtocolError:
        return None


def _response_head(raw: bytes, request_method: str = "GET") -> ResponseHead | None:
    """The answer to any method but `HEAD` is read like one to `GET`."""
    end = raw.find(b"\r\n")
    line = _STATUS_LINE.fullmatch(raw, 0, end)
    headers = None if line is None else _headers(raw[end + 2 :])
    if line is None or headers is None or len(headers) > RESPONSE_HEADERS_MAX:
        return None
    keep_alive, declared = True, UNTIL_CLOSE
    for name, value in [header for header in headers if header[0] in _DECIDING_RESPONSE]:
        if name == b"connection":
            kept = _KEPT.get(value.lower())
            if kept is None:
                return None
            keep_alive &= kept
        elif declared != UNTIL_CLOSE:
            return None
        elif name == b"content-length":
            if _LENGTH.fullmatch(value) is None:
                return None
            declared = int(value)
        elif value == b"chunked":
            declared = CHUNKED
        else:
            return None
    status = int(line[1])
    body_length, framed = body_of(status, request_method, declared)
    return ResponseHead(status, line[2], headers, body_length, keep_alive and framed)


_remembered_request = lru_cache(maxsize=REMEMBERED_BLOCKS)(_request_block)
_remembered_response = lru_cache(maxsize=REMEMBERED_BLOCKS)(_response_head)
