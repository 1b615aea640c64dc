"""The bounds of the in-process table: keys, memory, and work on the path of a request."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from common.state.budgets import MAX_KEYS, BudgetCheck, BudgetTable
from tests.support.limits import MINUTE, ManualClock, check_now


def client(n: int, limit: int = 3) -> BudgetCheck:
    return BudgetCheck(f"client:10.{n >> 16}.{n >> 8 & 255}.{n & 255}", limit, *MINUTE)


def test_a_table_holds_at_most_ten_thousand_keys() -> None:
    table = BudgetTable(ManualClock())
    for n in range(MAX_KEYS + 5_000):
        check_now(table, client(n))
    assert len(table) == MAX_KEYS == 10_000


def test_spraying_addresses_never_frees_a_budget() -> None:
    table = BudgetTable(ManualClock())
    victim = client(0)
    for _ in range(3):
        assert check_now(table, victim)[0].allowed
    for n in range(1, 30_000):
        check_now(table, client(n))
    assert not check_now(table, victim)[0].allowed


def test_requests_that_find_no_room_share_one_budget() -> None:
    table = BudgetTable(ManualClock(), max_keys=2)
    check_now(table, client(0), client(1))
    assert [check_now(table, client(n))[0].allowed for n in range(2, 8)] == [True] * 3 + [False] * 3
    # Those that are in the table keep their own.
    assert check_now(table, client(0))[0].remaining == 1


def test_the_shared_budget_slides_like_any_other() -> None:
    clock = ManualClock()
    table = BudgetTable(clock, max_keys=1)
    check_now(table, client(0))
    for n in range(1, 4):
        assert check_now(table, client(n))[0].allowed
    clock.now_ms = 40_000
    check_now(table, client(0))  # which keeps the table full
    refused = check_now(table, client(4))[0]
    assert refused == (False, 0, 21_000, 21_000)
    clock.now_ms = 61_000
    assert check_now(table, client(4))[0] == (True, 2, 0, 61_000)
    assert len(table) == 1


def test_another_limit_or_window_shares_with_its_own_kind() -> None:
    table = BudgetTable(ManualClock(), max_keys=1)
    check_now(table, client(0))
    assert all(check_now(table, client(n))[0].allowed for n in (1, 2, 3))
    assert not check_now(table, client(4))[0].allowed
    assert check_now(table, client(4, limit=2))[0].allowed
    assert check_now(table, BudgetCheck("client:10.0.0.4", 3, 30_000, 1_000))[0].allowed


def test_a_key_that_finds_room_brings_its_shared_requests_along() -> None:
    """Else a caller that was counted with others would start anew, and make twice its limit in one window."""
    clock = ManualClock()
    table = BudgetTable(clock, max_keys=1)
    check_now(table, client(0))
    clock.now_ms = 30_000
    assert all(check_now(table, client(1))[0].allowed for _ in range(3))
    clock.now_ms = 61_000  # the only key's window has ended, the shared one has not
    assert not check_now(table, client(1))[0].allowed
    assert len(table) == 1
    clock.now_ms = 91_000
    assert check_now(table, client(1))[0].remaining == 2


def test_ended_windows_leave_two_at_a_time_and_never_all_at_once() -> None:
    clock = ManualClock()
    table = BudgetTable(clock)
    for n in range(1_000):
        check_now(table, client(n))
    clock.now_ms = 61_000
    check_now(table, client(5_000))
    assert len(table) == 999
    for n in range(5_001, 6_000):
        check_now(table, client(n))
    assert len(table) == 1_000


def test_a_window_that_has_not_ended_is_never_swept() -> None:
    clock = ManualClock()
    table = BudgetTable(clock)
    for n in range(100):
        check_now(table, client(n))
    clock.now_ms = 60_999
    for n in range(100, 200):
        check_now(table, client(n))
    assert len(table) == 200


def test_keys_that_are_used_outlive_those_that_are_not() -> None:
    clock = ManualClock()
    table = BudgetTable(clock, max_keys=3)
    check_now(table, client(0), client(1), client(2))
    clock.now_ms = 30_000
    check_now(table, client(0))
    clock.now_ms = 61_000
    check_now(table, client(7))
    assert len(table) == 2  # 1 and 2 went, though 0 came first
    assert check_now(table, client(0))[0].remaining == 1


def test_room_is_made_from_windows_of_any_shape() -> None:
    clock = ManualClock()
    table = BudgetTable(clock, max_keys=2)
    check_now(table, BudgetCheck("a", 1, 1_000, 1_000), BudgetCheck("b", 1, 1_000, 1_000))
    clock.now_ms = 2_000
    check_now(table, client(0), client(1))
    assert len(table) == 2
    assert [check_now(table, client(n))[0].remaining for n in (0, 1)] == [1, 1]


def test_shapes_of_former_configurations_are_forgotten() -> None:
    clock = ManualClock()
    table = BudgetTable(clock, max_keys=1)
    for shape in range(1, 200):
        check_now(table, BudgetCheck("k", 1, shape * 1_000, shape * 1_000))
        clock.now_ms += 10_000_000
    assert len(table._pools) <= 3


@pytest.mark.parametrize(("buckets", "bytes_a_key"), [(1, 300), (61, 600)])
def test_a_key_costs_few_bytes(buckets: int, bytes_a_key: int) -> None:
    """300 bytes for a key of a flood; 600 for one that made requests in each second of its minute."""
    clock = ManualClock()
    keys = 500  # a dictionary of so many is as full as one of 2 000
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        table = BudgetTable(clock)
        for bucket in range(buckets):
            clock.now_ms = bucket * 1_000
            for n in range(keys):
                check_now(table, client(n, limit=6_000))
        gc.collect()
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(table) == keys
    assert used / keys < bytes_a_key
