"""Instruments count exactly, are bounded by construction, and render as Prometheus text."""

from __future__ import annotations

import gc
import time
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from common.telemetry.metrics import AtMost, Counter, Gauge, Histogram, Registry, one_of
from dataplane.metrics import METHODS, ROUTES_MAX, STATUSES, GatewayMetrics


def samples(registry: Registry) -> dict[str, float]:
    found = {}
    for family in text_string_to_metric_families(registry.render().decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def test_a_counter_counts_each_series_by_itself() -> None:
    counter = Counter("gateway_x_total", "X.", ("route", "status"))
    counter.inc("a", 200)
    counter.inc("a", 200)
    counter.inc("a", 200)
    counter.inc("b", 200)
    found = samples(Registry([counter]))
    assert found["gateway_x_total{route=a,status=200}"] == 3
    assert found["gateway_x_total{route=b,status=200}"] == 1
    assert counter.value("c", 200) == 0


def test_a_counter_without_labels_is_zero_from_the_start() -> None:
    assert samples(Registry([Counter("gateway_x_total", "X.")]))["gateway_x_total{}"] == 0


def test_a_known_set_of_results_is_zero_from_the_start() -> None:
    counter = Counter("gateway_x_total", "X.", ("result",))
    counter.start(("ok",), ("failed",))
    counter.inc("ok")
    counter.start(("ok",))
    assert (counter.value("ok"), samples(Registry([counter]))["gateway_x_total{result=failed}"]) == (1, 0)


def test_a_gauge_is_set_or_read_at_the_scrape() -> None:
    gauge = Gauge("gateway_x", "X.")
    assert samples(Registry([gauge]))["gateway_x{}"] == 0
    gauge.set(7)
    assert gauge.value() == 7
    gauge.read_from(lambda: 42)
    assert samples(Registry([gauge]))["gateway_x{}"] == 42
    labelled = Gauge("gateway_y", "Y.", ("name",))
    labelled.set(1, "a")
    labelled.set(2, "a")
    labelled.set(5, "b")
    assert (labelled.value("a"), labelled.value("b")) == (2, 5)


@given(st.lists(st.floats(0, 200), max_size=50))
def test_a_histogram_counts_each_duration_in_the_bucket_that_holds_it(seconds: list[float]) -> None:
    histogram = Histogram("gateway_x_seconds", "X.", (), (0.1, 1.0, 10.0))
    for value in seconds:
        histogram.observe(value)
    found = samples(Registry([histogram]))
    for upper in (0.1, 1.0, 10.0):
        assert found[f"gateway_x_seconds_bucket{{le={upper}}}"] == sum(value <= upper for value in seconds)
    assert found["gateway_x_seconds_bucket{le=+Inf}"] == found["gateway_x_seconds_count{}"] == len(seconds)
    assert found["gateway_x_seconds_sum{}"] == pytest.approx(sum(seconds))
    assert histogram.count() == len(seconds)


def test_buckets_must_rise() -> None:
    for buckets in ((1.0, 0.5), (1.0, 1.0)):
        with pytest.raises(ValueError, match="do not rise"):
            Histogram("gateway_x_seconds", "X.", (), buckets)
    assert bisect_left((0.1, 1.0), 0.1) == 0


def test_a_wrong_number_of_labels_is_an_error_and_no_series() -> None:
    metrics = GatewayMetrics()
    with pytest.raises(ValueError, match="takes the labels"):
        metrics.requests.inc("a", "GET")
    with pytest.raises(ValueError, match="takes the labels"):
        metrics.request_duration.observe(1.0)
    with pytest.raises(ValueError, match="takes the labels"):
        metrics.active_requests.set(1, "a")
    metrics.render()


def test_bounds_keep_what_is_known_and_fold_the_rest() -> None:
    bound = one_of(("a", "b"))
    assert [bound(value) for value in ("a", "b", "A", "", "other")] == ["a", "b", "other", "other", "other"]
    at_most = AtMost(2, always=("gateway",))
    assert [at_most(v) for v in ("x", "gateway", "y", "z", "x", "overflow")] == [
        "x", "gateway", "y", "overflow", "x", "overflow",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "label"),
    [(200, "200"), (499, "499"), (299, "other"), (999, "other"), (0, "other"), (True, "other")],
)
def test_only_registered_statuses_have_a_series(status: int, label: str) -> None:
    metrics = GatewayMetrics()
    metrics.requests.inc("app", "GET", status)
    assert {sample.labels["status"] for sample in metrics.requests.family().samples} == {label}


