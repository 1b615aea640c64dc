"""The state on Redis, put together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from common.state.clock import ServerClock
from common.state.hints import Hints, Wake
from common.state.redis.address import DEFAULT_PORT, SENTINEL_PORT, parse_redis_url
from common.state.redis.administration import RedisAdministration
from common.state.redis.asking import Asking
from common.state.redis.budgets import RedisBudgets
from common.state.redis.cluster import Cluster
from common.state.redis.coordination import RedisCoordination
from common.state.redis.decisions import RedisDecisions
from common.state.redis.hints import listen
from common.state.redis.keys import Keys
from common.state.redis.sealed import RedisSealed
from common.state.redis.servers import OneServer, Servers
from common.state.redis.sessions import RedisSessions
from common.state.redis.table import RedisRouteTable
from common.state.watch import StateWatch


class RedisState(
    RedisSessions,
    RedisDecisions,
    RedisBudgets,
    RedisCoordination,
    RedisSealed,
    RedisRouteTable,
    RedisAdministration,
):
    """Implements `common.state.ports.ControlState` on Redis 7."""

    backend = "redis"
    shared = True

    def __init__(
        self,
        url: str,
        *,
        prefix: str,
        timeout_s: float,
        watch: StateWatch,
        sentinel_master: str = "",
        monotonic_ms: Callable[[], int] | None = None,
    ) -> None:
        """`url` names one server, several hosts of a cluster, or the sentinels of `sentinel_master`."""
        keys = Keys(prefix)
        probe = keys.session("probe")
        parsed = parse_redis_url(url, default_port=SENTINEL_PORT if sentinel_master else DEFAULT_PORT)
        self._servers: Servers
        if sentinel_master or len(parsed.addresses) == 1:
            self._servers = OneServer(
                parsed, sentinel_master=sentinel_master, probe=probe, timeout_s=timeout_s, watch=watch
            )
        else:
            self._servers = Cluster(parsed, probe=probe, timeout_s=timeout_s, watch=watch)
        clock = ServerClock() if monotonic_ms is None else ServerClock(monotonic_ms)
        self._clock = clock
        self._hints = Hints(partial(listen, self._servers, keys.hints))
        asking = Asking(self._servers, keys, clock, watch)
        for part in (
            RedisSessions, RedisDecisions, RedisBudgets, RedisCoordination, RedisSealed, RedisRouteTable,
            RedisAdministration,
        ):  # fmt: skip
            part.__init__(self, asking)

    @property
    def up(self) -> bool:
        return self._servers.up

    def now_ms(self) -> int:
        """See `State.now_ms`."""
        return self._clock.now_ms()

    def on_hint(self, wake: Wake) -> None:
        """See `HintSource.on_hint`."""
        self._hints.want(wake)

    async def start(self) -> None:
        """See `State.start`."""
        await self._servers.start()
        self._hints.start()

    async def close(self) -> None:
        """See `State.close`."""
        await self._hints.close()
        await self._servers.close()
