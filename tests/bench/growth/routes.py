"""One table of so many routes, in a process of its own: `python -m tests.bench.growth.routes COUNT` prints JSON."""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from common.routetable.compiled import DeploymentDefaults
from common.routetable.load import load_route_table
from tests.bench.instructions import cost_of_a_request
from tests.bench.pipeline import pipeline_us
from tests.bench.steps import document_of, paths_of, routes_of

MATCHES = 30_000
REQUESTS = 2_000
REPEATS = 7


@dataclass(frozen=True)
class Routes:
    """CPU times are least ones of some repetitions. `kept_bytes` is resident memory that the compiled table added."""

    routes: int
    document_bytes: int
    load_s: float
    kept_bytes: int
    match_us: float
    """Each route of the table in turn."""
    same_match_us: float
    """Always the same one."""
    instructions: float
    """Of a whole request with everything on, which takes the last route of the table."""
    request_us: float


def measure(count: int) -> Routes:
    text = document_of(routes_of(count))
    load_route_table(document_of(routes_of(2)), DeploymentDefaults())
    gc.collect()
    before, cpu = _resident(), time.process_time()
    table = load_route_table(text, DeploymentDefaults())
    load_s = time.process_time() - cpu
    gc.collect()
    kept = _resident() - before
    gc.freeze()
    paths = paths_of(count)
    step = max(1, len(paths) // MATCHES)
    chosen = (paths[::step] * (MATCHES // len(paths[::step]) + 1))[:MATCHES]

    def every() -> None:
        for path in chosen:
            table.match("app.example.com", path, "GET")

    def same() -> None:
        for _ in chosen:
            table.match("app.example.com", paths[-1], "GET")

    match_us, same_us = (_least_us(work, len(chosen)) for work in (every, same))
    cost = cost_of_a_request(full=True, others=count - 1)
    request_us = min(pipeline_us(full=True, others=count - 1, requests=REQUESTS, repeats=REPEATS))
    return Routes(count, len(text), load_s, kept, match_us, same_us, cost.instructions, request_us)


def _least_us(work: Callable[[], None], count: int) -> float:
    figures = []
    for _ in range(REPEATS):
        began = time.process_time_ns()
        work()
        figures.append((time.process_time_ns() - began) / 1000 / count)
    return min(figures)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    print(json.dumps(asdict(measure(int(sys.argv[1])))))