def test_odd_values_of_callers_and_upstreams_make_no_series_and_a_scrape_stays_quick() -> None:
    """Labels made of what a caller or an upstream chooses grow without bound, until a scrape takes the process down."""
    metrics = GatewayMetrics()
    metrics.requests.inc("app", "GET", 200)
    metrics.requests.inc("app", "other", 999)
    metrics.request_duration.observe(0.1, "app")
    before = metrics.render().count(b"\n")
    for number in range(10_000):
        metrics.requests.inc("app", f"FOO{number}", 100_000 + number)
        metrics.auth_failures.inc("app", "invalid") if number == 0 else metrics.auth_failures.inc("app", f"why{number}")
        metrics.aborted.inc("app", f"side{number}")
        metrics.upstream_failures.inc("app", f"kind{number}")
        metrics.rate_limited.inc(f"scope{number}", "app")
        metrics.state_operations.inc(f"op{number}", f"res{number}")
        metrics.logins.inc(f"result{number}")
    started = time.process_time()
    text = metrics.render()
    assert time.process_time() - started < 1
    assert text.count(b"\n") - before < 10
    assert metrics.requests.value("app", "other", 999) == 10_001


def test_routes_beyond_the_bound_share_one_series() -> None:
    metrics = GatewayMetrics()
    for number in range(5_000):
        metrics.requests.inc(f"route-{number}", "GET", 200)
        metrics.request_duration.observe(0.01, f"route-{number}")
    for label in ("unmatched", "gateway"):
        metrics.requests.inc(label, "GET", 404)
        assert metrics.requests.value(label, "GET", 404) == 1
    assert metrics.requests.value("overflow", "GET", 200) == 5_000 - ROUTES_MAX
    assert metrics.request_duration.count("overflow") == 5_000 - ROUTES_MAX
    assert metrics.route_label("route-0") == "route-0"
    assert metrics.route_label("route-4999") == "overflow"
    assert metrics.render().count(b"gateway_requests_total{") == ROUTES_MAX + 3


def test_the_worst_case_of_bounded_labels_is_still_scraped_in_time() -> None:
    metrics = GatewayMetrics()
    for route in range(ROUTES_MAX):
        for status in (200, 304, 404, 502):
            metrics.requests.inc(f"r{route}", "GET", status)
        metrics.request_duration.observe(0.01, f"r{route}")
        metrics.upstream_duration.observe(0.01, f"r{route}")
    started = time.process_time()
    assert metrics.render().count(b"\n") > 15_000
    assert time.process_time() - started < 1


def test_a_label_value_cannot_break_the_text_format() -> None:
    gauge = Gauge("gateway_x", "X.", ("name",))
    gauge.set(1, 'a"} 1\n# HELP forged\\')
    (sample,) = [s for f in text_string_to_metric_families(Registry([gauge]).render().decode()) for s in f.samples
                 if s.name == "gateway_x"]  # fmt: skip
    assert sample.labels == {"name": 'a"} 1\n# HELP forged\\'}


def test_the_processs_own_figures_are_published() -> None:
    gc.collect()
    text = GatewayMetrics().render()
    for name in (b"process_resident_memory_bytes", b"process_open_fds", b"python_gc_collections_total", b"python_info"):
        assert name in text


def test_the_tracked_methods_and_statuses_are_those_of_the_contract() -> None:
    methods = (
        "GET HEAD POST PUT PATCH DELETE OPTIONS TRACE PROPFIND PROPPATCH MKCOL COPY MOVE LOCK UNLOCK REPORT SEARCH"
    )
    assert " ".join(METHODS) == methods
    assert {499, 503} <= set(STATUSES)
    assert len(STATUSES) < 80
