"""The state on Postgres, put together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from common.state.clock import ServerClock
from common.state.hints import Hints, Wake
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
from common.state.postgres.sweep import Sweep
from common.state.postgres.table import PostgresRouteTable
from common.state.watch import StateWatch


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
        self._sweeping: asyncio.Task[None] | None = None
        asking = Asking(self._pool, self._clock, watch)
        for part in (
            PostgresSessions, PostgresDecisions, PostgresBudgets, PostgresCoordination, PostgresSealed,
            PostgresRouteTable, PostgresAdministration,
        ):  # fmt: skip
            part.__init__(self, asking)
        self.sweep = Sweep(asking)

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
        if self._sweeping is None:
            self._sweeping = asyncio.create_task(self.sweep.go_on(), name="state sweep")

    async def close(self) -> None:
        """See `State.close`."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        await self._hints.close()
        await self._pool.close()
