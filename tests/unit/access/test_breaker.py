"""The breaker by hand: what opens it, what closes it, and what leaves it alone."""

from __future__ import annotations

from dataplane.access.breaker import Breaker


def ticket(breaker: Breaker, now: float) -> int:
    given = breaker.admit(now)
    assert given is not None
    return given


def opened(failures: int = 2, cooldown_s: float = 5.0, now: float = 0.0) -> Breaker:
    breaker = Breaker(failures, cooldown_s)
    for _ in range(failures):
        breaker.failed(ticket(breaker, now), now)
    assert breaker.open
    return breaker


def test_it_opens_at_the_configured_failure_in_a_row_and_not_before() -> None:
    breaker = Breaker(3, 5.0)
    breaker.failed(ticket(breaker, 0), 0)
    breaker.failed(ticket(breaker, 0), 0)
    assert not breaker.open
    breaker.failed(ticket(breaker, 0), 0)
    assert breaker.open
    assert breaker.admit(0) is None


def test_an_answer_ends_the_row() -> None:
    breaker = Breaker(2, 5.0)
    for _ in range(10):
        breaker.failed(ticket(breaker, 0), 0)
        breaker.succeeded(ticket(breaker, 0))
    assert not breaker.open


def test_outcomes_without_a_verdict_neither_count_nor_end_the_row() -> None:
    breaker = Breaker(2, 5.0)
    breaker.failed(ticket(breaker, 0), 0)
    for _ in range(50):
        breaker.released(ticket(breaker, 0))
    assert not breaker.open
    breaker.failed(ticket(breaker, 0), 0)
    assert breaker.open


def test_zero_never_opens() -> None:
    breaker = Breaker(0, 5.0)
    for _ in range(100):
        breaker.failed(ticket(breaker, 0), 0)
    assert not breaker.open


def test_it_refuses_until_the_cooldown_is_over_and_then_admits_one() -> None:
    breaker = opened(cooldown_s=5.0)
    assert breaker.admit(4.999) is None
    ticket(breaker, 5.0)
    assert breaker.admit(5.0) is None
    assert breaker.admit(500.0) is None


def test_a_probe_that_is_answered_closes_it_after_any_number_of_failures() -> None:
    breaker = opened(failures=50)
    breaker.succeeded(ticket(breaker, 5.0))
    assert not breaker.open
    ticket(breaker, 5.0)
    ticket(breaker, 5.0)


def test_a_probe_that_fails_opens_it_for_a_whole_cooldown() -> None:
    breaker = opened(cooldown_s=5.0)
    breaker.failed(ticket(breaker, 7.0), 9.0)
    assert breaker.admit(13.9) is None
    ticket(breaker, 14.0)


def test_a_cancelled_probe_leaves_its_place_at_once() -> None:
    breaker = opened()
    breaker.released(ticket(breaker, 5.0))
    assert breaker.open
    breaker.succeeded(ticket(breaker, 5.0))
    assert not breaker.open


def test_releasing_after_a_report_changes_nothing() -> None:
    breaker = opened()
    probe = ticket(breaker, 5.0)
    breaker.failed(probe, 5.0)
    breaker.released(probe)
    assert breaker.admit(5.0) is None
    probe = ticket(breaker, 10.0)
    breaker.succeeded(probe)
    breaker.released(probe)
    assert not breaker.open


def test_a_late_success_of_before_does_not_close_it() -> None:
    breaker = Breaker(1, 5.0)
    slow = ticket(breaker, 0)
    breaker.failed(ticket(breaker, 0), 0)
    breaker.succeeded(slow)
    assert breaker.open
    probe = ticket(breaker, 5.0)
    breaker.succeeded(slow)
    assert breaker.open
    breaker.succeeded(probe)
    assert not breaker.open


def test_late_failures_of_before_neither_lengthen_the_cooldown_nor_take_the_probe() -> None:
    breaker = Breaker(1, 5.0)
    slow = [ticket(breaker, 0) for _ in range(3)]
    breaker.failed(ticket(breaker, 0), 0)
    breaker.failed(slow[0], 4.0)
    probe = ticket(breaker, 5.0)
    breaker.failed(slow[1], 5.0)
    breaker.released(slow[2])
    assert breaker.admit(5.0) is None
    breaker.succeeded(probe)
    breaker.failed(slow[1], 5.0)
    assert not breaker.open
