"""The numbers of several workers are one: summed, never falling, gauges as each means it (§12.1)."""

from __future__ import annotations

import random
from unittest.mock import patch

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.telemetry.metrics import Gauge, Numbers
from dataplane.metrics import ROUTES_MAX, GatewayMetrics
from dataplane.workers.totals import Totals

JOINED = {
    "gateway_active_requests": 5,
    "gateway_active_exchanges": 5,
    "gateway_connections": 5,
    "gateway_websockets": 5,
    "gateway_access_breaker_open": 3,
    "gateway_config_revision": 2,
    "gateway_trusted_proxies": 3,
    "gateway_state_up": 2,
}


def sent(metrics: GatewayMetrics) -> Numbers:
    """The numbers of a worker as they come over a socket."""
    numbers: Numbers = orjson.loads(orjson.dumps(metrics.registry.dump()))
    return numbers


def read(text: bytes) -> dict[str, float]:
    """Each series as the text names it, with its value."""
    lines = (line for line in text.decode().splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def shown(totals: Totals, **states: int) -> dict[str, float]:
    return read(totals.render(states))


def test_counters_and_histograms_are_added_up_to_the_bucket() -> None:
    alone, totals = GatewayMetrics(), Totals()
    for worker in (1, 2, 3):
        metrics = GatewayMetrics()
        for each in (alone, metrics):
            for _ in range(worker):
                each.requests.inc("app", "GET", 200)
                each.request_duration.observe(0.004 * worker, "app")
                each.access_duration.observe(1.5)
            each.requests.inc("app", "POST", 503)
        totals.tell(worker, sent(metrics))
    found, expected = shown(totals), read(alone.render())
    for name, value in expected.items():
        if name.startswith("gateway_"):
            assert found[name] == pytest.approx(value), name
    assert found['gateway_requests_total{method="GET",route="app",status="200"}'] == 6


def test_each_gauge_is_joined_as_it_means_it() -> None:
    """Two workers with the state up are not `2`; an old revision anywhere is the one to see."""
    totals = Totals()
    for worker, value in ((1, 2), (2, 3)):
        metrics = GatewayMetrics()
        for instrument in metrics.instruments():
            if isinstance(instrument, Gauge) and not instrument.labels:
                instrument.set(value)
        totals.tell(worker, sent(metrics))
    found = shown(totals)
    assert {name: found[name] for name in JOINED} == JOINED


def test_a_gauge_that_is_read_is_told_too() -> None:
    metrics, totals = GatewayMetrics(), Totals()
    metrics.connections.read_from(lambda: 42)
    totals.tell(1, sent(metrics))
    assert shown(totals)["gateway_connections"] == 42


class Fleet:
    """Workers that count, are asked, and end, beside what was shown of them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.totals = Totals()
        self.workers = {number: GatewayMetrics() for number in (1, 2, 3)}

    def step(self) -> None:
        number, metrics = self.random.choice(list(self.workers.items()))
        action = self.random.choice(("count", "count", "count", "tell", "end", "kill"))
        if action == "count":
            metrics.requests.inc(f"r{self.random.randrange(9)}", "GET", 200)
            metrics.request_duration.observe(0.1, f"r{self.random.randrange(9)}")
        elif action == "tell":
            self.totals.tell(number, sent(metrics))
        else:
            if action == "end":  # the orderly way: its last numbers are told
                self.totals.tell(number, sent(metrics))
            self.totals.end(number)
            self.workers[number] = GatewayMetrics()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_nothing_that_counts_up_ever_falls(seed: int, steps: int) -> None:
    """A counter that falls is a restart to Prometheus, which then adds everything once more."""
    with patch("dataplane.metrics.ROUTES_MAX", 4):
        _watch_fleet(Fleet(seed), steps)


def _watch_fleet(fleet: Fleet, steps: int) -> None:
    before: dict[str, float] = {}
    for _ in range(steps):
        fleet.step()
        now = shown(fleet.totals)
        for name, value in before.items():
            if name.partition("{")[0].endswith(("_total", "_count", "_bucket", "_sum")) and name.startswith("gateway"):
                assert now[name] >= value, name
        before = now


def test_what_an_ended_worker_counted_stays_and_its_gauges_go() -> None:
    totals = Totals()
    for worker in (1, 2):
        metrics = GatewayMetrics()
        metrics.requests.inc("app", "GET", 200)
        metrics.connections.set(10)
        totals.tell(worker, sent(metrics))
    assert shown(totals)["gateway_connections"] == 20
    totals.end(1)
    totals.end(3)  # one that never said anything
    found = shown(totals)
    assert found["gateway_connections"] == 10
    assert found['gateway_requests_total{method="GET",route="app",status="200"}'] == 2


def test_routes_stay_bounded_over_all_workers_and_their_successors() -> None:
    totals = Totals()
    for worker in range(4):
        metrics = GatewayMetrics()
        for route in range(400):
            metrics.requests.inc(f"w{worker}-r{route}", "GET", 200)
        totals.tell(worker, sent(metrics))
        totals.end(worker)
    counts = {name: value for name, value in shown(totals).items() if name.startswith("gateway_requests_total")}
    assert len(counts) == ROUTES_MAX + 1
    assert sum(counts.values()) == 1_600


def test_the_processes_figures_are_summed_where_a_sum_means_something() -> None:
    totals, figures = Totals(), GatewayMetrics().registry.dump()
    before = shown(totals)
    for worker in (1, 2):
        totals.tell(worker, orjson.loads(orjson.dumps(figures)))
    after = shown(totals)
    resident, cpu = "process_resident_memory_bytes", "process_cpu_seconds_total"
    assert after[resident] > 2.5 * figures["process_resident_memory_bytes"][0][1]
    assert after[cpu] >= before[cpu] + 2 * figures["process_cpu_seconds_total"][0][1]
    for name in ("process_start_time_seconds", "process_max_fds"):
        assert after[name] == before[name]
    totals.end(1)
    ended = shown(totals)
    assert ended[cpu] >= after[cpu]
    assert ended[resident] < after[resident]


def test_states_and_ends_of_workers_are_told() -> None:
    totals = Totals()
    for reason in ("signal", "signal", "hang"):
        totals.count_end(reason)
    found = shown(totals, ready=2, silent=1)
    assert found['gateway_workers{state="ready"}'] == 2
    assert found['gateway_workers{state="silent"}'] == 1
    assert found['gateway_worker_ends_total{reason="signal"}'] == 2
    assert found['gateway_worker_ends_total{reason="hang"}'] == 1
    assert shown(totals, ready=2)['gateway_worker_ends_total{reason="signal"}'] == 2


def test_a_dump_holds_plain_values_and_no_process_is_told_twice() -> None:
    metrics = GatewayMetrics()
    metrics.registry.absorb({"process_open_fds": [((), 1_000)], "unknown_total": [((), 5)]})
    assert metrics.registry.dump()["process_open_fds"][0][1] < 1_000
    assert b"unknown" not in metrics.render()
