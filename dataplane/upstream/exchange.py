"""Forwarding one request: which upstreams are tried, in what order, and what the caller sees (§11.3, §11.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dataplane.crosssite import SAFE_METHODS
from dataplane.errors import GatewayError
from dataplane.exchange import Exchange
from dataplane.forwarding.request_headers import copied_headers, gateway_lines
from dataplane.forwarding.response_headers import ResponseHeaders, response_headers
from dataplane.forwarding.target import upstream_path
from dataplane.http1.heads import ResponseHead
from dataplane.http1.write import Lines, header_lines, request_framing, request_head
from dataplane.upstream.failure import Failure, UpstreamUnreachable
from dataplane.upstream.relay import ATTEMPT, TIMEOUT, Relay, Result

if TYPE_CHECKING:
    from common.identity.signature import IdentitySigner
    from common.routetable.compiled import Match, Route, Upstream
    from common.telemetry.log import Log
    from dataplane.admission import Admission
    from dataplane.metrics import GatewayMetrics
    from dataplane.net.timers import Timer, TimerWheel
    from dataplane.upstream.breaker import UpstreamBreaker
    from dataplane.upstream.connection import UpstreamConnection
    from dataplane.upstream.pool import UpstreamPool


class Forwarder:
    """Step 12 for HTTP: forwards the exchange's request to an upstream of its route."""

    def __init__(
        self,
        *,
        pool: UpstreamPool,
        breaker: UpstreamBreaker,
        wheel: TimerWheel,
        slots: Admission,
        signer: IdentitySigner,
        metrics: GatewayMetrics,
        log: Log,
        on_response: Callable[[Exchange], None],
    ) -> None:
        self._pool = pool
        self._breaker = breaker
        self._wheel = wheel
        self._slots = slots
        self._signer = signer
        self._metrics = metrics
        self._log = log
        self._on_response = on_response

    async def __call__(self, x: Exchange) -> None:
        """Returns when the caller has been answered, whole or cut. Raises `GatewayError` while it has not."""
        match = x.matched
        route = match.route
        if route.max_body_bytes and x.head.body_length > route.max_body_bytes:
            raise GatewayError("payload_too_large", f"content-length is over {route.max_body_bytes} bytes")
        self._slots.enter()
        try:
            forwarding = _Forwarding(self, x, match)
            if forwarding.body_may_be_held:
                await forwarding.hold_body()
            order = forwarding.order()
            for position, upstream in enumerate(order, 1):
                behind = position < len(order)
                failure = await forwarding.try_upstream(upstream, behind)
                if failure is None:
                    return
                forwarding.failed(upstream, failure, behind)
        finally:
            x.connection.budget.cancel()
            self._slots.leave()


