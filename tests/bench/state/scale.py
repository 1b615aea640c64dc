"""Many sessions and budgets on each server: what one takes of memory, and how long it takes until what is over is gone.

The servers' time of day is moved on, so that everything is over at one moment.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from common.state.budgets import BudgetCheck
from common.state.ports import ControlState, NewSession
from common.state.postgres.state import PostgresState
from tests.bench.machine import described, family_cpu_s, load_average, say
from tests.bench.report import Row, aligned, publish
from tests.bench.state.stores import Store
from tests.support.faketime import ServerTime
from tests.support.postgres import Postgres, open_folder, start_postgres
from tests.support.processes import Children
from tests.support.redis import Redis, start_redis

SESSIONS = 100_000
BUDGETS = 1_000_000
_AT_ONCE = 256
_LATER_S = 7_200
_WINDOW = (6_000, 3_600_000, 60_000)
"""Of every budget: an hour, so that none is over before all are there."""


@dataclass(frozen=True)
class Figures:
    """Of one kind of entry on one server. CPU time is the server's; `longest_ms` is on the wall, of the longest step of
    the sweep (0 where the server expires by itself).
    """

    store: str
    kind: str
    entries: int
    bytes_each: float
    idle_cpu_s: float
    """Of one sweep while nothing is over."""
    gone_s: float
    """On the wall, from the moment when all are over until none is left."""
    gone_cpu_s: float
    steps: int
    longest_ms: float


def scale(*, short: bool, json_file: Path | None) -> None:
    """Measure and print; `short` shows that it works."""
    machine = described()
    share = 500 if short else 1
    told: list[Figures] = []
    for kind, entries in (("session", SESSIONS // share), ("budget", BUDGETS // share)):
        for name in ("redis", "postgres"):
            say(f"{entries} of {kind} on {name}")
            with _server(name) as (store, moves):
                told.append(asyncio.run(_measure(store, moves, kind, entries)))
            say(str(told[-1]))
    machine["load_average_after"] = load_average()
    publish(machine, {"machine": machine, "results": [asdict(each) for each in told]}, json_file)
    print(table(told))


def table(told: list[Figures]) -> str:
    """A row for each kind and server."""
    head = (
        "kept", "store", "entries", "bytes each", "sweep of nothing, CPU s", "all over: gone in s", "CPU s", "steps",
        "longest ms",
    )  # fmt: skip
    rows: list[Row] = [
        (
            each.kind, each.store, str(each.entries), f"{each.bytes_each:.0f}", f"{each.idle_cpu_s:.2f}",
            f"{each.gone_s:.1f}", f"{each.gone_cpu_s:.2f}", str(each.steps), f"{each.longest_ms:.0f}",
        )
        for each in told
    ]  # fmt: skip
    return aligned([head, *rows])


@contextmanager
def _server(name: str) -> Iterator[tuple[Store, ServerTime]]:
    with open_folder() as folder, Children() as children:
        moves = ServerTime(folder / "time")
        moves.begin()
        if name == "redis":
            redis = start_redis(children, folder / "redis", env=moves.environment())
            yield Store(name, redis.url, redis), moves
        else:
            postgres = start_postgres(children, folder / "postgres", env=moves.environment())
            asyncio.run(postgres.migrate())
            yield Store(name, postgres.control_url, postgres), moves


async def _measure(store: Store, moves: ServerTime, kind: str, entries: int) -> Figures:
    assert store.server is not None
    pid = store.server.child.pid
    state = store.open()
    await state.start()
    if isinstance(state, PostgresState) and state._sweeping is not None:
        state._sweeping.cancel()  # It is swept below, and timed.
    before = await size(store, kind)
    await fill(state, kind, entries)
    took = await size(store, kind) - before
    cpu = family_cpu_s(pid)
    await _until_gone(store, state, kind, look_once=isinstance(store.server, Redis))
    idle = family_cpu_s(pid) - cpu
    moves.pass_s(_LATER_S)
    cpu, began = family_cpu_s(pid), time.monotonic()
    steps, longest = await _until_gone(store, state, kind)
    figures = Figures(
        store.name, kind, entries, took / entries, idle, time.monotonic() - began, family_cpu_s(pid) - cpu, steps,
        longest * 1000,
    )  # fmt: skip
    await state.close()
    return figures


async def fill(state: ControlState, kind: str, entries: int) -> None:
    makes: Callable[[int], Awaitable[object]]
    if kind == "session":

        def makes(n: int) -> Awaitable[object]:
            new = NewSession(f"{n:064x}", f"{n:032x}", f"person-{n}@example.com", ("developer",), 3_600_000, 3_600_000)
            return state.create_session(new)
    else:

        def makes(n: int) -> Awaitable[object]:
            return state.check_budgets([BudgetCheck(f"app:10.{n >> 16}.{n >> 8 & 255}.{n & 255}", *_WINDOW)])

    for first in range(0, entries, _AT_ONCE):
        await asyncio.gather(*map(makes, range(first, min(first + _AT_ONCE, entries))))


async def _until_gone(store: Store, state: ControlState, kind: str, *, look_once: bool = False) -> tuple[int, float]:
    """Walk through all of it; the steps this took, and the longest of them."""
    steps, longest = 0, 0.0
    while True:
        began = time.monotonic()
        gone = await _gone(store, state, kind)
        steps, longest = steps + 1, max(longest, time.monotonic() - began)
        if gone or look_once:
            # What the server expires by itself takes no steps of anybody's.
            return (steps, longest) if isinstance(store.server, Postgres) else (0, 0.0)


async def _gone(store: Store, state: ControlState, kind: str) -> bool:
    """One step of the sweep, or a look at a server that expires by itself; whether that was the last."""
    if isinstance(state, PostgresState):
        if kind == "session":
            return await state.sweep.rows() == 0
        return not (await state.sweep.budgets(every_s=0))[1]
    assert isinstance(store.server, Redis)
    told = store.server.cli("INFO", "keyspace")
    await asyncio.sleep(0.1)
    return "expires=0" in told or "keys=" not in told


async def size(store: Store, kind: str) -> int:
    if isinstance(store.server, Redis):
        told = dict(line.split(":", 1) for line in store.server.cli("INFO", "memory").splitlines() if ":" in line)
        return int(told["used_memory"])
    assert isinstance(store.server, Postgres)
    name = "sessions" if kind == "session" else "budgets"
    ((row,),) = await store.server.run(f"SELECT pg_total_relation_size('gateway.{name}')")
    return int(row[0])
