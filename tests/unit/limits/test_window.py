"""The arithmetic of a sliding window."""

from __future__ import annotations

import pytest

from common.state.budgets import MAX_BUCKETS, MAX_COUNT, BudgetCheck, BudgetTable, window_shape
from tests.support.limits import MINUTE, ManualClock, check_now


def test_a_request_is_counted_until_its_whole_bucket_has_left_the_window() -> None:
    clock = ManualClock(999)
    table = BudgetTable(clock)
    once = BudgetCheck("k", 1, *MINUTE)
    assert check_now(table, once)[0].allowed
    # Made in the last millisecond of its bucket: a window that dropped the bucket at 60.000 s would let a second one
    # through 59.001 s after the first.
    for clock.now_ms in (60_000, 60_999):
        assert not check_now(table, once)[0].allowed
    clock.now_ms = 61_000
    assert check_now(table, once)[0].allowed


def test_the_window_slides_and_has_no_edge_to_burst_across() -> None:
    clock = ManualClock(59_500)
    table = BudgetTable(clock)
    check = BudgetCheck("k", 10, *MINUTE)
    assert all(check_now(table, check)[0].allowed for _ in range(10))
    clock.now_ms = 60_500  # a fixed window of a minute would have begun anew
    assert not check_now(table, check)[0].allowed


def test_what_is_left_counts_down_to_zero_and_the_next_is_refused() -> None:
    table = BudgetTable(ManualClock())
    check = BudgetCheck("k", 3, *MINUTE)
    seen = [check_now(table, check)[0] for _ in range(4)]
    assert [(each.allowed, each.remaining) for each in seen] == [(True, 2), (True, 1), (True, 0), (False, 0)]


def test_a_refused_request_is_not_counted_and_pushes_nothing_out() -> None:
    clock = ManualClock()
    table = BudgetTable(clock)
    check = BudgetCheck("k", 1, *MINUTE)
    check_now(table, check)
    for clock.now_ms in range(0, 61_000, 500):
        assert not check_now(table, check)[0].allowed
    clock.now_ms = 61_000
    assert check_now(table, check)[0].allowed


def test_retry_after_is_the_moment_the_count_falls_below_the_limit() -> None:
    clock = ManualClock()
    table = BudgetTable(clock)
    check = BudgetCheck("k", 2, *MINUTE)
    check_now(table, check)
    clock.now_ms = 20_300
    check_now(table, check)
    clock.now_ms = 30_400
    refused = check_now(table, check)[0]
    assert refused == (False, 0, 61_000 - 30_400, 61_000 - 30_400)
    clock.now_ms += refused.retry_after_ms - 1
    assert not check_now(table, check)[0].allowed
    clock.now_ms += 1
    assert check_now(table, check)[0].allowed


def test_a_lowered_limit_counts_what_was_made_under_the_higher_one() -> None:
    clock = ManualClock()
    table = BudgetTable(clock)
    for clock.now_ms in range(0, 10_000, 1_000):
        check_now(table, BudgetCheck("k", 100, *MINUTE))
    lowered = BudgetCheck("k", 3, *MINUTE)
    # Ten are counted; fewer than three are left when the eighth, made in the eighth second, has left.
    assert check_now(table, lowered)[0] == (False, 0, 68_000 - 9_000, 68_000 - 9_000)
    clock.now_ms = 68_000
    assert check_now(table, lowered)[0].allowed


def test_reset_is_when_the_oldest_counted_bucket_leaves() -> None:
    clock = ManualClock(5_000)
    table = BudgetTable(clock)
    check = BudgetCheck("k", 9, *MINUTE)
    assert check_now(table, check)[0].reset_ms == 61_000
    clock.now_ms = 40_250
    assert check_now(table, check)[0].reset_ms == 66_000 - 40_250
    clock.now_ms = 66_000
    assert check_now(table, check)[0] == (True, 7, 0, 101_000 - 66_000)


def test_each_budget_counts_unless_it_refuses_itself() -> None:
    table = BudgetTable(ManualClock())
    narrow, wide = BudgetCheck("narrow", 1, *MINUTE), BudgetCheck("wide", 5, *MINUTE)
    assert [each.allowed for each in check_now(table, narrow, wide)] == [True, True]
    # Refused by the first, and made nevertheless for the second.
    assert [each[:2] for each in check_now(table, narrow, wide)] == [(False, 0), (True, 3)]
    assert [each[:2] for each in check_now(table, wide, narrow)] == [(True, 2), (False, 0)]