class _Forwarding:
    """The attempts of one request."""

    __slots__ = (
        "_f",
        "_held_body",
        "_match",
        "_resendable",
        "_response_deadline",
        "_route",
        "_sent_at",
        "_upstream",
        "_x",
    )

    def __init__(self, forwarder: Forwarder, x: Exchange, match: Match) -> None:
        self._f = forwarder
        self._x = x
        self._match = match
        self._route: Route = match.route
        self._held_body: bytes | None = None
        self._response_deadline = 0.0
        self._resendable = x.head.body_length == 0 and x.head.method in SAFE_METHODS
        # Of the attempt that runs.
        self._upstream: Upstream
        self._sent_at: float

    @property
    def body_may_be_held(self) -> bool:
        """The request might be sent twice if its body were kept, and that is short."""
        head, route = self._x.head, self._route
        return 0 < head.body_length <= route.replay_max_bytes and (
            head.method in SAFE_METHODS and len(route.upstreams) > 1
        )

    async def hold_body(self) -> None:
        """Wait for the whole body, within the upload's budget."""
        x = self._x
        collector = _Collector(x.connection.budget, self._route.timeouts.upload_s)
        x.connection.body.start(collector)
        self._held_body = await collector.done
        self._resendable = True
        x.bytes_in = x.head.body_length

    def order(self) -> Sequence[Upstream]:
        """The upstreams in the order of trying."""
        upstreams, f = self._route.upstreams, self._f
        if len(upstreams) == 1:
            return upstreams
        order = f._breaker.order(upstreams, f._wheel.clock())
        if order[0] is not upstreams[0]:
            f._metrics.upstreams_skipped.inc(self._route.id)
        return order

    def failed(self, upstream: Upstream, failure: Failure, behind: bool) -> None:
        """Count it; raises what the caller is told where the next upstream may not be tried."""
        f = self._f
        f._breaker.failed(upstream.origin, f._wheel.clock())
        f._metrics.upstream_failures.inc(self._route.id, failure.kind)
        if not behind or not self._may_go_on(failure):
            raise gateway_error(failure)
        self._log_passed_over(upstream, failure)

    def _may_go_on(self, failure: Failure) -> bool:
        """§11.4: to the next upstream when no byte left; a request that may be repeated, also when its attempt ran out
        of budget, or when the upstream refused TLS behind the handshake (as TLS 1.3 has it for client certificates).
        """
        if failure.kind in ("connect", "tls") and not failure.sent:
            return True
        return failure.kind in ("attempt", "tls") and self._resendable

    def _log_passed_over(self, upstream: Upstream, failure: Failure) -> None:
        """The request goes on elsewhere; the failure that ends one stands in its own line."""
        self._f._log.warning(
            "upstream failed, trying the next",
            requestId=self._x.request_id,
            traceId=self._x.trace.trace_id,
            route=self._route.id,
            upstream=upstream.origin,
            kind=failure.kind,
            error=failure.reason,
        )

    async def try_upstream(self, upstream: Upstream, behind: bool) -> Failure | None:
        """One upstream: a kept connection, and a fresh one where that had gone stale. None: the caller was answered."""
        x, route, f = self._x, self._route, self._f
        bounded = behind and self._resendable
        self._upstream = upstream
        request = self._request_head(upstream)
        connection = f._pool.take(upstream)
        while True:
            started = f._wheel.clock()
            if connection is None:
                connect_s = route.timeouts.connect_s
                try:
                    connection = await f._pool.dial(
                        upstream, min(connect_s, route.upstream_attempt_s) if bounded else connect_s
                    )
                except UpstreamUnreachable as error:
                    return error.failure
            x.upstream_origin = upstream.origin
            relay = Relay(x, route, connection, x.connection.budget, self._head_arrived)
            try:
                self._send(relay, request, started, bounded)
                result = await relay.done
            except BaseException:
                relay.abandon()
                raise
            failure = self._settle(relay, connection, result)
            if failure is None or not failure.stale or not self._resendable:
                return failure
            connection = None

    def _send(self, relay: Relay, request: bytes, started: float, bounded: bool) -> None:
        """Send the request. All attempts share the budget for the response head."""
        self._sent_at = now = self._f._wheel.clock()
        left, deadline = self._route.timeouts.response_s, TIMEOUT
        if self._resendable:
            if not self._response_deadline:
                self._response_deadline = now + left
            left = max(self._response_deadline - now, 0.0)
            if bounded and (attempt_left := max(started + self._route.upstream_attempt_s - now, 0.0)) < left:
                left, deadline = attempt_left, ATTEMPT
        relay.send(request, self._held_body, left, deadline)

    def _request_head(self, upstream: Upstream) -> bytes:
        x = self._x
        head, copied = x.head, copied_headers(x)
        path = upstream_path(upstream, self._match, head.path)
        own = gateway_lines(x, upstream, path, self._f._signer)
        framing = request_framing(head.method, head.body_length)
        if framing:
            own = Lines(own + header_lines(framing))
        return request_head(head.method, path + head.query, (), own, copied.lines)

    def _head_arrived(self, head: ResponseHead) -> ResponseHeaders:
        """Note what the response head says about its upstream; the headers that the caller gets."""
        f, x, upstream = self._f, self._x, self._upstream
        x.upstream_s = f._wheel.clock() - self._sent_at
        f._metrics.upstream_duration.observe(x.upstream_s, self._route.id)
        f._breaker.answered(upstream.origin)
        f._on_response(x)
        return response_headers(
            head,
            route=self._route,
            upstream=upstream,
            forwarding=x.forwarding,
            request_id=x.request_id,
            added=x.response_headers,
        )

    def _settle(self, relay: Relay, connection: UpstreamConnection, result: Result) -> Failure | None:
        if relay.connection_reusable:
            self._f._pool.give_back(connection)
        else:
            connection.abort()
        if relay.cut_by:
            self._f._metrics.aborted.inc(self._route.id, relay.cut_by)
        if result is None:
            return None
        if isinstance(result, GatewayError):
            raise result
        if self._x.head.body_length != 0 and self._held_body is None:
            return replace(result, stale=False)  # a streamed body is gone: never repeated
        return result


class _Collector:
    """Gathers a short body whole, within the upload budget."""

    def __init__(self, timer: Timer, upload_s: float) -> None:
        self._timer = timer
        self._upload_s = upload_s
        self._pieces: list[bytes] = []
        self.done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        timer.set(upload_s, self._timeout)

    def piece(self, data: bytes) -> None:
        self._pieces.append(data)
        self._timer.extend(self._upload_s)

    def end(self) -> None:
        self._timer.cancel()
        if not self.done.done():
            self.done.set_result(b"".join(self._pieces))

    def failed(self, code: str, reason: str) -> None:
        self._timer.cancel()
        if not self.done.done():
            self.done.set_exception(GatewayError(code, reason))

    def _timeout(self) -> None:
        self.failed("request_timeout", "the upload made no progress in its budget")


def gateway_error(failure: Failure) -> GatewayError:
    """What the caller sees of the last failure (§11.3); the reason stays in the log."""
    if failure.kind in ("timeout", "attempt"):
        return GatewayError("gateway_timeout", failure.reason)
    if failure.connect_timeout:
        return GatewayError("gateway_timeout", failure.reason, proxy_error="connection_timeout")
    proxy_error = {"connect": "destination_unavailable", "tls": "tls_protocol_error", "reset": "connection_terminated"}
    return GatewayError("bad_gateway", failure.reason, proxy_error=proxy_error.get(failure.kind, ""))
