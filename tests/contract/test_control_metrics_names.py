"""The control plane's metrics, and the codes that they count, are a contract: this is their pinned copy (§14.1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane import metrics
from controlplane.errors import KINDS
from controlplane.metrics import ControlMetrics

PAGE = Path(__file__).parents[2] / "docs" / "control-plane.md"
METRICS: dict[str, tuple[str, tuple[str, ...]]] = {
    "gateway_control_requests_total": ("Counter", ("operation", "status")),
    "gateway_control_request_duration_seconds": ("Histogram", ("operation",)),
    "gateway_control_errors_total": ("Counter", ("error",)),
    "gateway_state_up": ("Gauge", ()),
    "gateway_state_operations_total": ("Counter", ("operation", "result")),
    "gateway_state_duration_seconds": ("Histogram", ("operation",)),
}
CODES = {
    "bad_request": 400,
    "invalid_config": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "request_timeout": 408,
    "revision_conflict": 409,
    "protected_route": 409,
    "ambiguous_handle": 409,
    "payload_too_large": 413,
    "unsupported_media_type": 415,
    "precondition_required": 428,
    "too_many_failures": 429,
    "internal_error": 500,
    "state_unavailable": 503,
    "overloaded": 503,
}


def test_the_names_kinds_and_labels_are_those_that_were_published() -> None:
    found = {
        instrument.name: (type(instrument).__name__, instrument.labels)  # type: ignore[attr-defined]
        for instrument in ControlMetrics().instruments()
    }
    assert found == METRICS


def test_the_values_of_labels_are_those_that_were_published() -> None:
    """A code of the API is also the value of a label."""
    assert {code: kind.status for code, kind in KINDS.items()} == CODES
    assert metrics.STATE_RESULTS == ("ok", "unavailable", "foreign")


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_is_told_in_the_page_of_the_control_plane(name: str) -> None:
    assert f"`{name}" in PAGE.read_text()
