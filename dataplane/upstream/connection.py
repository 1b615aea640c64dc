"""One connection to an upstream: requests out, responses in, one exchange at a time."""

from __future__ import annotations

import asyncio
import select
import ssl
from collections.abc import Callable
from typing import Protocol, cast

from dataplane.http1.body import ChunkedBody, LengthBody, UntilCloseBody
from dataplane.http1.buffer import HeadBuffer
from dataplane.http1.heads import CHUNKED, UNTIL_CLOSE, ProtocolError, ResponseHead
from dataplane.http1.readers import ResponseReader
from dataplane.net.tls import TlsTransport, reason_of
from dataplane.upstream.failure import Failure, FailureKind

RESPONSE_HEAD_MAX_BYTES = 65_536
# Interim responses before the final one; an upstream that sends more is broken (RFC 9110 §15.2 sets no bound).
INTERIM_MAX = 32


OnSwitch = Callable[[ResponseHead, bytes], None]


class ResponseReceiver(Protocol):
    """Takes one response. `on_head` once, pieces, then `on_end`; or `on_whole` in place of all; or `on_failure` at any
    time, and nothing after it.
    """

    def on_whole(self, head: ResponseHead, body: bytes) -> None:
        """The response came in one read, as most do."""
        ...

    def on_head(self, head: ResponseHead) -> None: ...

    def on_piece(self, piece: bytes) -> None: ...

    def on_end(self) -> None: ...

    def on_batch(self) -> None:
        """Everything that one read of the socket brought has been delivered: the time to write."""
        ...

    def on_failure(self, failure: Failure) -> None: ...

    def upstream_paused(self) -> None:
        """The upstream takes no more for now."""
        ...

    def upstream_resumed(self) -> None: ...


