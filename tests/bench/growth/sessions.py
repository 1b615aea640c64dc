"""Sessions: what one takes, and what reading one costs, as there are more of them; in memory and on each server."""

from __future__ import annotations

import asyncio
import os
import random
import re
import time
from dataclasses import dataclass
from pathlib import Path

from common.state.watch import OperationResult, Unwatched
from tests.bench.machine import say
from tests.bench.state.scale import fill, size
from tests.bench.state.stores import Store, stores
from tests.support.redis import Redis

COUNTS = (1_000, 10_000, 100_000, 1_000_000)
STORES = ("memory", "redis", "postgres")
READS = 32_768
AT_ONCE = 32


@dataclass(frozen=True)
class Sessions:
    """CPU microseconds and round trips a session or a read of one chosen at random, 256 and 32 of them under way at a
    time: of the gateway's side and of the server. `bytes_each` is the server's own figure; in memory, of the process.
    """

    store: str
    sessions: int
    bytes_each: float
    made_cpu_us: float
    made_server_us: float
    made_trips: float
    read_cpu_us: float
    read_server_us: float
    read_trips: float


class _Counting(Unwatched):
    """Of what a state asks of Postgres, which tells of each batch once; memory is asked nothing."""

    def __init__(self) -> None:
        self.batches = 0

    def operation(self, name: str, result: OperationResult, seconds: float) -> None:
        self.batches += 1


@dataclass(frozen=True)
class _Spent:
    """So far: CPU seconds of this process and of the server, and round trips to it."""

    cpu_s: float
    server_s: float
    trips: int


def measure(counts: tuple[int, ...], names: tuple[str, ...]) -> list[Sessions]:
    told = []
    for name in names:
        for count in counts:
            with stores() as found:
                (store,) = (each for each in found if each.name == name)
                told.append(asyncio.run(_measure(store, count)))
                say(str(told[-1]))
    return told


async def _measure(store: Store, count: int) -> Sessions:
    watch = _Counting()
    state = store.open(watch)
    await state.start()
    before, empty = await _held(store), _spent(store, watch)
    await fill(state, "session", count)
    full = _spent(store, watch)
    took = await _held(store) - before
    chosen = random.Random(1).choices(range(count), k=READS)
    rest = _spent(store, watch)
    for first in range(0, READS, AT_ONCE):
        read = await asyncio.gather(*(state.read_session(f"{n:064x}") for n in chosen[first : first + AT_ONCE]))
        assert all(read)
    end = _spent(store, watch)
    await state.close()
    return Sessions(store.name, count, took / count, *_each(empty, full, count), *_each(rest, end, READS))


def _spent(store: Store, watch: _Counting) -> _Spent:
    trips = 0 if store.server is None else watch.batches
    if isinstance(store.server, Redis):
        told = store.server.cli("INFO", "stats")
        trips = int(re.findall(r"^total_reads_processed:(\d+)", told, re.MULTILINE)[0])
    return _Spent(time.process_time(), store.server_cpu_s(), trips)


def _each(before: _Spent, after: _Spent, count: int) -> tuple[float, float, float]:
    """Of one: CPU microseconds of this process and of the server, and round trips."""
    return (
        (after.cpu_s - before.cpu_s) * 1e6 / count,
        (after.server_s - before.server_s) * 1e6 / count,
        (after.trips - before.trips) / count,
    )


async def _held(store: Store) -> int:
    if store.server is not None:
        return await size(store, "session")
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
