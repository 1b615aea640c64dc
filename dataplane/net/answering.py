"""The writing half of a connection: answers framed for their caller, held until the moment to write."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dataplane.http1.write import (
    CONTINUE,
    LAST_CHUNK,
    NO_LINES,
    Lines,
    chunk_parts,
    reason_phrase,
    response_framing,
    response_head,
)
from dataplane.net.dates import http_date
from dataplane.net.stepped import SteppedTask

if TYPE_CHECKING:
    from dataplane.exchange import Exchange
    from dataplane.forwarding.response_headers import ResponseHeaders
    from dataplane.http1.heads import ResponseHead
    from dataplane.net.request_body import RequestBody
    from dataplane.net.shared import Listener
    from dataplane.replies import Reply

_OVERLOADED_BODY = b'{"error":"gateway_overloaded","message":"The gateway has no room for another connection."}'
OVERLOADED = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncache-control: no-store\r\n"
    b"retry-after: 1\r\nproxy-status: wicketgate; error=connection_limit_reached\r\nconnection: close\r\n"
    b"content-length: " + str(len(_OVERLOADED_BODY)).encode() + b"\r\n\r\n" + _OVERLOADED_BODY
)


class Answering(SteppedTask):
    """What the dispatcher and the exchange with the upstream write through (`dataplane.exchange.Downstream`)."""

    __slots__ = (
        "_exchange",
        "_keep_alive",
        "_listener",
        "_no_body",
        "_out",
        "_response_chunked",
        "_transport",
        "body",
        "responded",
        "response_done",
    )

    _no_body: RequestBody
    body: RequestBody

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener.turns)
        self._listener = listener
        self._transport: asyncio.Transport
        self._exchange: Exchange | None = None
        self._keep_alive = True
        self._response_chunked = False
        self._out: list[bytes] = []
        self.responded = False
        """A response head went out for the current request."""
        self.response_done = False

    def _send_continue(self) -> None:
        if not self.responded:
            self._transport.write(CONTINUE)

    def send_reply(self, reply: Reply, extra: list[tuple[bytes, bytes]]) -> int:
        """Write a whole answer of the gateway's own; how many body bytes went out."""
        method = "-" if self._exchange is None else self._exchange.head.method
        headers = [*reply.headers, *extra, (b"date", http_date())]
        declared = b"%d" % len(reply.body)
        head = self._framed_head(method, reply.status, b"", headers, body_length=len(reply.body), declared=declared)
        body = b"" if method == "HEAD" else reply.body
        self._out.append(head + body)
        self.response_done = True
        self.flush()
        return len(body)

    def start_response(self, head: ResponseHead, headers: ResponseHeaders) -> None:
        """Write an upstream's response head (held until `flush`); its body is framed anew for this caller."""
        self._out.append(self._head_of(head, headers))

    def send_response(self, head: ResponseHead, headers: ResponseHeaders, body: bytes) -> None:
        """Write an upstream's answer whole, at once."""
        written = self._head_of(head, headers)
        self.response_done = True
        if not self._transport.is_closing():
            self._transport.write(written + body)

    def _head_of(self, head: ResponseHead, headers: ResponseHeaders) -> bytes:
        assert self._exchange is not None  # noqa: S101 (the exchange runs: it is the one that calls)
        request, copied = self._exchange.head, headers.copied
        method = request.method
        if method != "HEAD" and not request.http_1_0 and self._may_go_on:
            self.responded = True
            self._response_chunked = copied.chunked
            return b"%b%b\r\n" % (copied.start, headers.of_gateway)
        declared = head.value(b"content-length") if method == "HEAD" or head.status == 304 else None
        lines = Lines(copied.lines + headers.of_gateway)
        return self._framed_head(
            method, head.status, head.reason, [], lines, body_length=head.body_length, declared=declared
        )

    @property
    def _may_go_on(self) -> bool:
        """Another request may follow the current one, as far as is known before its answer."""
        body = self.body
        return (
            self._keep_alive
            and not self._listener.draining
            and (body is self._no_body or (body.complete and not body.broken))
        )

    def _framed_head(
        self,
        method: str,
        status: int,
        reason: bytes,
        headers: list[tuple[bytes, bytes]],
        copied: Lines = NO_LINES,
        *,
        body_length: int,
        declared: bytes | None,
    ) -> bytes:
        framing = response_framing(
            method=method,
            status=status,
            body_length=body_length,
            declared=declared,
            http_1_0=self._exchange is not None and self._exchange.head.http_1_0,
            keep_alive=self._may_go_on,
        )
        self._keep_alive = not framing.close
        self._response_chunked = framing.chunked
        self.responded = True
        headers += framing.headers
        return response_head(status, reason or reason_phrase(status), headers, copied)

    def write_piece(self, piece: bytes) -> None:
        """Write a piece of the response body (held until `flush`)."""
        if self._response_chunked:
            self._out += chunk_parts(piece)
        else:
            self._out.append(piece)

    def end_response(self) -> None:
        """The response body is whole."""
        if self._response_chunked:
            self._out.append(LAST_CHUNK)
        self.response_done = True
        self.flush()

    def flush(self) -> None:
        """Hand everything held to the transport at once."""
        out = self._out
        if not out:
            return
        if not self._transport.is_closing():
            # Not `writelines`: that of asyncio up to 3.12.8 and 3.13.1 never pauses its writer (CVE-2024-12254).
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))
        out.clear()
