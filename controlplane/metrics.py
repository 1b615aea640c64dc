"""Every metric of the control plane, with bounded labels."""

from __future__ import annotations

from collections.abc import Iterator

from common.telemetry.metrics import AtMost, Counter, Gauge, Histogram, Instrument, Registry, one_of
from controlplane.errors import KINDS
from controlplane.record import Record

STATUSES = tuple(sorted({200, 201, *(kind.status for kind in KINDS.values())}))
STATE_RESULTS = ("ok", "unavailable", "foreign")

OPERATIONS_MAX = 100
"""More operations than the API and the port of the state have; their names come from the code alone."""


class ControlMetrics:
    """The control plane's instruments. Label values come from the code alone."""

    def __init__(self) -> None:
        self.requests = Counter(
            "gateway_control_requests_total",
            "Requests answered, by the API's operation; none: nothing is served at the path.",
            ("operation", "status"),
            bounds={"operation": AtMost(OPERATIONS_MAX), "status": one_of(STATUSES)},
        )
        self.request_duration = Histogram(
            "gateway_control_request_duration_seconds",
            "Duration of requests.",
            ("operation",),
            bounds={"operation": AtMost(OPERATIONS_MAX)},
        )
        self.errors = Counter(
            "gateway_control_errors_total",
            "Requests that were refused or failed, by code.",
            ("error",),
            bounds={"error": one_of(KINDS)},
        )
        self.state_up = Gauge("gateway_state_up", "1 while the shared state answers.")
        self.state_operations = Counter(
            "gateway_state_operations_total",
            "Operations of the shared state; foreign: one met a value that is not ours.",
            ("operation", "result"),
            bounds={"operation": AtMost(OPERATIONS_MAX), "result": one_of(STATE_RESULTS)},
        )
        self.state_duration = Histogram(
            "gateway_state_duration_seconds",
            "Duration of the operations of the shared state.",
            ("operation",),
            bounds={"operation": AtMost(OPERATIONS_MAX)},
        )
        self._registry = Registry(self.instruments())

    def instruments(self) -> Iterator[Instrument]:
        """Every instrument, in the order of definition."""
        return (value for value in vars(self).values() if isinstance(value, Counter | Gauge | Histogram))

    def render(self) -> bytes:
        """The Prometheus text of everything, the process's own figures included."""
        return self._registry.render()

    def answered(self, record: Record, seconds: float) -> None:
        """Count a request that was answered."""
        operation = record.operation or "none"
        self.requests.inc(operation, record.status)
        self.request_duration.observe(seconds, operation)
        if record.error:
            self.errors.inc(record.error)
