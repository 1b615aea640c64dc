"""One downstream connection: bytes to requests, answers to bytes, and the rules of when it stays open.

States: between requests it waits for a head; during an exchange the body goes to its sink and what lies behind it is
held as the next request (bounded); after the last exchange it lingers shortly, so that a caller which still sends can
read its answer, and closes. A caller that leaves during an exchange cancels it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING, cast

from dataplane.exchange import Exchange, PauseListener
from dataplane.http1.body import ChunkedBody, LengthBody
from dataplane.http1.buffer import HeadBuffer
from dataplane.http1.heads import CHUNKED, ProtocolError, RequestHead
from dataplane.net.answering import OVERLOADED, Answering
from dataplane.net.hangup import Hangup, hangup
from dataplane.net.request_body import Decoder, RequestBody
from dataplane.net.stepped import parked

if TYPE_CHECKING:
    from dataplane.net.shared import Listener
    from dataplane.net.timers import Timer

# Bytes of requests that are held until somebody looks at them, the following ones while an exchange runs above all;
# more stops the reading of the socket.
PIPELINE_MAX_BYTES = 65_536
# A caller that still sends after its answer is read this long (idle, in all), so that a reset does not eat the answer.
LINGER_IDLE_S = 2.0
LINGER_MAX_S = 10.0
# A connection beyond the bound is held this long, so that its caller, who may have sent a request, reads why.
OVERLOADED_S = 1.0
# How soon a caller that leaves is noticed while the upstream's slowness keeps its socket from being read.
LOOK_FOR_CALLER_S = 0.5
RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # `struct linger`: on, for no time


class DownstreamConnection(Answering, asyncio.Protocol):
    """The server's side of one connection; `secure` says that its transport is TLS."""

    __slots__ = (
        "_buffer",
        "_closing",
        "_eof",
        "_heading",
        "_linger_until",
        "_pipelined",
        "_reading",
        "_refused",
        "_secure",
        "_task",
        "_timer",
        "_writable",
        "_write_paused",
        "budget",
        "on_writable",
        "peer",
    )

    def __init__(self, listener: Listener, *, secure: bool = False) -> None:
        super().__init__(listener)
        self._secure = secure
        self._buffer = HeadBuffer(listener.limits.head_max_bytes, skip_empty_line=True)
        self._task: asyncio.Task[None] | None = None
        self._heading = False  # the budget of a head runs
        self._writable: asyncio.Future[None] | None = None
        self._timer: Timer = listener.wheel.timer()
        self.budget: Timer = listener.wheel.timer()
        """Of the exchange that runs; who runs it sets and cancels it."""
        self._reading = True
        self._write_paused = False
        self._closing = False
        self._refused = False
        self._eof = False
        self._linger_until = 0.0
        self._pipelined = 0
        self._no_body = RequestBody(None, self._adjust_reading, None)
        self.body = self._no_body
        self.peer = ""
        self.on_writable: PauseListener | None = None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername")
        self.peer = name[0] if isinstance(name, tuple) else ""
        if not self._listener.opened(self):
            self._closing = True
            self._transport.write(OVERLOADED)
            self._transport.write_eof()
            self._timer.set(OVERLOADED_S, self._transport.abort)
            return
        self._timer.set(self._listener.limits.keepalive_timeout_s, self._idle_timeout)
        self._task = self._listener.tasks.spawn(self.run(self._serve), "downstream connection")

    def data_received(self, data: bytes) -> None:
        if self._closing or self._refused:
            if self._linger_until:
                self._linger()
            return
        if self._exchange is not None:
            data = self.body.feed(data)
            if not data:
                return
        self._buffer.feed(data)
        self._pipelined += len(data)
        if self._exchange is not None or self._pipelined >= PIPELINE_MAX_BYTES:
            self._adjust_reading()  # until the task has looked at it
        if self._exchange is None:
            self.wake()

    def eof_received(self) -> bool:
        """The caller will send nothing more. In an exchange that is a caller that left: FIN is all it sends."""
        self._eof = True
        if self._closing:
            self._transport.close()
            return False
        if self._exchange is not None:
            self._caller_left()
            return True
        if self._buffer.started:
            self._refuse(ProtocolError("bad_request", "the connection ended within a request head"))
            return True
        self.close()
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (why makes no difference here)
        self._timer.cancel()
        self._closing = True
        self._listener.closed(self)
        self.resume_writing()
        self._caller_left()
        self.wake()
        if self._task is None:
            self._release()

    def pause_writing(self) -> None:
        self._write_paused = True
        if self.on_writable is not None:
            self.on_writable.downstream_paused()

    def resume_writing(self) -> None:
        self._write_paused = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        if self.on_writable is not None:
            self.on_writable.downstream_resumed()

    # The task

    async def _serve(self) -> None:
        handle = self._listener.handler.handle
        try:
            # A head may have been refused before the first look at it: over TLS it comes with the handshake's end.
            while not self._closing and not self._refused:
                if not self._pipelined:
                    await parked()
                    continue
                x = self._next_exchange()
                if x is None:
                    continue
                await handle(x)
                del x  # not to be held while the next is waited for
                if self._pipelined:
                    # The turn of the others: a thousand requests in one packet are answered one by one among theirs.
                    self.wake()
                    await parked()
                if not self._exchange_over():
                    break
                if self._write_paused:
                    await self._until_written()
        except asyncio.CancelledError:
            if not self._closing and not self._transport.is_closing():
                self.abort()
            raise
        finally:
            self._finish()

    def _next_exchange(self) -> Exchange | None:
        """The next request, once its head is whole. One that cannot be read is refused."""
        try:
            raw = self._buffer.take()
            if raw is not None:
                return self._begin(self._listener.read_head(raw))
        except ProtocolError as error:
            self._refuse(error)
            return None
        self._pipelined = 0
        if not self._reading:
            self._adjust_reading()
        if not self._heading and self._buffer.started:
            self._heading = True
            self._timer.set(self._listener.limits.head_timeout_s, self._head_timeout)
        return None

    def _begin(self, head: RequestHead) -> Exchange:
        if self._heading:
            self._heading = False
            self._timer.cancel()
        self.responded = self.response_done = False
        # Behind a handshake that was refused the caller may go on as if it had not been.
        self._keep_alive = head.keep_alive and head.upgrade != "websocket"
        self.body = self._no_body if head.body_length == 0 else self._new_body(head)
        self._exchange = x = self._new_exchange(head)
        self._pipelined = 0
        rest = self._buffer.leftover()
        if rest:
            rest = self.body.feed(rest)
            if rest:
                self._buffer.feed(rest)
                self._pipelined = len(rest)
        if self._pipelined or not self._reading:
            self._adjust_reading()
            self._watch_caller()
        return x

    def _new_body(self, head: RequestHead) -> RequestBody:
        decoder: Decoder
        if head.body_length == CHUNKED:
            limits = self._listener.limits
            decoder = ChunkedBody(trailers_max_bytes=limits.head_max_bytes, trailers_max=limits.max_headers)
        else:
            decoder = LengthBody(head.body_length)
        return RequestBody(decoder, self._adjust_reading, self._send_continue if head.expect_continue else None)

    def _new_exchange(self, head: RequestHead) -> Exchange:
        return Exchange(head, self, self.peer, self._secure, self._listener.wheel.clock())

    def _exchange_over(self) -> bool:
        """Whether the connection may carry another exchange."""
        self._exchange = None
        if not self._keep_alive or self._closing or self._eof or self._transport.is_closing():
            return False
        body = self.body
        if body is not self._no_body:
            if not body.complete or body.broken:
                return False
            body.stop()
        if self._out:
            self.flush()
        # Whatever is here already: an empty line alone would begin no head, and so no other budget.
        self._timer.set(self._listener.limits.keepalive_timeout_s, self._idle_timeout)
        return True

    async def _until_written(self) -> None:
        """Wait for a caller that sends requests and does not read its answers, within the keep-alive budget.

        Nothing is read meanwhile: nobody takes requests from the buffer, so it would grow as fast as the caller sends.
        """
        if self._reading:
            self._reading = False
            self._transport.pause_reading()
        self._timer.set(self._listener.limits.keepalive_timeout_s, self.abort)
        self._writable = self._loop.create_future()
        await self._writable
        self._writable = None
        self._adjust_reading()
        if not self._closing:
            self._timer.set(self._listener.limits.keepalive_timeout_s, self._idle_timeout)

    def _finish(self) -> None:
        """The task is over: flush, then close; lingering where the caller may still be sending."""
        self._exchange = None
        self._task = None
        if self._closing or self._transport.is_closing():
            self._closing = True
            self._transport.close()
            self._release()
            return
        self.flush()
        self._closing = True
        unread = self._refused or self.body.broken or not self.body.complete or self._buffer.started
        if not unread or self._eof:
            self.close()
            return
        self._linger_until = self._listener.wheel.clock() + LINGER_MAX_S
        if not self._reading:
            self._reading = True
            self._transport.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._linger()

    def _release(self) -> None:
        """Nothing happens here any more. What this holds and is held by is let go of, so that it is freed now: the
        garbage collector, which would find it, runs seldom.
        """
        self._no_body.release()
        self.body.release()

    def _linger(self) -> None:
        left = self._linger_until - self._listener.wheel.clock()
        if left <= 0:
            self._transport.abort()
        else:
            self._timer.set(min(LINGER_IDLE_S, left), self._transport.abort)

    # What ends a wait

    def _idle_timeout(self) -> None:
        if self._exchange is None:  # the budget is not stopped for a request, but set anew behind it
            self.close()

    def _head_timeout(self) -> None:
        self._refuse(ProtocolError("request_timeout", "the request head was not complete in time"))

    def _refuse(self, error: ProtocolError) -> None:
        """Answer a head that cannot be read, and end the connection."""
        if self._closing or self._refused:
            return
        self._refused = True
        self._timer.cancel()
        self._keep_alive = False
        self.responded = self.response_done = False
        self._listener.handler.refuse_head(self._new_exchange(UNREAD_HEAD), error)
        self.wake()

    def _caller_left(self) -> None:
        x = self._exchange
        if x is None or self._task is None or self.response_done:
            return
        x.client_gone = True
        self._closing = True
        self._task.cancel()

    def close(self) -> None:
        """Close when everything written has gone out; a slow reader has the keep-alive budget for it, as between two
        requests.
        """
        self._closing = True
        self.wake()
        if not self._transport.is_closing():
            self._timer.set(max(LINGER_MAX_S, self._listener.limits.keepalive_timeout_s), self.abort)
            self._transport.close()

    @property
    def idle(self) -> bool:
        """It waits for a request of which no byte has come."""
        return self._exchange is None and not self._buffer.started

    def abort(self) -> None:
        """Cut the connection and what runs on it, so that the caller sees a cut.

        A body that ends with its connection (HTTP/1.0) shows it only by a reset; an abort alone sends a clean end.
        """
        if not self._transport.is_closing() or self._transport.get_write_buffer_size():
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self._transport.abort()

    def _adjust_reading(self) -> None:
        want = self.body.wants_data and self._pipelined < PIPELINE_MAX_BYTES
        if want == self._reading or self._transport.is_closing():
            return
        self._reading = want
        if want:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()
        if self._exchange is not None:
            self._watch_caller()

    def _watch_caller(self) -> None:
        """While a request is answered: a socket that is read tells of its end by itself."""
        if self._reading:
            self._timer.cancel()
        else:
            self._timer.set(LOOK_FOR_CALLER_S, self._look_for_caller)

    def _look_for_caller(self) -> None:
        """A socket that is not read tells nothing of its end by itself: ask, as long as reading is paused."""
        if hangup(self._transport) is not Hangup.NONE:
            self._caller_left()
        elif not self._reading:
            self._timer.set(LOOK_FOR_CALLER_S, self._look_for_caller)

    # The ends of an answer

    def switch(self, head: bytes, successor: asyncio.BaseProtocol) -> tuple[asyncio.Transport, bytes]:
        """Answer with `head`, a whole 101, and hand the socket over, paused, to `successor`.

        The transport, and what the caller sent behind its request. `successor` passes `connection_lost` on to this
        connection, whose task goes on waiting for the exchange and closes the socket when that is over.
        """
        self._timer.cancel()
        self.responded = self.response_done = True
        self._keep_alive = False
        transport = self._transport
        if not transport.is_closing():
            transport.pause_reading()
            transport.write(head)
        transport.set_protocol(successor)
        return transport, self._buffer.leftover()

    def cut_response(self) -> None:
        """End a response whose body broke: what was written goes out, and the caller sees that it is not whole."""
        self.flush()
        self._keep_alive = False
        self.response_done = True
        self._closing = True
        x = self._exchange
        if x is not None and x.head.http_1_0 and not self._response_chunked:
            self.abort()
        else:
            self._transport.close()
            self._timer.set(LINGER_MAX_S, self._transport.abort)

    @property
    def writable(self) -> bool:
        return not self._write_paused


UNREAD_HEAD = RequestHead(
    method="-", path="-", query="", http_1_0=False, headers=(), authority=None, body_length=0, keep_alive=False
)
