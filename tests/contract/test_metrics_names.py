"""The names, kinds and labels of the metrics are a contract: this is their pinned copy (§12.1, §14.1)."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from dataplane import metrics
from dataplane.metrics import GatewayMetrics

METRICS: dict[str, tuple[str, tuple[str, ...]]] = {
    "gateway_requests_total": ("Counter", ("route", "method", "status")),
    "gateway_request_duration_seconds": ("Histogram", ("route",)),
    "gateway_upstream_duration_seconds": ("Histogram", ("route",)),
    "gateway_active_requests": ("Gauge", ()),
    "gateway_active_exchanges": ("Gauge", ()),
    "gateway_connections": ("Gauge", ()),
    "gateway_aborted_total": ("Counter", ("route", "side")),
    "gateway_auth_failures_total": ("Counter", ("route", "reason")),
    "gateway_logins_total": ("Counter", ("result",)),
    "gateway_access_requests_total": ("Counter", ("result",)),
    "gateway_access_duration_seconds": ("Histogram", ()),
    "gateway_access_cache_total": ("Counter", ("result",)),
    "gateway_access_breaker_open": ("Gauge", ()),
    "gateway_access_stale_total": ("Counter", ("route",)),
    "gateway_access_stale_age_seconds": ("Histogram", ("route",)),
    "gateway_upstream_failures_total": ("Counter", ("route", "kind")),
    "gateway_upstreams_skipped_total": ("Counter", ("route",)),
    "gateway_rate_limited_total": ("Counter", ("scope", "route")),
    "gateway_rate_limit_fallback_total": ("Counter", ("mode",)),
    "gateway_websockets": ("Gauge", ()),
    "gateway_websocket_closed_total": ("Counter", ("route", "reason")),
    "gateway_config_reloads_total": ("Counter", ("result",)),
    "gateway_config_revision": ("Gauge", ()),
    "gateway_trusted_proxies": ("Gauge", ()),
    "gateway_certificate_expiry_timestamp_seconds": ("Gauge", ("name",)),
    "gateway_state_up": ("Gauge", ()),
    "gateway_state_operations_total": ("Counter", ("operation", "result")),
    "gateway_state_duration_seconds": ("Histogram", ("operation",)),
    "gateway_workers": ("Gauge", ("state",)),
    "gateway_worker_ends_total": ("Counter", ("reason",)),
}
LABEL_VALUES = {
    "AUTH_FAILURE_REASONS": ("missing", "invalid", "expired", "missing_role", "access_denied", "cross_site"),
    "LOGIN_RESULTS": ("started", "completed", "failed", "unavailable"),
    "ACCESS_RESULTS": ("allow", "deny", "unavailable", "rejected"),
    "ACCESS_CACHE_RESULTS": ("hit", "miss", "shared", "stale"),
    "UPSTREAM_FAILURE_KINDS": ("connect", "tls", "timeout", "attempt", "reset", "malformed"),
    "ABORTED_SIDES": ("downstream", "upstream"),
    "RATE_LIMIT_SCOPES": ("deployment", "client", "route", "principal", "login"),
    "RATE_LIMIT_FALLBACKS": ("local", "deny", "allow"),
    "WEBSOCKET_CLOSE_REASONS": (
        "downstream",
        "upstream",
        "revalidation",
        "idle",
        "message_size",
        "drain",
        "error",
    ),
    "RELOAD_RESULTS": ("ok", "failed"),
    "WORKER_STATES": ("ready", "silent", "starting", "waiting"),
    "WORKER_END_REASONS": ("exit", "signal", "hang"),
}


def test_the_names_kinds_and_labels_are_those_that_were_published() -> None:
    found = {
        instrument.name: (type(instrument).__name__, instrument.labels)  # type: ignore[attr-defined]
        for instrument in GatewayMetrics().instruments()
    }
    assert found == METRICS


def test_every_attribute_is_named_after_its_metric() -> None:
    for attribute, instrument in vars(GatewayMetrics()).items():
        name = getattr(instrument, "name", None)
        if isinstance(name, str):
            assert name.removeprefix("gateway_").removesuffix("_total").removesuffix("_seconds") == attribute


def test_the_values_of_labels_are_those_that_were_published() -> None:
    assert {name: getattr(metrics, name) for name in LABEL_VALUES} == LABEL_VALUES


def test_what_is_scraped_carries_these_names_and_labels() -> None:
    gateway = GatewayMetrics()
    for instrument in gateway.instruments():
        kind, labels = METRICS[instrument.name]
        values = tuple("x" for _ in labels)
        if kind == "Counter":
            instrument.inc(*values)  # type: ignore[attr-defined]
        elif kind == "Gauge":
            instrument.set(1, *values)  # type: ignore[attr-defined]
        else:
            instrument.observe(0.1, *values)  # type: ignore[attr-defined]
    scraped: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(gateway.render().decode()):
        for sample in family.samples:
            scraped.setdefault(sample.name.removesuffix("_count"), set()).update(sample.labels)
    for name, (_, labels) in METRICS.items():
        assert scraped[name] == set(labels), name
