"""The one record that each request leaves, made when the exchange is over: a log line, its metrics, and a span."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from common.telemetry.log import RequestLog
    from dataplane.exchange import Exchange
    from dataplane.http1.heads import Headers
    from dataplane.metrics import GatewayMetrics
    from dataplane.spans import Spans


class Recorder:
    """Writes the records. `clock` is the monotonic clock that `Exchange.started_at` was read from."""

    def __init__(
        self, request_log: RequestLog, metrics: GatewayMetrics, clock: Callable[[], float], spans: Spans | None = None
    ) -> None:
        self._line = request_log.line
        self._count = metrics.requests.inc
        self._observe = metrics.request_duration.observe
        self._clock = clock
        self._spans = spans

    def record(self, x: Exchange) -> None:
        head, trace, principal = x.head, x.trace, x.principal
        duration_s = self._clock() - x.started_at
        self._count(x.route_id, head.method, x.status)
        self._observe(duration_s, x.route_id)
        forwarding = getattr(x, "forwarding", None)
        self._line(
            x.request_id,
            trace.trace_id,
            trace.span_id,
            x.peer if forwarding is None else forwarding.client,
            forwarding.host if forwarding is not None else head.authority.sent if head.authority else "",
            head.method,
            head.path,
            head.query,
            x.route_id,
            x.status,
            x.outcome,
            x.error,
            x.error_detail,
            None if principal is None else principal.subject,
            x.workspace_id,
            x.upstream_origin,
            x.upstream_s,
            duration_s,
            x.bytes_in,
            x.bytes_out,
            head.derived(_user_agent),
        )
        if self._spans is not None and trace.sampled:
            self._spans.ended(x, duration_s)


def _user_agent(headers: Headers) -> bytes | None:
    return next((value for name, value in headers if name == b"user-agent"), None)
