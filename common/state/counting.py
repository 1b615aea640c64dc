"""Budgets that one turn of the loop asks for, counted together: equal ones are one question of the server (§9)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from common.state.budgets import MAX_BUDGETS, MAX_COUNT, BudgetCheck, BudgetResult, window_shape


class Ask(NamedTuple):
    """One call of `check_budgets` that waits for its results."""

    checks: Sequence[BudgetCheck]
    future: asyncio.Future[Sequence[BudgetResult]]


class Counted(NamedTuple):
    """What the server says of a budget that several requests asked for at once.

    The first `granted` of them are allowed. `used` were counted before; `reset_ms` and `wait_ms` are when the oldest
    counted bucket leaves, and when fewer than the limit are counted.
    """

    granted: int
    used: int
    reset_ms: int
    wait_ms: int


# A result a budget and request: this makes one in half the time of the class's own constructor.
_result: Callable[[tuple[bool, int, int, int]], BudgetResult] = partial(tuple.__new__, BudgetResult)


def verify(checks: Sequence[BudgetCheck]) -> None:
    """`ValueError` for what `BudgetStore` refuses."""
    if len(checks) > MAX_BUDGETS:
        raise ValueError(f"{len(checks)} budgets in one check, of at most {MAX_BUDGETS}")
    for _, _, window_ms, bucket_ms in checks:
        _verify_shape(window_ms, bucket_ms)


@lru_cache(maxsize=256)
def _verify_shape(window_ms: int, bucket_ms: int) -> None:
    window_shape(window_ms, bucket_ms)


def gather(asks: Sequence[Ask]) -> dict[BudgetCheck, int]:
    """How many requests ask for each budget, in the order in which they were asked for first."""
    asked: dict[BudgetCheck, int] = {}
    for checks, _ in asks:
        for check in checks:
            asked[check] = asked.get(check, 0) + 1
    return asked


def hand_out(asks: Sequence[Ask], counted: dict[BudgetCheck, Counted]) -> None:
    """Give each request its results; of those that asked for one budget, the first are those that get it."""
    served = dict.fromkeys(counted, 0)
    for checks, future in asks:
        results = []
        for check in checks:
            granted, used, reset_ms, wait_ms = counted[check]
            place = served[check]
            served[check] = place + 1
            if place < granted:
                remaining = min(check.max_requests, MAX_COUNT) - used - place - 1
                results.append(_result((True, remaining, 0, reset_ms)))
            else:
                results.append(_result((False, 0, wait_ms, wait_ms)))
        if not future.done():
            future.set_result(results)
