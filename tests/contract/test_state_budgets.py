"""Budgets are counted alike by every backend (`common.state.budgets`, §9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from common.state.budgets import MAX_COUNT, BudgetCheck, BudgetResult, BudgetTable
from common.state.ports import ControlState
from tests.fuzz.test_limits_window import Listed, histories
from tests.support.auth_harness import Time
from tests.support.state_backends import Backend

MINUTE = (60_000, 1_000)


@pytest.fixture
def time(backend: Backend) -> Time:
    return backend.fresh()


@pytest.fixture
async def state(backend: Backend, time: Time) -> AsyncIterator[ControlState]:
    state = backend.open(time)
    await state.start()
    yield state
    await state.close()


async def test_up_to_the_limit_are_allowed_and_the_window_then_opens_again(state: ControlState, time: Time) -> None:
    check = BudgetCheck("k", 2, *MINUTE)
    assert await state.check_budgets([check]) == [BudgetResult(True, 1, 0, 61_000)]
    time.pass_s(0.25)
    assert await state.check_budgets([check]) == [BudgetResult(True, 0, 0, 60_750)]
    assert await state.check_budgets([check]) == [BudgetResult(False, 0, 60_750, 60_750)]
    time.pass_s(60.749)
    assert not (await state.check_budgets([check]))[0].allowed
    time.pass_s(0.001)
    assert await state.check_budgets([check]) == [BudgetResult(True, 1, 0, 61_000)]


async def test_each_budget_of_a_check_counts_for_itself(state: ControlState) -> None:
    narrow, wide = BudgetCheck("narrow", 1, *MINUTE), BudgetCheck("wide", 5, 10_000, 200)
    first = await state.check_budgets([narrow, wide])
    second = await state.check_budgets([wide, narrow])
    assert [result.allowed for result in (*first, *second)] == [True, True, True, False]
    assert second[0].remaining == 3


async def test_requests_of_one_moment_together_stay_within_the_limit(state: ControlState) -> None:
    """They travel together, and are answered as if they had come one after the other."""
    total, own = BudgetCheck("total", 7, *MINUTE), [BudgetCheck(f"own-{n % 3}", 2, *MINUTE) for n in range(12)]
    results = await asyncio.gather(*(state.check_budgets([total, each]) for each in own))
    assert [result[0].remaining for result in results if result[0].allowed] == [6, 5, 4, 3, 2, 1, 0]
    assert [result[1].allowed for result in results] == [n < 6 for n in range(12)]


async def test_two_replicas_together_stay_within_the_limit(backend: Backend, time: Time) -> None:
    replicas = [backend.open(time), backend.open(time)]
    for replica in replicas:
        await replica.start()
    checks = [[BudgetCheck(f"k{n % 5}", 10, *MINUTE)] for n in range(200)]
    results = await asyncio.gather(*(replicas[n % 2].check_budgets(check) for n, check in enumerate(checks)))
    for replica in replicas:
        await replica.close()
    assert sum(result[0].allowed for result in results) == 50


async def test_keys_are_not_confused_by_what_is_in_them(state: ControlState) -> None:
    keys = ["a", "a:b", "a%3Ab", "{a}", "a b", "\x00", "ä", "日本", "a" * 300, "", "a\n", "'; drop --", "\\x61"]
    for _ in range(2):
        results = await asyncio.gather(*(state.check_budgets([BudgetCheck(key, 2, *MINUTE)]) for key in keys))
        assert all(result[0].allowed for result in results)
    assert not (await state.check_budgets([BudgetCheck("ä", 2, *MINUTE)]))[0].allowed


async def test_a_lowered_limit_waits_until_fewer_are_counted(state: ControlState, time: Time) -> None:
    for _ in range(3):
        await state.check_budgets([BudgetCheck("k", 3, 10_000, 1_000)])
        time.pass_s(2)
    assert await state.check_budgets([BudgetCheck("k", 1, 10_000, 1_000)]) == [BudgetResult(False, 0, 9_000, 9_000)]


async def test_other_windows_of_a_key_are_counted_anew_and_the_limit_may_be_any_number(state: ControlState) -> None:
    assert (await state.check_budgets([BudgetCheck("k", 1, *MINUTE)]))[0].allowed
    assert (await state.check_budgets([BudgetCheck("k", 1, 30_000, 1_000)]))[0].allowed
    [result] = await state.check_budgets([BudgetCheck("k", 10**15, *MINUTE)])
    assert result.remaining == MAX_COUNT - 2


@pytest.mark.parametrize(
    "checks",
    [
        [BudgetCheck(f"k{n}", 1, *MINUTE) for n in range(5)],
        [BudgetCheck("k", 1, 61_000, 1_000)],
        [BudgetCheck("k", 1, 0, 1_000)],
        [BudgetCheck("k", 1, 1_000, 0)],
    ],
)
async def test_more_budgets_or_buckets_than_there_may_be_are_refused(
    state: ControlState, checks: list[BudgetCheck]
) -> None:
    with pytest.raises(ValueError):
        await state.check_budgets(checks)


async def test_a_check_of_nothing_allows(state: ControlState) -> None:
    assert list(await state.check_budgets([])) == []


def test_the_answers_are_those_of_a_plain_list(backend: Backend) -> None:
    """As `tests/fuzz/test_limits_window.py` has it for the table in memory; a server's clock only goes on here."""

    @given(histories(keys=3))
    @settings(max_examples=200 if backend.name == "memory" else 25, suppress_health_check=list(HealthCheck))
    def agree(history: tuple[tuple[int, int], list[tuple[int, int, int]]]) -> None:
        shape, requests = history
        time = backend.fresh()
        lists = {key: Listed(*shape) for key in range(3)}
        expected = []
        steps: list[tuple[float, BudgetCheck]] = []
        for step_ms, key, limit in requests:
            # A date of four digits is what a server can be told.
            step_ms = min(max(step_ms, 0), 10**9)
            steps.append((step_ms / 1000, BudgetCheck(f"k{key}", limit, *shape)))

        async def run() -> list[Any]:
            state = backend.open(time)
            await state.start()
            found = []
            for step_s, check in steps:
                time.pass_s(step_s)
                key = int(check.key[1:])
                expected.append(lists[key].check(check.max_requests, time.now_ms()))
                found += await state.check_budgets([check])
            await state.close()
            return found

        assert asyncio.run(run()) == expected

    agree()


async def test_the_table_in_memory_agrees_with_itself_as_a_state(state: ControlState, time: Time) -> None:
    table = BudgetTable(time.now_ms)
    for step in (0, 0.4, 1.2, 3.0, 58.0, 0.0, 2.0):
        time.pass_s(step)
        check = [BudgetCheck("k", 3, *MINUTE)]
        assert await state.check_budgets(check) == await table.check_budgets(check)
