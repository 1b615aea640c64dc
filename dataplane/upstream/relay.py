"""One attempt: the request body to the upstream, the response to the caller, joined by callbacks, within budgets.

    downstream socket --piece--> Relay --write--> upstream socket
    downstream socket <--write-- Relay <--piece-- upstream socket

The task of the downstream connection awaits it: None when the caller was answered (whole or cut), a `Failure` when the
upstream failed before its response head, a `GatewayError` when the request itself must be refused (too large, too slow,
broken).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from dataplane.errors import GatewayError
from dataplane.exchange import Exchange
from dataplane.http1.heads import CHUNKED, ResponseHead
from dataplane.http1.write import LAST_CHUNK, chunk_parts
from dataplane.net.stepped import PARKED
from dataplane.upstream.failure import Failure

if TYPE_CHECKING:
    from common.routetable.compiled import Route
    from dataplane.forwarding.response_headers import ResponseHeaders
    from dataplane.net.timers import Timer
    from dataplane.upstream.connection import OnSwitch, UpstreamConnection

Result = Failure | GatewayError | None


class Relay:
    """Body sink of the downstream side and response receiver of the upstream side, for one attempt."""

    __slots__ = (
        "_body_began",
        "_connection",
        "_deadline_kind",
        "_downstream_paused",
        "_finished",
        "_handed_over",
        "_held",
        "_on_head",
        "_on_switch",
        "_request_done",
        "_resolved",
        "_response_due_s",
        "_result",
        "_route",
        "_timer",
        "_x",
        "cut_by",
        "responded",
    )

    def __init__(
        self,
        x: Exchange,
        route: Route,
        connection: UpstreamConnection,
        timer: Timer,
        on_head: Callable[[ResponseHead], ResponseHeaders],
        on_switch: OnSwitch | None = None,
    ) -> None:
        """`on_head` gives the headers for the caller, or raises `ProtocolError` for a response that it must not see."""
        self._x = x
        self._route = route
        self._connection = connection
        self._timer = timer
        self._on_head = on_head
        self._on_switch = on_switch
        self._body_began = False
        self._downstream_paused = False
        self._finished = False
        self._handed_over = False
        self._held: tuple[bytes, ...] = ()
        self._request_done = False
        self._response_due_s: float
        self._deadline_kind: Failure
        self.cut_by = ""
        """The side (`upstream`, `downstream`) for whose sake the response was cut behind its head, else `""`."""
        self._resolved = False
        self._result: Result = None
        self.responded = False

    def __await__(self) -> Generator[object, None, Result]:
        while not self._resolved:
            yield PARKED
        return self._result

    def send(self, head: bytes, held_body: bytes | None, response_due_s: float, deadline: Failure) -> None:
        """Send the request. A held body goes with its head; else the body is streamed, if there is one.

        `response_due_s` is what is left for the response head once the request is sent; `deadline` is the failure
        that its passing means.
        """
        x, connection = self._x, self._connection
        self._deadline_kind = deadline
        method, body_length = x.head.method, x.head.body_length
        if held_body is not None or body_length == 0:
            connection.begin(method, self, head + held_body if held_body else head, self._on_switch)
            self._request_done = True
            self._timer.set(response_due_s, self._response_timeout)
            return
        self._response_due_s = response_due_s
        connection.begin(method, self, head, self._on_switch)
        self._timer.set(self._route.timeouts.upload_s, self._upload_timeout)
        x.connection.body.start(self)

    def abandon(self) -> None:
        """The exchange was cancelled: cut the upstream, report nothing.

        Also when the response ended between the cancelling and now: nobody else gives its connection back or closes it.
        """
        if not self._finished:
            self._finish()
        if not self._handed_over:
            self._connection.abort()

    def switched(self) -> None:
        """Both sockets were handed over to another protocol: nothing of this exchange is left."""
        self._handed_over = True
        self._finish()
        self._resolve(None)

    # The request body (BodySink)

    def piece(self, data: bytes) -> None:
        if self._finished:
            return
        x = self._x
        x.bytes_in += len(data)
        limit = self._route.max_body_bytes
        if limit and x.bytes_in > limit:
            self._refuse(GatewayError("payload_too_large", f"the body is larger than {limit} bytes"))
            return
        if not self.responded:
            self._timer.extend(self._route.timeouts.upload_s)
            if self._held or self._connection.has_input():
                # The upstream has answered or closed: writing on would destroy the answer that waits to be read.
                self._held += (data,)
                x.connection.body.pause()
                return
        self._write(data)

    def _write(self, data: bytes) -> None:
        if self._x.head.body_length == CHUNKED:
            self._connection.write(b"".join(chunk_parts(data)))
        else:
            self._connection.write(data)

    def end(self) -> None:
        if self._finished:
            return
        if self._x.head.body_length == CHUNKED:
            self._connection.write(LAST_CHUNK)
        self._sent()

    def failed(self, code: str, reason: str) -> None:
        if not self._finished:
            self._refuse(GatewayError(code, reason))

    def _sent(self) -> None:
        self._request_done = True
        if not self.responded:
            self._timer.set(self._response_due_s, self._response_timeout)

    def _send_held(self) -> None:
        held, self._held = self._held, ()
        for data in held:
            self._write(data)
        self._x.connection.body.resume()

    def upstream_paused(self) -> None:
        if not self._request_done:
            self._x.connection.body.pause()

    def upstream_resumed(self) -> None:
        if not self._request_done and not self._held:
            self._x.connection.body.resume()

    # The response (ResponseReceiver)

    def on_head(self, head: ResponseHead) -> None:
        x = self._x
        headers = self._on_head(head)
        self.responded = True
        x.status = head.status
        connection = x.connection
        connection.on_writable = self
        connection.start_response(head, headers)
        if not connection.writable:
            self.downstream_paused()
        if self._held:
            self._send_held()

    def on_whole(self, head: ResponseHead, body: bytes) -> None:
        x = self._x
        headers = self._on_head(head)
        self.responded = True
        x.status = head.status
        x.bytes_out += len(body)
        self._finish()
        connection = x.connection
        connection.send_response(head, headers, body)
        self._resolved = True
        connection.wake()

    def on_piece(self, piece: bytes) -> None:
        self._x.bytes_out += len(piece)
        self._x.connection.write_piece(piece)
        self._body_began = True

    def on_batch(self) -> None:
        if self.responded:  # and there is more to come: what came whole needs no budget
            timeouts = self._route.timeouts
            self._timer.set(timeouts.body_s if self._body_began else timeouts.first_byte_s, self._body_timeout)
        if self._held:
            self._send_held()  # what had come was an interim response
        self._x.connection.flush()

    def on_end(self) -> None:
        self._finish()
        self._x.connection.end_response()
        self._resolve(None)

    def on_failure(self, failure: Failure) -> None:
        self._finish()
        if self.responded:
            self._cut(failure.reason, "upstream")
        else:
            self._resolve(failure)

    def downstream_paused(self) -> None:
        if not self._finished:
            self._downstream_paused = True
            self._connection.pause_reading()

    def downstream_resumed(self) -> None:
        if self._downstream_paused:
            self._downstream_paused = False
            self._connection.resume_reading()

    # Ends

    def _refuse(self, error: GatewayError) -> None:
        """The request cannot go on: the upstream's part of it is cut."""
        self._finish()
        self._connection.abort()
        if self.responded:
            self._cut(error.detail, "downstream")
        else:
            self._resolve(error)

    def _upload_timeout(self) -> None:
        self._refuse(GatewayError("request_timeout", "the upload made no progress in its budget"))

    def _response_timeout(self) -> None:
        self._finish()
        self._connection.abort()
        self._resolve(self._deadline_kind)

    def _body_timeout(self) -> None:
        unread = self._downstream_paused
        self._finish()
        self._connection.abort()
        if unread:
            self._cut("the caller did not read the response body within its budget", "downstream")
        else:
            self._cut("the response body made no progress in its budget", "upstream")

    def _cut(self, reason: str, side: str) -> None:
        x = self._x
        self.cut_by = side
        x.outcome = "aborted"
        x.error_detail = reason
        x.connection.cut_response()
        self._resolve(None)

    def _finish(self) -> None:
        self._finished = True
        self._timer.cancel()
        connection = self._x.connection
        connection.on_writable = None
        if self._downstream_paused:
            self._downstream_paused = False
            self._connection.resume_reading()
        self._connection.release()
        if not self._request_done and self._x.head.body_length != 0:
            connection.body.stop()

    def _resolve(self, result: Result) -> None:
        if not self._resolved:
            self._resolved = True
            self._result = result
            self._x.connection.wake()

    @property
    def connection_reusable(self) -> bool:
        """Both sides of the exchange are whole, and the upstream keeps the connection."""
        return self._request_done and self._connection.reusable


TIMEOUT = Failure("timeout", "no response head within the response budget")
ATTEMPT = Failure("attempt", "no response head within the attempt budget")
