"""A connection's reading side without a connection: bytes in any pieces to requests or responses and a first error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from dataplane.http1.body import ChunkedBody, LengthBody, UntilCloseBody
from dataplane.http1.buffer import HeadBuffer
from dataplane.http1.heads import CHUNKED, UNTIL_CLOSE, ProtocolError, RequestHead, ResponseHead
from dataplane.http1.request import read_request_head
from dataplane.http1.response import read_response_head

HEAD_MAX_BYTES = 32 * 1024
RESPONSE_HEAD_MAX_BYTES = 64 * 1024

Body = LengthBody | ChunkedBody | UntilCloseBody


@dataclass
class Read:
    """What was read: whole messages with their bodies, the head of one that did not end, the first error's code."""

    messages: list[tuple[RequestHead | ResponseHead, bytes]] = field(default_factory=list)
    unfinished: RequestHead | ResponseHead | None = None
    error: str | None = None
    rest: bytes = b""


def pieces(raw: bytes, cuts: Iterable[int]) -> list[bytes]:
    """`raw` cut at the given places."""
    places = sorted({min(cut, len(raw)) for cut in cuts} | {0, len(raw)})
    return [raw[start:stop] for start, stop in pairwise(places)]


def one_by_one(raw: bytes) -> list[bytes]:
    """`raw` as single bytes."""
    return [raw[at : at + 1] for at in range(len(raw))]


def request_body(head: RequestHead) -> Body:
    """The decoder of a request's body."""
    return ChunkedBody() if head.body_length == CHUNKED else LengthBody(head.body_length)


def response_body(head: ResponseHead) -> Body:
    """The decoder of a response's body."""
    if head.body_length == UNTIL_CLOSE:
        return UntilCloseBody()
    if head.body_length == CHUNKED:
        return ChunkedBody(from_upstream=True)
    return LengthBody(head.body_length, from_upstream=True)


def read_requests(fed: Iterable[bytes], *, max_bytes: int = HEAD_MAX_BYTES) -> Read:
    """Read requests as the gateway does: one after the other, none behind one that ends the connection."""
    read = Read()
    buffer = HeadBuffer(max_bytes, skip_empty_line=True)
    body: Body | None = None
    content = bytearray()
    closed = False
    try:
        for data in fed:
            if closed:
                break
            if body is None:
                buffer.feed(data)
            else:
                content += b"".join(body.feed(data))
                if body.done:
                    buffer.feed(body.leftover)
            while True:
                if body is None:
                    raw = buffer.take()
                    if raw is None:
                        break
                    head = read_request_head(raw)
                    read.unfinished = head
                    body = request_body(head)
                    if not body.done:
                        content += b"".join(body.feed(buffer.leftover()))
                        if body.done:
                            buffer.feed(body.leftover)
                if not body.done:
                    break
                assert isinstance(read.unfinished, RequestHead)
                read.messages.append((read.unfinished, bytes(content)))
                closed = not read.unfinished.keep_alive
                body, read.unfinished = None, None
                content.clear()
                if closed:
                    break
    except ProtocolError as failure:
        read.error = failure.code
    return read


def read_response(fed: Iterable[bytes], method: str = "GET", *, eof: bool = False) -> Read:
    """Read one final response and the interim ones in front of it."""
    read = Read()
    buffer = HeadBuffer(RESPONSE_HEAD_MAX_BYTES, skip_empty_line=False, from_upstream=True)
    body: Body | None = None
    content = bytearray()
    try:
        for data in fed:
            if body is None:
                buffer.feed(data)
                while (raw := buffer.take()) is not None:
                    head = read_response_head(raw, method)
                    if head.status < 200:
                        read.messages.append((head, b""))
                        continue
                    read.unfinished = head
                    body = response_body(head)
                    content += b"".join(body.feed(buffer.leftover()))
                    break
            else:
                content += b"".join(body.feed(data))
        if body is not None and eof:
            body.eof()
        if body is not None and body.done:
            assert read.unfinished is not None
            read.messages.append((read.unfinished, bytes(content)))
            read.unfinished, read.rest = None, body.leftover
    except ProtocolError as failure:
        read.error = failure.code
    return read
