"""The passive breaker of upstreams (§11.4)."""

from __future__ import annotations

from common.routetable.compiled import Upstream
from dataplane.upstream.breaker import UpstreamBreaker

A, B, C = (Upstream("http", name, 80, name, "", f"http://{name}") for name in "abc")


def test_an_upstream_moves_to_the_end_after_failures_in_a_row() -> None:
    breaker = UpstreamBreaker(3, 30.0)
    for _ in range(2):
        breaker.failed(A.origin, 0.0)
    assert list(breaker.order((A, B), 0.0)) == [A, B]
    breaker.failed(A.origin, 0.0)
    assert list(breaker.order((A, B), 0.0)) == [B, A]


def test_an_answer_in_between_starts_the_count_anew() -> None:
    breaker = UpstreamBreaker(2, 30.0)
    breaker.failed(A.origin, 0.0)
    breaker.answered(A.origin)
    breaker.failed(A.origin, 0.0)
    assert list(breaker.order((A, B), 0.0)) == [A, B]


def test_the_cooldown_is_not_extended_by_failures_within_it() -> None:
    breaker = UpstreamBreaker(1, 30.0)
    breaker.failed(A.origin, 0.0)
    breaker.failed(A.origin, 29.0)
    assert breaker.skipped(A.origin, 29.9)
    assert not breaker.skipped(A.origin, 30.0)


def test_the_first_failure_after_the_cooldown_trips_it_again() -> None:
    breaker = UpstreamBreaker(3, 30.0)
    for _ in range(3):
        breaker.failed(A.origin, 0.0)
    breaker.failed(A.origin, 31.0)
    assert breaker.skipped(A.origin, 31.0)


def test_skipped_upstreams_keep_the_order_of_the_file_and_are_never_removed() -> None:
    breaker = UpstreamBreaker(1, 30.0)
    breaker.failed(A.origin, 0.0)
    breaker.failed(B.origin, 0.0)
    assert list(breaker.order((A, B, C), 1.0)) == [C, A, B]
    breaker.failed(C.origin, 0.0)
    assert list(breaker.order((A, B, C), 1.0)) == [A, B, C]


def test_zero_failures_switch_it_off() -> None:
    breaker = UpstreamBreaker(0, 30.0)
    for _ in range(10):
        breaker.failed(A.origin, 0.0)
    assert list(breaker.order((A, B), 0.0)) == [A, B]
