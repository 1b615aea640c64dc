"""Forwarding one request: which upstreams are tried, in what order, and what the caller sees (§11.3, §11.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from dataplane.crosssite import SAFE_METHODS
from dataplane.errors import GatewayError
from dataplane.exchange import Exchange
from dataplane.forwarding.request_headers import copied_headers, gateway_lines, identity_lines
from dataplane.forwarding.response_headers import ResponseHeaders, response_headers
from dataplane.forwarding.target import upstream_path
from dataplane.http1.heads import ResponseHead
from dataplane.http1.write import Lines, header_lines, request_framing, request_head
from dataplane.upstream.failure import Failure, UpstreamUnreachable
from dataplane.upstream.relay import ATTEMPT, TIMEOUT, Relay, Result

if TYPE_CHECKING:
    from common.identity.signature import IdentitySigner
    from common.routetable.compiled import Route, Upstream
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
        route = x.matched.route
        if route.max_body_bytes and x.head.body_length > route.max_body_bytes:
            raise GatewayError("payload_too_large", f"content-length is over {route.max_body_bytes} bytes")
        self._slots.enter()
        forwarding = _Forwarding(self, x, route)
        try:
            if x.head.body_length and forwarding.body_may_be_held:
                await forwarding.hold_body()
            order = forwarding.order()
            for position, upstream in enumerate(order, 1):
                behind = position < len(order)
                try:
                    identity = forwarding.turn_to(upstream, behind)
                    if not isinstance(identity, bytes):
                        identity = await identity
                    asked = forwarding.ask_kept(identity) or await forwarding.ask_fresh()
                    failure = forwarding.settle(await asked)
                    if failure is not None and failure.stale and forwarding.resendable:
                        failure = forwarding.settle(await (await forwarding.ask_fresh()))
                except UpstreamUnreachable as error:
                    failure = error.failure
                if failure is None:
                    return
                forwarding.failed(failure, behind)
        except BaseException:
            forwarding.abandon()
            raise
        finally:
            x.connection.budget.cancel()
            self._slots.leave()


class _Forwarding:
    """The attempts of one request."""

    __slots__ = (
        "_bounded",
        "_connection",
        "_f",
        "_held_body",
        "_path",
        "_relay",
        "_request",
        "_response_deadline",
        "_route",
        "_sent_at",
        "_upstream",
        "_x",
        "resendable",
    )

    def __init__(self, forwarder: Forwarder, x: Exchange, route: Route) -> None:
        self._f = forwarder
        self._x = x
        self._route = route
        self._held_body: bytes | None = None
        self._response_deadline = 0.0
        self.resendable = x.head.body_length == 0 and x.head.method in SAFE_METHODS
        self._relay: Relay | None = None
        # Of the attempt that runs.
        self._upstream: Upstream
        self._bounded: bool
        self._path: str
        self._request: bytes
        self._connection: UpstreamConnection
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
        self.resendable = True
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

    def failed(self, failure: Failure, behind: bool) -> None:
        """Count it; raises what the caller is told where the next upstream may not be tried."""
        f = self._f
        f._breaker.failed(self._upstream.origin, f._wheel.clock())
        f._metrics.upstream_failures.inc(self._route.id, failure.kind)
        if not behind or not self._may_go_on(failure):
            raise gateway_error(failure)
        self._log_passed_over(failure)

    def _may_go_on(self, failure: Failure) -> bool:
        """§11.4: to the next upstream when no byte left; a request that may be repeated, also when its attempt ran out
        of budget, or when the upstream refused TLS behind the handshake (as TLS 1.3 has it for client certificates).
        """
        if failure.kind in ("connect", "tls") and not failure.sent:
            return True
        return failure.kind in ("attempt", "tls") and self.resendable

    def _log_passed_over(self, failure: Failure) -> None:
        """The request goes on elsewhere; the failure that ends one stands in its own line."""
        self._f._log.warning(
            "upstream failed, trying the next",
            requestId=self._x.request_id,
            traceId=self._x.trace.trace_id,
            route=self._route.id,
            upstream=self._upstream.origin,
            kind=failure.kind,
            error=failure.reason,
        )

    def turn_to(self, upstream: Upstream, behind: bool) -> bytes | Awaitable[bytes]:
        """Begin with an upstream; the lines that tell it who calls, to be waited for where they are not signed yet."""
        x = self._x
        self._upstream = upstream
        self._bounded = behind and self.resendable
        self._path = upstream_path(upstream, x.matched, x.head.path)
        return identity_lines(x, self._path, self._f._signer.lines_soon)

    def ask_kept(self, identity: bytes) -> Relay | None:
        """Send it the request on a kept connection; None where there is none."""
        self._request = self._request_head(identity)
        connection = self._f._pool.take(self._upstream)
        return None if connection is None else self._send(connection, self._f._wheel.clock())

    async def ask_fresh(self) -> Relay:
        """Send it the request on a connection of its own. Raises `UpstreamUnreachable`."""
        f, route = self._f, self._route
        started, connect_s = f._wheel.clock(), route.timeouts.connect_s
        if self._bounded:
            connect_s = min(connect_s, route.upstream_attempt_s)
        return self._send(await f._pool.dial(self._upstream, connect_s), started)

    def _send(self, connection: UpstreamConnection, started: float) -> Relay:
        """Send the request; what becomes of it. All attempts share the budget for the response head."""
        x, route = self._x, self._route
        x.upstream_origin = self._upstream.origin
        self._connection = connection
        self._relay = relay = Relay(x, route, connection, x.connection.budget, self._head_arrived)
        self._sent_at = now = self._f._wheel.clock()
        left, deadline = route.timeouts.response_s, TIMEOUT
        if self.resendable:
            if not self._response_deadline:
                self._response_deadline = now + left
            left = max(self._response_deadline - now, 0.0)
            if self._bounded and (attempt_left := max(started + route.upstream_attempt_s - now, 0.0)) < left:
                left, deadline = attempt_left, ATTEMPT
        relay.send(self._request, self._held_body, left, deadline)
        return relay

    def abandon(self) -> None:
        """Cut the attempt that runs, if one does."""
        if self._relay is not None:
            self._relay.abandon()
            self._relay = None

    def _request_head(self, identity: bytes) -> bytes:
        x = self._x
        head, copied = x.head, copied_headers(x)
        own = gateway_lines(x, self._upstream, identity)
        framing = request_framing(head.method, head.body_length)
        if framing:
            own = Lines(own + header_lines(framing))
        return request_head(head.method, self._path + head.query, (), own, copied.lines)

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

    def settle(self, result: Result) -> Failure | None:
        """The attempt is over: None where the caller was answered. Raises what refuses the request itself."""
        relay, connection = self._relay, self._connection
        assert relay is not None  # noqa: S101 (it is its result)
        self._relay = None  # which holds this by its callback
        if relay.connection_reusable:
            self._f._pool.give_back(connection)
        else:
            connection.abort()
        if relay.cut_by:
            self._f._metrics.aborted.inc(self._route.id, relay.cut_by)
        if isinstance(result, GatewayError):
            raise result
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
