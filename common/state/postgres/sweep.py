"""What is over, removed from the tables, bit by bit: no statement of it takes long, and no request waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import random

from common.state.ports import StateUnavailable
from common.state.postgres.asking import Asking

SWEEP_EVERY_S = 30.0
"""How often expired rows are looked for; another replica may have done it."""
MOST_ROWS = 2_000
"""Rows of each table removed by one statement: it ends long before the time of an operation."""
PAGES = 128
"""Of the budgets' table, looked at by one statement: a megabyte, which holds some five thousand rows."""
_PAUSE_S = 0.01
"""Between two of those: requests come first, and a table of a million rows is through in a few seconds."""


class Sweep:
    """Removes rows whose time is over. Where they are indexed by it, from the index; budgets by walking through their
    table, in rounds that all replicas share.
    """

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def rows(self) -> int:
        """Remove some rows of every table but that of the budgets; how many. 0 too while another replica does it."""
        return int(await self._asking.value("SELECT sweep($1)", MOST_ROWS))

    async def budgets(self, *, every_s: float = SWEEP_EVERY_S) -> tuple[int, bool]:
        """Look at some pages of the budgets; how many rows were removed, and whether the round goes on. A new round
        begins at least `every_s` after the one before.
        """
        rows = await self._asking.rows("SELECT * FROM sweep_budgets($1, $2)", PAGES, round(every_s * 1000))
        removed, goes_on = rows[0]
        return removed, goes_on

    async def go_on(self) -> None:
        """Sweep from time to time, until cancelled."""
        while True:
            # Replicas that started together do not sweep together.
            await asyncio.sleep(SWEEP_EVERY_S * random.uniform(0.5, 1.5))  # noqa: S311
            with contextlib.suppress(StateUnavailable):
                while await self.rows() >= MOST_ROWS:
                    pass
                goes_on = True
                while goes_on:
                    _, goes_on = await self.budgets()
                    await asyncio.sleep(_PAUSE_S)
