"""The stores that are compared, each started for the run, on the core of everything else."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from common.state.open import StateOptions, open_state
from common.state.ports import ControlState
from common.state.watch import StateWatch
from tests.bench.machine import cores, family_cpu_s
from tests.support.postgres import Postgres, open_folder, start_postgres
from tests.support.processes import Children
from tests.support.redis import Redis, start_redis

PATIENT = StateOptions(timeout_s=30.0)
"""Nothing is measured of an operation that was given up."""


@dataclass(frozen=True)
class Store:
    """Where a state lies. `server` is None for the one in memory."""

    name: str
    url: str
    server: Redis | Postgres | None

    def open(self, watch: StateWatch | None = None) -> ControlState:
        """A state over this store, not started."""
        return open_state(self.url, PATIENT, watch=watch)

    def server_cpu_s(self) -> float:
        """CPU seconds that the server has used so far."""
        return 0.0 if self.server is None else family_cpu_s(self.server.child.pid)


@contextmanager
def stores() -> Iterator[tuple[Store, ...]]:
    """Memory, Redis and Postgres, empty. This process moves to a core of its own meanwhile."""
    pair = cores()
    usable = os.sched_getaffinity(0)
    with open_folder() as folder, Children() as children:
        try:
            yield _start(children, folder, pair)
        finally:
            os.sched_setaffinity(0, usable)


def _start(children: Children, folder: Path, pair: tuple[int, int] | None) -> tuple[Store, ...]:
    if pair is not None:
        os.sched_setaffinity(0, {pair[1]})  # What is started from here inherits it.
    redis = start_redis(children, folder / "redis")
    postgres = start_postgres(children, folder / "postgres")
    trust(postgres)
    asyncio.run(postgres.migrate())
    if pair is not None:
        os.sched_setaffinity(0, {pair[0]})
    return (
        Store("memory", "memory://local", None),
        Store("redis", redis.url, redis),
        Store("postgres", postgres.control_url, postgres),
    )


def trust(server: Postgres) -> None:
    """Let connections be made without a password: the proof of one costs more than many operations."""
    (server.folder / "pg_hba.conf").write_text("host all all 127.0.0.1/32 trust\n")
    server.signal(signal.SIGHUP)
