"""What to do next about a certificate, for every state that a store and a clock can be in."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.tls.acme.failure import REASON_MAX, OrderFailed
from dataplane.tls.acme.plan import (
    ASK_AGAIN_AFTER_FAILURE_MS,
    DAY_MS,
    HOUR_MS,
    LONGEST_WAIT_MS,
    MINUTE_MS,
    WHEN_REFUSED,
    WHEN_UNREACHABLE,
    AskAuthority,
    Order,
    Step,
    TakeLease,
    Wait,
    after_advice,
    after_failure,
    next_step,
    renewal_at,
)
from dataplane.tls.acme.records import Advice, Issued, Progress

START = 1_800_000_000_000
BEFORE = 30 * DAY_MS
NOT_SAID = Advice("0" * 64, 0, START + 365 * DAY_MS)


def issued(days: float = 90, *, fingerprint: str = "0" * 64) -> Issued:
    return Issued(b"", b"", fingerprint, "1", START, START + round(days * DAY_MS))


NOTHING = Progress()


def step(
    now_ms: int, held: Issued | None, progress: Progress = NOTHING, *, leased: bool = True, before_ms: int = BEFORE
) -> Step:
    return next_step(now_ms, held, progress, renew_before_ms=before_ms, leased=leased)


ASKED = Progress(advice=Advice("0" * 64, 0, START + 5 * HOUR_MS))


def asked(now_ms: int) -> Progress:
    """The authority was just asked, and did not say."""
    return Progress(advice=Advice("0" * 64, 0, now_ms + 6 * HOUR_MS))


def test_without_a_certificate_one_is_ordered_by_whoever_has_the_lease() -> None:
    assert step(START, None, leased=False) == TakeLease()
    assert step(START, None) == Order("there is none")


@pytest.mark.parametrize(
    ("days", "before_days", "due_day"),
    [(90, 30, 60), (90, 10, 80), (45, 30, 30), (6, 30, 4), (1, 30, 2 / 3), (90, 60, 60)],
)
def test_renewal_is_due_the_set_days_before_the_end_or_a_third_of_the_lifetime_the_shorter(
    days: float, before_days: int, due_day: float
) -> None:
    held = issued(days)
    due = START + round(due_day * DAY_MS)
    before_ms = before_days * DAY_MS

    assert abs(renewal_at(held, Progress(), before_ms) - due) <= 1
    assert step(due - 2, held, asked(due - 2), before_ms=before_ms) == Wait(renewal_at(held, Progress(), before_ms))
    assert step(due + 1, held, asked(due), before_ms=before_ms) == Order("it ends soon")
    assert step(due + 1, held, asked(due), before_ms=before_ms, leased=False) == TakeLease()


@given(st.text("0123456789abcdef", min_size=64, max_size=64), st.floats(0.01, 400), st.integers(1, 365))
def test_certificates_of_one_day_do_not_all_renew_at_one_time(fingerprint: str, days: float, before_days: int) -> None:
    held = issued(days, fingerprint=fingerprint)
    span_ms = min(before_days * DAY_MS, (held.not_after_ms - START) // 3)
    sooner = held.not_after_ms - span_ms - renewal_at(held, Progress(), before_days * DAY_MS)

    assert 0 <= sooner <= span_ms / 10 + 1


def test_an_expired_certificate_is_due_whatever_the_authority_said() -> None:
    held = issued()
    progress = Progress(advice=Advice("0" * 64, held.not_after_ms + DAY_MS, held.not_after_ms + DAY_MS))

    assert step(held.not_after_ms + 1, held, progress) == Order("it has expired")


def test_the_authority_brings_a_renewal_forward_at_once() -> None:
    """How a client without OCSP learns that its certificate was revoked: RFC 9773 §1."""
    progress = Progress(advice=Advice("0" * 64, START - HOUR_MS, START + 6 * HOUR_MS))

    assert step(START + 1, issued(), progress) == Order("the authority suggests it")


def test_the_authority_may_put_a_renewal_off_but_not_to_the_end() -> None:
    held = issued()
    later = Progress(advice=Advice("0" * 64, START + 70 * DAY_MS, START + 61 * DAY_MS))
    too_late = replace(later, advice=Advice("0" * 64, held.not_after_ms, START + 61 * DAY_MS))

    assert renewal_at(held, later, BEFORE) == START + 70 * DAY_MS
    assert renewal_at(held, too_late, BEFORE) == START + 75 * DAY_MS


def test_what_the_authority_said_of_another_certificate_does_not_count() -> None:
    held = issued(fingerprint="1" * 64)
    progress = Progress(advice=Advice("0" * 64, START - HOUR_MS, START + 6 * HOUR_MS))

    assert step(START + 1, held, progress) == AskAuthority()
    assert step(START + 1, held, progress, leased=False) == TakeLease()


def test_the_authority_is_asked_again_when_it_said_and_no_sooner() -> None:
    assert step(START, issued(), ASKED) == Wait(START + 5 * HOUR_MS)
    assert step(START + 5 * HOUR_MS, issued(), ASKED) == AskAuthority()


def test_an_authority_that_wants_to_be_asked_in_years_is_asked_in_a_week() -> None:
    assert step(START, issued(), Progress(advice=NOT_SAID)) == AskAuthority()


def test_an_operator_has_a_certificate_replaced_and_the_next_one_left_alone() -> None:
    held, renewed = issued(), issued(fingerprint="1" * 64)
    wish = Progress(renew_now=held.fingerprint)

    assert step(START, held, wish) == Order("an operator asked for it")
    assert step(START, renewed, wish) == AskAuthority()


def test_nothing_is_tried_before_the_back_off_is_over() -> None:
    progress = Progress(refused=1, retry_at_ms=START + MINUTE_MS)

    for leased in (False, True):
        assert step(START, None, progress, leased=leased) == Wait(START + MINUTE_MS)
        assert step(START + MINUTE_MS - 1, None, progress, leased=leased) == Wait(START + MINUTE_MS)
    assert step(START + MINUTE_MS, None, progress) == Order("there is none")


def test_a_wait_that_a_wrong_clock_left_behind_does_not_hold_for_years() -> None:
    progress = Progress(refused=1, retry_at_ms=START + LONGEST_WAIT_MS + 1)

    assert step(START, None, progress) == Order("there is none")


def failures(count: int, failure: OrderFailed, chance: float = 0.0) -> list[int]:
    """The waits, in milliseconds, after each of some failures in a row."""
    waits, progress = [], Progress()
    for _ in range(count):
        progress = after_failure(START, progress, failure, chance)
        waits.append(progress.retry_at_ms - START)
    return waits


def test_refusals_are_tried_again_ever_more_seldom_and_five_times_in_the_first_hour() -> None:
    waits = failures(9, OrderFailed("no"))

    assert waits == [15_000 * factor for factor in (1, 4, 16, 64, 256, 1_024, 1_440, 1_440, 1_440)]
    begun = [sum(waits[:attempt]) for attempt in range(9)]
    assert sum(at < HOUR_MS for at in begun) == 5


def test_an_authority_that_is_away_is_tried_again_within_ten_minutes() -> None:
    waits = failures(12, OrderFailed("away", unreachable=True))

    assert waits[:3] == [10_000, 20_000, 40_000]
    assert max(waits) == waits[-1] == WHEN_UNREACHABLE.longest_ms == 10 * MINUTE_MS


@given(st.integers(1, 10**9), st.floats(0, 1), st.booleans())
def test_no_number_of_failures_takes_the_wait_out_of_its_bounds(count: int, chance: float, unreachable: bool) -> None:
    pace = WHEN_UNREACHABLE if unreachable else WHEN_REFUSED
    before = Progress(refused=0 if unreachable else count, unreachable=count if unreachable else 0)
    wait = after_failure(START, before, OrderFailed("x", unreachable=unreachable), chance).retry_at_ms - START

    assert pace.first_ms <= wait <= pace.longest_ms * 1.25


def test_replicas_spread_over_a_quarter_more() -> None:
    assert failures(1, OrderFailed("no"), 1.0) == [18_750]


def test_an_outage_between_refusals_does_not_begin_their_count_anew() -> None:
    progress = Progress()
    for unreachable in (False, False, True, False):
        progress = after_failure(START, progress, OrderFailed("x", unreachable=unreachable), 0)

    assert (progress.refused, progress.unreachable) == (3, 0)


@pytest.mark.parametrize(
    ("asked_s", "wait_ms"),
    [(5.0, 15_000), (7_200.0, 2 * HOUR_MS), (10.0**8, LONGEST_WAIT_MS), (0.0, 15_000)],
)
def test_the_wait_that_the_authority_asks_for_is_kept_up_to_a_week(asked_s: float, wait_ms: int) -> None:
    assert failures(1, OrderFailed("rateLimited", retry_after_s=asked_s)) == [wait_ms]


def test_a_failure_is_remembered_in_one_bounded_line() -> None:
    """The authority's words end in logs, in readiness and on an operator's terminal."""
    hostile = "no\r\n\x1b[2Jlevel=info " + "x" * 100_000
    progress = after_failure(START, Progress(), OrderFailed(hostile), 0)

    assert progress.last_error.isprintable()
    assert len(progress.last_error) < REASON_MAX + 100
    assert progress.failed_at_ms == START


def test_an_authority_that_does_not_answer_a_question_is_asked_in_an_hour_and_what_it_said_still_counts() -> None:
    held = issued()
    known = Progress(advice=Advice("0" * 64, START + DAY_MS, START))

    progress = after_advice(START, known, held, None)

    assert progress.advice == Advice("0" * 64, START + DAY_MS, START + ASK_AGAIN_AFTER_FAILURE_MS)