def test_a_clock_that_steps_back_returns_no_budget() -> None:
    clock = ManualClock(100_000)
    table = BudgetTable(clock)
    check = BudgetCheck("k", 1, *MINUTE)
    check_now(table, check)
    for clock.now_ms in (99_999, 30_000, 0, 100_000):
        assert not check_now(table, check)[0].allowed


def test_a_clock_that_leaps_ahead_costs_no_memory() -> None:
    clock = ManualClock()
    table = BudgetTable(clock)
    check = BudgetCheck("k", 5, *MINUTE)
    check_now(table, check)
    clock.now_ms = 10**18  # a shift by as many buckets would be a number of petabytes
    assert check_now(table, check)[0].remaining == 4


@pytest.mark.parametrize(
    ("window_ms", "bucket_ms", "lasts"),
    [(60_000, 1_000, 61), (1, 1, 2), (1_000, 1_000, 2), (1_500, 1_000, 3), (10, 1_000, 2), (60, 1, 61)],
)
def test_a_window_counts_one_bucket_more_than_it_holds(window_ms: int, bucket_ms: int, lasts: int) -> None:
    assert window_shape(window_ms, bucket_ms).lasts == lasts


@pytest.mark.parametrize(("window_ms", "bucket_ms"), [(0, 1), (1, 0), (-1, 1), (60_001, 1_000), (61, 1)])
def test_an_empty_window_and_one_of_too_many_buckets_are_errors(window_ms: int, bucket_ms: int) -> None:
    with pytest.raises(ValueError, match="window"):
        window_shape(window_ms, bucket_ms)
    with pytest.raises(ValueError, match="window"):
        check_now(BudgetTable(ManualClock()), BudgetCheck("k", 1, window_ms, bucket_ms))
    assert MAX_BUCKETS == 60


def test_more_than_four_budgets_in_one_check_are_an_error() -> None:
    checks = [BudgetCheck(str(n), 1, *MINUTE) for n in range(5)]
    with pytest.raises(ValueError, match="at most 4"):
        check_now(BudgetTable(ManualClock()), *checks)
    assert len(check_now(BudgetTable(ManualClock()), *checks[:4])) == 4


@pytest.mark.parametrize("first", [1, 253, 254, 255, 300, 32_765, 32_766, 32_767])
@pytest.mark.parametrize("second", [1, 254, 32_767])
def test_counts_are_kept_whole_however_many_there_are(first: int, second: int) -> None:
    """They are packed in as few bits as hold them, and in more from the request on that they would not hold."""
    clock = ManualClock()
    table = BudgetTable(clock)
    check = BudgetCheck("k", 10**6, *MINUTE)
    check_now(table, check)
    table._pools[MINUTE].windows["k"].used = first
    clock.now_ms = 7_000
    assert check_now(table, check)[0] == (True, 10**6 - first - 1, 0, 61_000 - 7_000)
    table._pools[MINUTE].windows["k"].used = first + second
    clock.now_ms = 60_000
    assert check_now(table, check)[0] == (True, 10**6 - first - second - 1, 0, 1_000)
    clock.now_ms = 61_000  # what came first has left
    assert check_now(table, check)[0] == (True, 10**6 - second - 2, 0, 68_000 - 61_000)
    clock.now_ms = 68_000
    assert check_now(table, check)[0] == (True, 10**6 - 3, 0, 121_000 - 68_000)


def test_a_lowered_limit_counts_a_bucket_that_its_fields_did_not_hold_yet() -> None:
    clock = ManualClock()
    table = BudgetTable(clock)
    check_now(table, BudgetCheck("k", 1_000, *MINUTE))
    clock.now_ms = 5_000
    check_now(table, BudgetCheck("k", 1_000, *MINUTE))
    table._pools[MINUTE].windows["k"].used = 400
    # One in the first second, 399 in the sixth: fewer than ten are left when those have left.
    assert check_now(table, BudgetCheck("k", 10, *MINUTE))[0] == (False, 0, 61_000, 61_000)


def test_a_limit_beyond_what_a_window_counts_to_is_still_a_limit() -> None:
    clock = ManualClock()
    table = BudgetTable(clock)
    check = BudgetCheck("k", 10**12, *MINUTE)
    check_now(table, check)
    # As after a thousand million requests in one bucket; the next one must not carry into its neighbour.
    table._pools[MINUTE].windows["k"].used = MAX_COUNT - 1
    assert check_now(table, check)[0].allowed
    clock.now_ms = 1_000
    refused = check_now(table, check)[0]
    assert refused == (False, 0, 60_000, 60_000)
    clock.now_ms = 61_000
    assert check_now(table, check)[0].allowed
