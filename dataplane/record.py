"""The one record that each request leaves, made when the exchange is over: a log line, its metrics, and a span."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from common.telemetry.log import RequestLog
    from dataplane.exchange import Exchange
    from dataplane.metrics import GatewayMetrics
    from dataplane.spans import Spans


class Recorder:
    """Writes the records. `clock` is the monotonic clock that `Exchange.started_at` was read from."""

    def __init__(
        self, request_log: RequestLog, metrics: GatewayMetrics, clock: Callable[[], float], spans: Spans | None = None
    ) -> None:
        self._line = request_log.line
        self._metrics = metrics
        self._clock = clock
        self._spans = spans

    def record(self, x: Exchange) -> None:
        head = x.head
        duration_s = self._clock() - x.started_at
        self._metrics.requests.inc(x.route_id, head.method, x.status)
        self._metrics.request_duration.observe(duration_s, x.route_id)
        forwarding = getattr(x, "forwarding", None)
        principal = x.principal
        self._line(
            request_id=x.request_id,
            trace_id=x.trace.trace_id,
            span_id=x.trace.span_id,
            client=x.peer if forwarding is None else forwarding.client,
            host=forwarding.host if forwarding is not None else head.authority.sent if head.authority else "",
            method=head.method,
            path=head.path,
            query=head.query,
            route=x.route_id,
            status=x.status,
            outcome=x.outcome,
            error=x.error,
            detail=x.error_detail,
            subject=None if principal is None else principal.subject,
            workspace_id=x.workspace_id,
            upstream=x.upstream_origin,
            upstream_s=x.upstream_s,
            duration_s=duration_s,
            bytes_in=x.bytes_in,
            bytes_out=x.bytes_out,
            user_agent=head.value(b"user-agent"),
        )
        if self._spans is not None and x.trace.sampled:
            self._spans.ended(x, duration_s)
