"""Every backend of the shared state, on real servers whose time of day a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest

from common.state.memory import MemoryState
from common.state.ports import ControlState
from common.state.postgres.state import PostgresState
from common.state.redis.state import RedisState
from common.state.watch import StateWatch, Unwatched
from tests.support.auth_harness import Time
from tests.support.faketime import ServerTime
from tests.support.postgres import Postgres, open_folder, start_postgres
from tests.support.processes import Children
from tests.support.redis import start_cluster, start_redis, start_sentinels

TIMEOUT_S = 10.0
"""Of operations in tests that are not about time-outs: a shared machine may stand still for a while."""

NAMES = ("memory", "redis", "redis-cluster", "redis-sentinel", "postgres")


class Recording(Unwatched):
    """Keeps what a backend tells of itself."""

    def __init__(self) -> None:
        self.operations: list[tuple[str, str]] = []
        self.told: list[str] = []

    def operation(self, name: str, result: str, seconds: float) -> None:
        assert seconds >= 0
        self.operations.append((name, result))

    def went_down(self, cause: str) -> None:
        self.told.append(f"down: {cause}")

    def came_back(self) -> None:
        self.told.append("up")


class Backend(Protocol):
    """Opens states over one store."""

    name: str

    def fresh(self) -> Time:
        """Empty the store; the clock of its server, at the same moment each time."""
        ...

    def open(self, time: Time, watch: StateWatch | None = None) -> ControlState:
        """A state over the store, not started. Its clock is `time`, to the millisecond."""
        ...


class Memory:
    """The state in memory: what was opened first is what is opened again."""

    name = "memory"

    def __init__(self) -> None:
        self._state: MemoryState | None = None

    def fresh(self) -> Time:
        self._state = None
        return Time()

    def open(self, time: Time, watch: StateWatch | None = None) -> ControlState:
        if self._state is None:
            self._state = MemoryState(time.now_ms, budget_clock=time.now_ms)
        return self._state


class OnRedis:
    """A Redis of any kind."""

    def __init__(
        self, name: str, url: str, time: ServerTime, flush: Callable[[], object], *, sentinel_master: str = ""
    ) -> None:
        self.name = name
        self.url = url
        self._time = time
        self._flush = flush
        self._sentinel_master = sentinel_master

    def fresh(self) -> Time:
        self._flush()
        return self._time.begin()

    def open(self, time: Time, watch: StateWatch | None = None) -> ControlState:
        assert time is self._time
        return RedisState(
            self.url,
            prefix="gateway",
            timeout_s=TIMEOUT_S,
            watch=watch or Unwatched(),
            sentinel_master=self._sentinel_master,
            monotonic_ms=lambda: 0,
        )


def _redis(children: Children, folder: Path) -> Backend:
    time = ServerTime(folder / "time")
    server = start_redis(children, folder / "redis", env=time.environment())
    return OnRedis("redis", server.url, time, lambda: server.cli("FLUSHALL"))


def _cluster(children: Children, folder: Path) -> Backend:
    time = ServerTime(folder / "time")
    # The cluster judges its nodes by the time of day, which the tests move by hours.
    cluster = start_cluster(children, folder, env=time.environment(), node_timeout_ms=1_000_000_000)
    return OnRedis("redis-cluster", cluster.url, time, cluster.flush)


def _sentinel(children: Children, folder: Path) -> Backend:
    time = ServerTime(folder / "time")
    group = start_sentinels(children, folder, env=time.environment())
    return OnRedis("redis-sentinel", group.url, time, lambda: group.first.cli("FLUSHALL"), sentinel_master=group.name)


class OnPostgres:
    """A Postgres, as a user who may do what the two planes may."""

    name = "postgres"

    def __init__(self, server: Postgres, time: ServerTime) -> None:
        self.server = server
        self._time = time

    def fresh(self) -> Time:
        in_its_own_loop(self.server.empty())
        return self._time.begin()

    def open(self, time: Time, watch: StateWatch | None = None) -> ControlState:
        assert time is self._time
        return PostgresState(
            self.server.planes_url,
            prefix="gateway",
            timeout_s=TIMEOUT_S,
            watch=watch or Unwatched(),
            monotonic_ms=lambda: 0,
        )


def in_its_own_loop(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Run to the end, whether or not a loop runs here already."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, coroutine).result()


def _postgres(children: Children, folder: Path) -> Backend:
    time = ServerTime(folder / "time")
    server = start_postgres(children, folder / "postgres", env=time.environment())
    in_its_own_loop(server.migrate())
    return OnPostgres(server, time)


_STARTS: dict[str, Callable[[Children, Path], Backend]] = {
    "memory": lambda _children, _folder: Memory(),
    "redis": _redis,
    "redis-cluster": _cluster,
    "redis-sentinel": _sentinel,
    "postgres": _postgres,
}


@pytest.fixture(scope="session", params=NAMES)
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """Each backend in turn; its servers run as long as the tests of this process need them."""
    with ExitStack() as stack:
        # Servers go before their folder.
        postgres = request.param == "postgres"
        folder = stack.enter_context(open_folder()) if postgres else tmp_path_factory.mktemp(request.param)
        yield _STARTS[request.param](stack.enter_context(Children()), folder)
