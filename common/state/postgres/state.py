"""The state on Postgres, put together."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from functools import partial

from common.state.clock import ServerClock
from common.state.hints import Hints, Wake
from common.state.ports import StateUnavailable
from common.state.postgres.administration import PostgresAdministration
from common.state.postgres.asking import Asking
from common.state.postgres.budgets import PostgresBudgets
from common.state.postgres.connect import open_connection
from common.state.postgres.coordination import PostgresCoordination
from common.state.postgres.decisions import PostgresDecisions
from common.state.postgres.hints import listen
from common.state.postgres.pool import Pool
from common.state.postgres.sealed import PostgresSealed
from common.state.postgres.sessions import PostgresSessions
from common.state.postgres.table import PostgresRouteTable
from common.state.watch import StateWatch

SWEEP_EVERY_S = 30.0
"""How often expired rows are looked for; another replica may have done it."""
SWEEP_MOST = 2_000
"""Rows of each table removed by one statement: it ends long before the time of an operation."""


class PostgresState(
    PostgresSessions,
    PostgresDecisions,
    PostgresBudgets,
    PostgresCoordination,
    PostgresSealed,
    PostgresRouteTable,
    PostgresAdministration,
):
    """Implements `common.state.ports.ControlState` on Postgres 15 or later."""

    backend = "postgres"
    shared = True

    def __init__(
        self,
        url: str,
        *,
        prefix: str,
        timeout_s: float,
        watch: StateWatch,
        pool_max: int = 10,
        synchronous_commit: bool = False,
        monotonic_ms: Callable[[], int] | None = None,
    ) -> None:
        """`prefix` is the schema that the migrations made."""
        dial = partial(open_connection, url, schema=prefix, timeout_s=timeout_s, synchronous_commit=synchronous_commit)
        self._pool = Pool(dial, most=pool_max, timeout_s=timeout_s, watch=watch)
        self._clock = ServerClock() if monotonic_ms is None else ServerClock(monotonic_ms)
        self._hints = Hints(partial(listen, dial, f"{prefix}_table"))
        self._sweeper: asyncio.Task[None] | None = None
        asking = Asking(self._pool, self._clock, watch)
        for part in (
            PostgresSessions, PostgresDecisions, PostgresBudgets, PostgresCoordination, PostgresSealed,
            PostgresRouteTable, PostgresAdministration,
        ):  # fmt: skip
            part.__init__(self, asking)

    @property
    def up(self) -> bool:
        return self._pool.up

    def now_ms(self) -> int:
        """See `State.now_ms`."""
        return self._clock.now_ms()

    def on_hint(self, wake: Wake) -> None:
        """See `HintSource.on_hint`."""
        self._hints.want(wake)

    async def start(self) -> None:
        """See `State.start`."""
        await self._pool.start()
        self._hints.start()
        if self._sweeper is None:
            self._sweeper = asyncio.create_task(self._sweep_on(), name="state sweep")

    async def close(self) -> None:
        """See `State.close`."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        await self._hints.close()
        await self._pool.close()

    async def sweep(self) -> int:
        """Remove some rows whose time is over; how many. 0 too while another replica does it."""
        return int(await self._asking.value("SELECT sweep($1)", SWEEP_MOST))

    async def _sweep_on(self) -> None:
        while True:
            # Replicas that started together do not sweep together.
            await asyncio.sleep(SWEEP_EVERY_S * random.uniform(0.5, 1.5))  # noqa: S311
            with contextlib.suppress(StateUnavailable):
                removed = SWEEP_MOST
                while removed >= SWEEP_MOST:
                    removed = await self.sweep()
