"""A span for each request, for OpenTelemetry: the optional extra `otel`, on when an OTLP endpoint is named.

    Recorder -> OtlpSpans.ended -> queue of the SDK -> its thread -> OTEL_EXPORTER_OTLP_ENDPOINT

The span has the ids that the request's log line and its `traceparent` upstream have. Nothing waits for an exporter: a
full queue drops spans. The variables are OpenTelemetry's own (`OTEL_EXPORTER_OTLP_ENDPOINT`, `_HEADERS`, `_TIMEOUT`,
`OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_BSP_*`); `OTEL_TRACES_SAMPLER_ARG` is the share of the traces
beginning here that are recorded, and a trace that began elsewhere is recorded when its caller's flag says so.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from common.telemetry.redact import safe_target

if TYPE_CHECKING:
    from common.telemetry.log import Log
    from dataplane.exchange import Exchange

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
SAMPLED_SHARE = "OTEL_TRACES_SAMPLER_ARG"
CLOSE_MAX_S = 2.0
"""What is queued at the end has this long to be sent."""


class Spans(Protocol):
    """Where the spans of requests go. Called on the loop's thread; must neither block nor raise."""

    def new_flags(self, trace_id: str) -> str:
        """The trace flags of a trace that begins here: `01` when it is recorded."""
        ...

    def ended(self, x: Exchange, duration_s: float) -> None:
        """A request of a sampled trace is over."""
        ...

    async def close(self) -> None:
        """Send what is queued; bounded in time."""
        ...


def spans_problem(environ: Mapping[str, str]) -> str:
    """Why spans cannot be sent as the environment says, `""` when they can or none are wanted."""
    named = next((name for name in ENDPOINTS if environ.get(name)), None)
    if named is None:
        return ""
    if importlib.util.find_spec("opentelemetry") is None or importlib.util.find_spec("opentelemetry.sdk") is None:
        return f"{named}: is set, and OpenTelemetry is not installed: pip install 'wicketgate[otel]', or unset it"
    share = environ.get(SAMPLED_SHARE, "1")
    try:
        if 0 <= float(share) <= 1:
            return ""
    except ValueError:
        pass
    return f"{SAMPLED_SHARE}: must be a number from 0 to 1, the share of traces that are recorded"


def open_spans(environ: Mapping[str, str], log: Log) -> Spans | None:
    """Where spans go, None when no endpoint is named. `spans_problem` has been asked before."""
    if not any(environ.get(name) for name in ENDPOINTS):
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    _tell_of_failures(log)
    return OtlpSpans(BatchSpanProcessor(OTLPSpanExporter()), share=float(environ.get(SAMPLED_SHARE, "1")))


class OtlpSpans:
    """Implements `Spans` over a span processor of the SDK."""

    def __init__(self, processor: Any, *, share: float) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

        self._processor = processor
        # The rule of the SDK's TraceIdRatioBased sampler, so that replicas and services agree about a trace.
        self._sampled_below = round(share * (1 << 64))
        self._span, self._context, self._status = ReadableSpan, SpanContext, Status
        self._kind, self._ok, self._failed = SpanKind.SERVER, StatusCode.UNSET, StatusCode.ERROR
        self._flags = TraceFlags
        self._resource = Resource.create({"service.name": "wicketgate"})
        self._scope = InstrumentationScope("wicketgate")

    def new_flags(self, trace_id: str) -> str:
        """See `Spans.new_flags`."""
        return "01" if int(trace_id[16:], 16) < self._sampled_below else "00"

    def ended(self, x: Exchange, duration_s: float) -> None:
        """See `Spans.ended`."""
        trace, now = x.trace, time.time_ns()
        parent = None
        if trace.parent_id:
            parent = self._in_trace(trace.trace_id, trace.parent_id, remote=True)
        self._processor.on_end(
            self._span(
                name=f"{x.head.method} {x.route_id}",
                context=self._in_trace(trace.trace_id, trace.span_id, remote=False),
                parent=parent,
                kind=self._kind,
                resource=self._resource,
                instrumentation_scope=self._scope,
                attributes=attributes_of(x),
                status=self._status(self._failed if x.outcome == "failed" else self._ok),
                start_time=now - int(duration_s * 1e9),
                end_time=now,
            )
        )

    async def close(self) -> None:
        """See `Spans.close`."""
        flushed = asyncio.to_thread(self._processor.force_flush, int(CLOSE_MAX_S * 1000))
        try:
            await asyncio.wait_for(flushed, CLOSE_MAX_S)
        except TimeoutError:
            pass
        finally:
            # Its thread is a daemon's: an endpoint that does not answer holds nothing up.
            asyncio.get_running_loop().run_in_executor(None, self._processor.shutdown)

    def _in_trace(self, trace_id: str, span_id: str, *, remote: bool) -> Any:
        flags = self._flags(self._flags.SAMPLED)
        return self._context(int(trace_id, 16), int(span_id, 16), is_remote=remote, trace_flags=flags)


def attributes_of(x: Exchange) -> dict[str, str | int | float]:
    """What a span says of a request, by OpenTelemetry's semantic conventions where they have a name.

    Neither the query nor a header nor the subject: traces are read by more people than logs.
    """
    head, forwarding = x.head, getattr(x, "forwarding", None)
    said: dict[str, str | int | float] = {
        "http.request.method": head.method,
        "url.path": safe_target(head.path),
        "http.response.status_code": x.status,
        "http.request.body.size": x.bytes_in,
        "http.response.body.size": x.bytes_out,
        "wicketgate.route": x.route_id,
        "wicketgate.outcome": x.outcome,
        "wicketgate.request_id": x.request_id,
    }
    if forwarding is not None:
        said |= {"url.scheme": forwarding.scheme, "client.address": forwarding.client}
        said["server.address"] = forwarding.hostname or ""
    if x.error:
        said["error.type"] = x.error
    if x.upstream_origin:
        said["wicketgate.upstream"] = x.upstream_origin
    if x.upstream_s is not None:
        said["wicketgate.upstream_ms"] = round(x.upstream_s * 1000, 3)
    return said


class _Told(logging.Handler):
    """What the exporter has to say, as events of the gateway's log: once in a minute at most, for it repeats itself."""

    EVERY_S = 60.0

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        self._next = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self.EVERY_S
            self._log.warning("spans are not sent", error=record.getMessage())


def _tell_of_failures(log: Log) -> None:
    logger = logging.getLogger("opentelemetry")
    logger.handlers = [_Told(log)]
    logger.propagate = False
