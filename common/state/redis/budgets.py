"""Budgets on Redis (`common.state.budgets.BudgetStore`)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from common.state.budgets import MAX_COUNT, BudgetCheck, BudgetResult
from common.state.counting import Ask, Counted, gather, hand_out, verify
from common.state.ports import StateUnavailable
from common.state.redis.asking import Asking
from common.state.redis.scripts import CHECK_BUDGETS
from common.state.turn import Turn

MOST_ASKS = 64
"""Requests whose budgets are counted by one script."""


class RedisBudgets:
    """Implements `BudgetStore`. The checks of one turn are one script, where all keys lie on one server."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._asks: Turn[Ask] = Turn(lambda asks: asking.spawn(self._count(asks)), most=MOST_ASKS)

    async def check_budgets(self, checks: Sequence[BudgetCheck]) -> Sequence[BudgetResult]:
        """See `BudgetStore`."""
        verify(checks)
        if not checks:
            return ()
        future: asyncio.Future[Sequence[BudgetResult]] = asyncio.get_running_loop().create_future()
        self._asks.add(Ask(checks, future))
        return await future

    async def _count(self, asks: list[Ask]) -> None:
        asked = gather(asks)
        try:
            with self._asking.measure("check_budgets") as measured:
                counted: dict[BudgetCheck, Counted] = {}
                if self._asking.servers.spread:
                    # Each key has a slot of its own; the commands of one turn leave together, to all servers at once.
                    single = [[one] for one in asked.items()]
                    for foreign, part in await asyncio.gather(*map(self._ask, single)):
                        measured.found_foreign(foreign)
                        counted.update(part)
                else:
                    foreign, counted = await self._ask(list(asked.items()))
                    measured.found_foreign(foreign)
        except Exception as error:  # noqa: BLE001 (every failure is one of the state, for each who asked)
            failure = error if isinstance(error, StateUnavailable) else StateUnavailable(f"no sense: {error!r}")
            for _, future in asks:
                if not future.done():
                    future.set_exception(failure)
            return
        hand_out(asks, counted)

    async def _ask(self, asked: list[tuple[BudgetCheck, int]]) -> tuple[int, dict[BudgetCheck, Counted]]:
        key_of = self._asking.keys.budget
        keys = [key_of(check.key, check.window_ms, check.bucket_ms) for check, _ in asked]
        args: list[int] = []
        for (_, limit, window_ms, bucket_ms), count in asked:
            args += (min(limit, MAX_COUNT), window_ms, bucket_ms, count)
        now, foreign, *numbers = await self._asking.script(CHECK_BUDGETS, keys, *args)
        self._asking.clock.heard(now)
        counted = zip(*[iter(numbers)] * 4, strict=True)
        return foreign, {check: Counted(*four) for (check, _), four in zip(asked, counted, strict=True)}
