"""Step 12 for a WebSocket handshake: the upstream's first, then the caller's (§10)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dataplane.errors import GatewayError
from dataplane.forwarding.request_headers import request_headers
from dataplane.forwarding.response_headers import ResponseHeaders, response_headers
from dataplane.forwarding.target import upstream_path
from dataplane.http1.heads import ProtocolError
from dataplane.http1.write import reason_phrase, request_head, response_head
from dataplane.limits.keys import address_part
from dataplane.net.dates import http_date
from dataplane.upstream.exchange import gateway_error
from dataplane.upstream.failure import Failure, UpstreamUnreachable
from dataplane.upstream.relay import Relay as HttpRelay
from dataplane.websocket.frames import FrameReader
from dataplane.websocket.handshake import (
    KEY_BYTES,
    caller_response,
    new_key,
    read_acceptance,
    read_offer,
    upstream_request,
)
from dataplane.websocket.opened import OpenWebSocket, Surroundings
from dataplane.websocket.relay import Relay
from dataplane.websocket.side import RECEIVE_BYTES, Side

if TYPE_CHECKING:
    from common.identity.signature import IdentitySigner
    from common.routetable.compiled import Match, Upstream
    from dataplane.admission import Admission
    from dataplane.exchange import Exchange
    from dataplane.http1.heads import ResponseHead
    from dataplane.upstream.breaker import UpstreamBreaker
    from dataplane.upstream.connection import UpstreamConnection
    from dataplane.upstream.pool import UpstreamPool
    from dataplane.websocket.connections import Connections, Place
    from dataplane.websocket.handshake import Acceptance, Offer

SWITCHING = 101
TIMEOUT = Failure("timeout", "the upstream did not answer the handshake in time")


@dataclass(frozen=True, slots=True)
class Guards:
    """The bounds of one WebSocket (`GATEWAY_WS_*`)."""

    handshake_s: float
    max_message_bytes: int
    idle_s: float


class WebSocketStep:
    """Opens WebSockets. A handshake is an exchange with the first upstream of its route, on a connection of its own,
    and is never sent twice; what comes of it holds a place of `connections` until both sides are closed.
    """

    def __init__(
        self,
        *,
        pool: UpstreamPool,
        breaker: UpstreamBreaker,
        slots: Admission,
        signer: IdentitySigner,
        connections: Connections,
        guards: Guards,
        around: Surroundings,
        on_response: Callable[[Exchange], None],
    ) -> None:
        self._pool = pool
        self._breaker = breaker
        self._slots = slots
        self._signer = signer
        self._connections = connections
        self._guards = guards
        self._around = around
        self._on_response = on_response
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))

    async def __call__(self, x: Exchange) -> OpenWebSocket | None:
        """The opened WebSocket, whose caller was answered; None where the upstream refused with a 4xx, which the caller
        got. Raises `GatewayError` while the caller has not been answered.
        """
        if not x.matched.route.websocket:
            raise GatewayError("websocket_not_allowed")
        offer = read_offer(x.head)
        place = self._connections.take(_caller(x))
        opened = None
        try:
            self._slots.enter()
            try:
                opened = await _Handshake(self, x, x.matched, offer, place).run()
            finally:
                self._slots.leave()
        finally:
            if opened is None:
                place.leave()
        return opened


class _Handshake:
    """The handshake of one request."""

    def __init__(self, step: WebSocketStep, x: Exchange, match: Match, offer: Offer, place: Place) -> None:
        self._s = step
        self._x = x
        self._match = match
        self._upstream: Upstream = match.route.upstreams[0]
        self._offer = offer
        self._place = place
        self._key = new_key(os.urandom(KEY_BYTES))
        self._sent_at = 0.0
        self._refusal = 0
        """The status with which the upstream refused in a way that the caller does not see."""
        self._opened: OpenWebSocket | None = None
        self._connection: UpstreamConnection
        self._relay: HttpRelay

    async def run(self) -> OpenWebSocket | None:
        s, x, upstream = self._s, self._x, self._upstream
        request = self._request()
        x.upstream_origin = upstream.origin
        due = s._around.wheel.clock() + s._guards.handshake_s
        try:
            connect_s = min(self._match.route.timeouts.connect_s, s._guards.handshake_s)
            self._connection = await s._pool.dial(upstream, connect_s)
            failure = await self._ask(request, due)
        except UpstreamUnreachable as error:
            failure = error.failure
        if failure is None:
            return self._opened
        if self._refusal:
            raise GatewayError("bad_gateway", failure.reason)
        s._breaker.failed(upstream.origin, s._around.wheel.clock())
        s._around.metrics.upstream_failures.inc(x.route_id, failure.kind)
        raise gateway_error(failure)

    def _request(self) -> bytes:
        x, upstream = self._x, self._upstream
        path = upstream_path(upstream, self._match, x.head.path)
        headers = request_headers(x, upstream, path, self._s._signer)
        pairs = upstream_request(headers, self._offer, self._key)
        return request_head("GET", path + x.head.query, pairs)

    async def _ask(self, request: bytes, due: float) -> Failure | None:
        """None when the caller was answered: with 101, or with the upstream's refusal."""
        s, x, wheel = self._s, self._x, self._s._around.wheel
        timer = wheel.timer()
        relay = self._relay = HttpRelay(x, self._match.route, self._connection, timer, self._refused, self._switched)
        self._sent_at = wheel.clock()
        try:
            relay.send(request, None, max(due - self._sent_at, 0.0), TIMEOUT)
            result = await relay
        except BaseException:
            relay.abandon()
            if self._opened is not None:
                self._opened.release()
            raise
        finally:
            timer.cancel()
            del self._relay  # which holds this by its callbacks
        if self._opened is None:
            if relay.connection_reusable:
                s._pool.give_back(self._connection)
            else:
                self._connection.abort()
        if relay.cut_by:
            s._around.metrics.aborted.inc(x.route_id, relay.cut_by)
        if isinstance(result, GatewayError):
            raise result
        return result

    def _refused(self, head: ResponseHead) -> ResponseHeaders:
        """The upstream answered and did not switch: the caller sees a 4xx, and 502 for the rest (CONTRACT §10)."""
        if not 400 <= head.status <= 499:
            self._refusal = head.status
            self._s._breaker.answered(self._upstream.origin)
            raise ProtocolError("bad_gateway", f"the upstream answered the handshake with {head.status}")
        return self._answered(head)

    def _switched(self, head: ResponseHead, early_up: bytes) -> None:
        """The upstream switched: judge its answer, answer the caller, and join the two sockets, all at once."""
        x = self._x
        if x.client_gone:
            return
        acceptance = read_acceptance(head, self._offer, self._key)
        headers = [*caller_response(self._answered(head).all(), self._offer, acceptance), (b"date", http_date())]
        answer = response_head(SWITCHING, reason_phrase(SWITCHING), headers)
        relay = self._join(acceptance)
        relay.up.attach(self._connection.switch(relay.up))
        transport, early_down = x.connection.switch(answer, relay.down)
        relay.down.attach(transport)
        x.status = SWITCHING
        self._opened = OpenWebSocket(x, relay, self._place, self._s._around)
        self._relay.switched()
        relay.start(early_down, early_up)

    def _join(self, acceptance: Acceptance) -> Relay:
        s, wheel = self._s, self._s._around.wheel
        compressed, max_bytes = acceptance.deflate != b"", s._guards.max_message_bytes
        down = Side(
            "downstream",
            FrameReader(masked=True, compressed=compressed, max_message_bytes=max_bytes),
            buffer=s._buffer,
            wheel=wheel,
            on_lost=self._x.connection.connection_lost,
        )
        up = Side(
            "upstream",
            FrameReader(masked=False, compressed=compressed, max_message_bytes=max_bytes),
            buffer=s._buffer,
            wheel=wheel,
        )
        return Relay(down, up, wheel=wheel, idle_s=s._guards.idle_s)

    def _answered(self, head: ResponseHead) -> ResponseHeaders:
        """Note the upstream's answer; the headers of the caller's response, framing and handshake aside."""
        s, x = self._s, self._x
        x.upstream_s = s._around.wheel.clock() - self._sent_at
        s._around.metrics.upstream_duration.observe(x.upstream_s, x.route_id)
        s._breaker.answered(self._upstream.origin)
        s._on_response(x)
        return response_headers(
            head,
            route=self._match.route,
            upstream=self._upstream,
            forwarding=x.forwarding,
            request_id=x.request_id,
            added=x.response_headers,
        )


def _caller(x: Exchange) -> tuple[str, str]:
    """Whose WebSocket it is: the subject's, or the address's where nobody is authenticated."""
    return ("address", address_part(x.forwarding.client)) if x.principal is None else ("subject", x.principal.subject)