class UpstreamConnection(asyncio.Protocol):
    """The client's side of one connection. `reused` says that it carried an exchange before the current one."""

    __slots__ = (
        "_body",
        "_buffer",
        "_interims",
        "_method",
        "_on_switch",
        "_parse_head",
        "_poll",
        "_receiver",
        "_reusable",
        "_transport",
        "exchanges",
        "idle_since",
        "loop",
        "origin",
        "write_paused",
    )

    def __init__(self, origin: str, read_head: ResponseReader) -> None:
        self.loop = asyncio.get_running_loop()
        self.origin = origin
        self.exchanges = 0
        self.idle_since = 0.0
        self.write_paused = False
        self._buffer = HeadBuffer(RESPONSE_HEAD_MAX_BYTES, skip_empty_line=False, from_upstream=True)
        self._body: LengthBody | ChunkedBody | UntilCloseBody | None = None  # until a head is here that announces one
        self._interims = 0
        self._method = ""
        self._on_switch: OnSwitch | None = None
        self._receiver: ResponseReceiver | None = None
        self._reusable = False
        self._transport: asyncio.Transport
        self._parse_head = read_head
        self._poll: select.poll | None = None

    # The exchange's side

    def begin(self, method: str, receiver: ResponseReceiver, head: bytes, on_switch: OnSwitch | None = None) -> None:
        """Start an exchange with a request's head, or all of it; the response goes to `receiver`.

        A 101 is a failure unless the request asked for it: then it goes to `on_switch`, with the bytes behind it, who
        calls `switch` or raises `ProtocolError`.
        """
        self._method = method
        self._receiver = receiver
        self._on_switch = on_switch
        self._body = None
        self._interims = 0
        self._reusable = False
        self.exchanges += 1
        self._transport.write(head)

    @property
    def reused(self) -> bool:
        return self.exchanges > 1

    @property
    def alive(self) -> bool:
        """Fit for another exchange as far as can be known: open, and silent."""
        return not self._transport.is_closing() and (self._poll is None or not self._poll.poll(0))

    @property
    def reusable(self) -> bool:
        """The response ended cleanly, the request is written, and the upstream keeps the connection."""
        return self._reusable and not self.write_paused and not self._transport.is_closing()

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def pause_reading(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def has_input(self) -> bool:
        """Bytes or an end of the connection wait unread in the kernel.

        Asked before a kept connection is used again (it may have been closed, or hold bytes nobody asked for), and
        before more of an upload is written: a write to an upstream that answered early and closed would destroy its
        answer. Of a TLS connection only its end can be known this way.
        """
        return self._poll is not None and bool(self._poll.poll(0))

    def release(self) -> None:
        """The exchange is over; what arrives now is unsolicited."""
        self._receiver = None

    def abort(self) -> None:
        """Cut the connection; nothing is reported."""
        self._receiver = None
        self._transport.abort()

    def switch(self, successor: asyncio.BaseProtocol) -> asyncio.Transport:
        """Hand the socket over, paused, to `successor`: this connection's exchanges are over."""
        self._receiver = None
        self._on_switch = None
        self._poll = None
        self._transport.pause_reading()
        self._transport.set_protocol(successor)
        return self._transport

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            # Asked only while the transport is open: afterwards the descriptor may be another connection's. Bytes that
            # wait on a TLS connection may be a ticket or new keys, and say nothing.
            secure = transport.get_extra_info("ssl_object") is not None
            self._poll = select.poll()
            self._poll.register(sock.fileno(), select.POLLRDHUP if secure else select.POLLIN | select.POLLRDHUP)

    def data_received(self, data: bytes) -> None:
        receiver = self._receiver
        if receiver is None:
            self._transport.abort()  # nobody asked: it must not become the head of the next response
            return
        try:
            if self._body is None:
                self._read_head(data, receiver)
            else:
                self._read_body(data)
        except ProtocolError as error:
            self._fail(Failure("malformed", error.reason))
            return
        if self._receiver is receiver:
            receiver.on_batch()

    def eof_received(self) -> bool:
        receiver = self._receiver
        if receiver is None:
            return False
        if self._body is not None:
            if self._cut_off and isinstance(self._body, UntilCloseBody):
                self._fail(Failure("reset", "the connection was cut, without TLS's close_notify", sent=True))
                return False
            try:
                self._body.eof()
            except ProtocolError as error:
                self._fail(Failure("reset", error.reason))
                return False
            self._end()
            return False
        self._closed_early("the upstream closed the connection without a response head")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._poll = None
        if self._receiver is None:
            return
        if isinstance(exc, ssl.SSLError):
            # With TLS 1.3 an upstream that refuses the gateway's certificate says so behind the handshake.
            self._closed_early(reason_of(exc), kind="tls")
        else:
            self._closed_early(str(exc) if exc else "the connection was lost")

    def pause_writing(self) -> None:
        self.write_paused = True
        if self._receiver is not None:
            self._receiver.upstream_paused()

    def resume_writing(self) -> None:
        self.write_paused = False
        if self._receiver is not None:
            self._receiver.upstream_resumed()

    @property
    def _cut_off(self) -> bool:
        """Whoever can cut the connection could make half a body look whole (RFC 9112 §9.8)."""
        return isinstance(self._transport, TlsTransport) and not self._transport.said_goodbye

    # Reading

    def _read_head(self, data: bytes, receiver: ResponseReceiver) -> None:
        while (cut := self._buffer.cut(data)) is not None:
            raw, data = cut
            head = self._parse_head(raw, self._method)
            if head.status >= 200:
                self._reusable = head.keep_alive
                if head.body_length == len(data):
                    receiver.on_whole(head, data)
                    self._receiver = None
                else:
                    self._body = _decoder(head)
                    receiver.on_head(head)
                    self._read_body(data)
                break
            if head.status == 101:
                if self._on_switch is None:
                    raise ProtocolError("bad_gateway", "the upstream switched protocols unasked")
                self._on_switch(head, data)
                break
            self._interims += 1
            if self._interims > INTERIM_MAX:
                raise ProtocolError("bad_gateway", f"more than {INTERIM_MAX} interim responses")

    def _read_body(self, data: bytes) -> None:
        body, receiver = self._body, self._receiver
        if receiver is None or body is None:
            return
        if not body.done and data:
            pieces = body.feed(data)
            if pieces:
                # What one read brought goes on in one piece, however small its chunks are.
                receiver.on_piece(pieces[0] if len(pieces) == 1 else b"".join(pieces))
                if self._receiver is None:
                    return
            data = body.leftover if body.done else b""
        if body.done:
            if data:
                self._reusable = False  # bytes behind the response's end: the next one could not be trusted
            self._end()

    def _end(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.on_end()

    def _closed_early(self, reason: str, *, kind: FailureKind = "reset") -> None:
        stale = self.reused and self._body is None and not self._buffer.started
        self._fail(Failure(kind, reason, stale=stale, sent=True))

    def _fail(self, failure: Failure) -> None:
        receiver, self._receiver = self._receiver, None
        self._transport.abort()
        if receiver is not None:
            receiver.on_failure(failure)


def _decoder(head: ResponseHead) -> LengthBody | ChunkedBody | UntilCloseBody:
    if head.body_length == CHUNKED:
        return ChunkedBody(from_upstream=True)
    if head.body_length == UNTIL_CLOSE:
        return UntilCloseBody()
    return LengthBody(head.body_length, from_upstream=True)
