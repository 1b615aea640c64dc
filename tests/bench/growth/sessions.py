"""Sessions: what one takes, and what reading one costs, as there are more of them; in memory and on each server."""

from __future__ import annotations

import asyncio
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path

from tests.bench.machine import say
from tests.bench.state.scale import fill, size
from tests.bench.state.stores import Store, stores

COUNTS = (1_000, 10_000, 100_000, 1_000_000)
READS = 32_768
AT_ONCE = 32


@dataclass(frozen=True)
class Sessions:
    """CPU microseconds a session or a read of one chosen at random, 32 of them under way at a time: of the gateway's
    side and of the server. `bytes_each` is the server's own figure; in memory, of the process.
    """

    store: str
    sessions: int
    bytes_each: float
    made_cpu_us: float
    made_server_us: float
    read_cpu_us: float
    read_server_us: float


def measure(
    counts: tuple[int, ...] = COUNTS, names: tuple[str, ...] = ("memory", "redis", "postgres")
) -> list[Sessions]:
    told = []
    for name in names:
        for count in counts:
            with stores() as found:
                (store,) = (each for each in found if each.name == name)
                told.append(asyncio.run(_measure(store, count)))
                say(str(told[-1]))
    return told


async def _measure(store: Store, count: int) -> Sessions:
    state = store.open()
    await state.start()
    before = await _held(store)
    cpu, server = time.process_time(), store.server_cpu_s()
    await fill(state, "session", count)
    made = time.process_time() - cpu, store.server_cpu_s() - server
    took = await _held(store) - before
    chosen = random.Random(1).choices(range(count), k=READS)
    cpu, server = time.process_time(), store.server_cpu_s()
    for first in range(0, READS, AT_ONCE):
        read = await asyncio.gather(*(state.read_session(f"{n:064x}") for n in chosen[first : first + AT_ONCE]))
        assert all(read)
    spent = time.process_time() - cpu, store.server_cpu_s() - server
    await state.close()
    per_made, per_read = 1e6 / count, 1e6 / READS
    return Sessions(
        store.name,
        count,
        took / count,
        made[0] * per_made,
        made[1] * per_made,
        spent[0] * per_read,
        spent[1] * per_read,
    )


async def _held(store: Store) -> int:
    if store.server is not None:
        return await size(store, "session")
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
