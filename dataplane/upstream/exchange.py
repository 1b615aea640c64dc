"""Forwarding one request: which upstreams are tried, in what order, and what the caller sees (§11.3, §11.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from dataplane.crosssite import SAFE_METHODS
from dataplane.errors import GatewayError
from dataplane.exchange import Exchange
from dataplane.forwarding.request_headers import RequestHeaders
from dataplane.forwarding.response_headers import ResponseHeaders, response_headers
from dataplane.forwarding.target import upstream_path
from dataplane.http1.heads import ResponseHead
from dataplane.http1.write import Lines, header_lines, request_framing, request_head
from dataplane.upstream.failure import Failure, UpstreamUnreachable
from dataplane.upstream.relay import ATTEMPT, TIMEOUT, Relay

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
        timer = x.connection.budget
        try:
            await _Forwarding(self, x, match, timer).run()
        finally:
            timer.cancel()
            self._slots.leave()


class _Forwarding:
    """The attempts of one request."""

    def __init__(self, forwarder: Forwarder, x: Exchange, match: Match, timer: Timer) -> None:
        self._f = forwarder
        self._x = x
        self._match = match
        self._route: Route = match.route
        self._timer = timer
        self._headers = RequestHeaders(
            x.head,
            route=match.route,
            forwarding=x.forwarding,
            request_id=x.request_id,
            trace=x.trace,
            principal=x.principal,
            workspace_id=x.workspace_id,
            signer=forwarder._signer,
        )
        self._held_body: bytes | None = None
        self._response_deadline: float | None = None
        self._resendable = False
        self._sent_at = 0.0

    async def run(self) -> None:
        x, route, f = self._x, self._route, self._f
        method, length = x.head.method, x.head.body_length
        safe = method in SAFE_METHODS
        if safe and length > 0 and len(route.upstreams) > 1 and length <= route.replay_max_bytes:
            self._held_body = await self._hold_body(length)
        self._resendable = safe and (length == 0 or self._held_body is not None)
        now = f._wheel.clock()
        order = f._breaker.order(route.upstreams, now)
        if order[0] is not route.upstreams[0]:
            f._metrics.upstreams_skipped.inc(route.id)
        for position, upstream in enumerate(order):
            behind = position + 1 < len(order)
            failure = await self._try_upstream(upstream, behind)
            if failure is None:
                return
            self._count(upstream, failure)
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

    async def _try_upstream(self, upstream: Upstream, behind: bool) -> Failure | None:
        """One upstream: a kept connection, and a fresh one where that had gone stale. None: the caller was answered."""
        try:
            failure = await self._attempt(upstream, behind, fresh=False)
            if failure is not None and failure.stale and self._resendable:
                failure = await self._attempt(upstream, behind, fresh=True)
        except UpstreamUnreachable as error:
            failure = error.failure
        return failure

    def _count(self, upstream: Upstream, failure: Failure) -> None:
        f = self._f
        f._breaker.failed(upstream.origin, f._wheel.clock())
        f._metrics.upstream_failures.inc(self._route.id, failure.kind)

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

    async def _attempt(self, upstream: Upstream, behind: bool, *, fresh: bool) -> Failure | None:
        x, route, f = self._x, self._route, self._f
        bounded = behind and self._resendable
        started = f._wheel.clock()
        connection = None if fresh else f._pool.take(upstream)
        if connection is None:
            connect_s = min(route.timeouts.connect_s, route.upstream_attempt_s) if bounded else route.timeouts.connect_s
            connection = await f._pool.dial(upstream, connect_s)
        x.upstream_origin = upstream.origin
        due_s, deadline = self._response_due(started, bounded)
        relay = Relay(x, route, connection, self._timer, lambda head: self._head_arrived(upstream, head))
        self._sent_at = f._wheel.clock()
        try:
            relay.send(self._head_bytes(upstream), self._held_body, due_s, deadline)
            result = await relay.done
        except BaseException:
            relay.abandon()
            raise
        finally:
            x.bytes_in = max(x.bytes_in, relay.bytes_in)
        self._settle(relay, connection)
        if isinstance(result, GatewayError):
            raise result
        if result is not None and x.head.body_length != 0 and self._held_body is None:
            return replace(result, stale=False)  # a streamed body is gone: never repeated
        return result

    def _response_due(self, started: float, bounded: bool) -> tuple[float, Failure]:
        """What is left for the response head, and what running out of it means. All attempts share the budget."""
        now = self._f._wheel.clock()
        response_s = self._route.timeouts.response_s
        if not self._resendable:
            return response_s, TIMEOUT
        if self._response_deadline is None:
            self._response_deadline = now + response_s
        left = max(self._response_deadline - now, 0.0)
        if bounded:
            attempt_left = max(started + self._route.upstream_attempt_s - now, 0.0)
            if attempt_left < left:
                return attempt_left, ATTEMPT
        return left, TIMEOUT

    def _head_bytes(self, upstream: Upstream) -> bytes:
        head = self._x.head
        path = upstream_path(upstream, self._match, head.path)
        lines: bytes = self._headers.of_gateway(upstream, path)
        framing = request_framing(head.method, head.body_length)
        if framing:
            lines += header_lines(framing)
        return request_head(head.method, path + head.query, (), Lines(lines + self._headers.copied.lines))

    def _head_arrived(self, upstream: Upstream, head: ResponseHead) -> ResponseHeaders:
        """Note what the response head says about its upstream; the headers that the caller gets."""
        f, x = self._f, self._x
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

    def _settle(self, relay: Relay, connection: UpstreamConnection) -> None:
        if relay.connection_reusable:
            self._f._pool.give_back(connection)
        else:
            connection.abort()
        if relay.cut_by:
            self._f._metrics.aborted.inc(self._route.id, relay.cut_by)

    async def _hold_body(self, length: int) -> bytes:
        collector = _Collector(self._timer, self._route.timeouts.upload_s)
        self._x.connection.body.start(collector)
        body = await collector.done
        self._x.bytes_in = length
        return body


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
