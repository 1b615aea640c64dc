"""One operation timed: as many callers as asked for, each making it again as soon as it was answered."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from common.state.ports import ControlState
from tests.bench.state.operations import CALLERS, Operation
from tests.bench.state.stores import Store

_LOOKS_AT_THE_CLOCK = 16
"""One caller's operations between two looks: in memory, the look costs as much as what is timed."""


@dataclass(frozen=True)
class Timed:
    """What one run measured; CPU time of this process and of the server, in microseconds an operation."""

    operations: int
    rate: float
    cpu_us: float
    server_cpu_us: float


async def timed(store: Store, state: ControlState, operation: Operation, *, at_once: int, seconds: float) -> Timed:
    """Make an operation for about `seconds`; a failure of it is one of the benchmark."""
    counts = [0] * at_once
    server_before, cpu_before, began = store.server_cpu_s(), time.process_time(), time.monotonic()
    ends = began + seconds

    async def caller(place: int) -> None:
        n = place * 37 % CALLERS  # Callers are spread, and each goes its own way through all of them.
        while time.monotonic() < ends:
            for _ in range(_LOOKS_AT_THE_CLOCK):
                await operation(state, n)
                n = (n + 101) % CALLERS
            counts[place] += _LOOKS_AT_THE_CLOCK

    await asyncio.gather(*map(caller, range(at_once)))
    wall, cpu = time.monotonic() - began, time.process_time() - cpu_before
    server, done = store.server_cpu_s() - server_before, sum(counts)
    return Timed(done, done / wall, cpu * 1e6 / done, server * 1e6 / done)
