"""Budgets on Postgres (`common.state.budgets.BudgetStore`)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import asyncpg

from common.state.budgets import MAX_COUNT, BudgetCheck, BudgetResult
from common.state.counting import Ask, Counted, gather, hand_out, verify
from common.state.postgres.asking import Asking
from common.state.postgres.lane import Lane, fail_all

MOST_ASKS = 64
"""Requests whose budgets are counted by one statement: it holds its rows until it has counted them all."""


class PostgresBudgets:
    """Implements `BudgetStore`. The checks of one turn are one statement."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._asks: Lane[Ask] = Lane(
            asking.pool,
            self._count,
            fail_all,
            name="check_budgets",
            watch=asking.watch,
            most=MOST_ASKS,
            at_once=2,
        )

    async def check_budgets(self, checks: Sequence[BudgetCheck]) -> Sequence[BudgetResult]:
        """See `BudgetStore`."""
        verify(checks)
        if not checks:
            return ()
        future: asyncio.Future[Sequence[BudgetResult]] = asyncio.get_running_loop().create_future()
        self._asks.add(Ask(checks, future))
        return await future

    async def _count(self, connection: asyncpg.Connection, asks: list[Ask]) -> None:
        asked = list(gather(asks).items())
        rows = await connection.fetch(
            "SELECT * FROM check_budgets($1, $2, $3, $4, $5)",
            [check.key.encode("utf-8", "surrogatepass") for check, _ in asked],
            [min(check.max_requests, MAX_COUNT) for check, _ in asked],
            [check.window_ms for check, _ in asked],
            [check.bucket_ms for check, _ in asked],
            [count for _, count in asked],
        )
        counted: dict[BudgetCheck, Counted] = {}
        for place, granted, used, reset_ms, wait_ms, _ in rows:
            counted[asked[place - 1][0]] = Counted(granted, used, reset_ms, wait_ms)
        self._asking.clock.heard(rows[-1]["told"])
        hand_out(asks, counted)
