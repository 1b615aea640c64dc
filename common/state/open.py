"""Opens the shared state that a URL names."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from common.state.memory import MemoryState
from common.state.ports import ControlState
from common.state.watch import StateWatch, Unwatched


def wall_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class StateOptions:
    """What a backend needs besides its URL; each has its variable in the reference of the configuration."""

    prefix: str = "gateway"
    timeout_s: float = 0.5
    redis_sentinel_master: str = ""
    postgres_pool_max: int = 10
    postgres_synchronous_commit: bool = False


def open_state(
    url: str,
    options: StateOptions = StateOptions(),
    *,
    watch: StateWatch | None = None,
    now_ms: Callable[[], int] = wall_clock_ms,
) -> ControlState:
    """The state behind `url`; nothing is dialled before `start`, so this never waits and never fails for an absent
    server.

    `now_ms` is the clock of a state without a server of its own. A URL that names no state raises `ValueError`, whose
    text holds nothing of it but the scheme: the rest may hold a password.
    """
    scheme = urlsplit(url).scheme
    watch = watch or Unwatched()
    if scheme == "memory":
        return MemoryState(now_ms)
    if scheme in ("redis", "rediss"):
        from common.state.redis.state import RedisState

        return RedisState(
            url,
            prefix=options.prefix,
            timeout_s=options.timeout_s,
            sentinel_master=options.redis_sentinel_master,
            watch=watch,
        )
    if scheme in ("postgres", "postgresql"):
        from common.state.postgres.state import PostgresState

        return PostgresState(
            url,
            prefix=options.prefix,
            timeout_s=options.timeout_s,
            pool_max=options.postgres_pool_max,
            synchronous_commit=options.postgres_synchronous_commit,
            watch=watch,
        )
    raise ValueError(f"no shared state is known for the scheme {scheme!r}")
