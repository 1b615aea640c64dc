"""Functions of the server called as operations: measured, with every failure as `StateUnavailable`."""

from __future__ import annotations

from typing import Any

import asyncpg

from common.state.clock import ServerClock
from common.state.measured import Measured
from common.state.postgres.pool import Pool
from common.state.watch import StateWatch


class Asking:
    """What the parts of the state on Postgres share."""

    def __init__(self, pool: Pool, clock: ServerClock, watch: StateWatch) -> None:
        self.pool = pool
        self.clock = clock
        self.watch = watch

    async def rows(self, query: str, *args: object) -> list[asyncpg.Record]:
        """The rows of one statement. Raises `StateUnavailable`, and `ValueError` for a value that no text can hold."""
        found: list[asyncpg.Record] = await self.pool.submit(lambda connection: connection.fetch(query, *args))
        return found

    async def value(self, query: str, *args: object) -> Any:
        """The first column of the first row, None without one."""
        found = await self.rows(query, *args)
        return found[0][0] if found else None

    def measure(self, name: str) -> Measured:
        """Around an operation: its duration and result are told to the watch."""
        return Measured(self.watch, name)
