"""The steps of a request one by one, in microseconds of CPU; and the memory of what is kept."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

from common.identity.signature import CACHED_SIGNATURES
from dataplane.forwarding.context import forwarding_context
from dataplane.http1 import plain
from dataplane.http1.request import HEADERS_MAX, read_request_head
from dataplane.http1.response import read_response_head
from tests.bench import memory
from tests.bench.instructions import Cost, cost_of_a_request
from tests.bench.machine import described, load_average, raise_descriptor_limit, say
from tests.bench.pipeline import pipeline_us
from tests.bench.report import Row, aligned, publish
from tests.bench.steps import REQUEST, RESPONSE, Step, Steps
from tests.bench.targets import mark

MANY_ROUTES = 10_000
CONNECTIONS = 10_000
KEPT = 10_000
REQUESTS = 4_000

REPEATS = 21
BATCH_S = 0.02


def micro(*, short: bool, json_file: Path | None) -> None:
    """Measure and print; `short` shows that it works, and nothing of the speed."""
    raise_descriptor_limit()
    machine = described()
    scale = 100 if short else 1
    repeats = 1 if short else REPEATS
    times = asyncio.run(_times(MANY_ROUTES // scale, repeats=repeats, batch_s=BATCH_S / scale))
    times |= _whole_requests(REQUESTS // scale, repeats)
    counted = {title: cost_of_a_request(full=full) for title, full in (("bare proxy", False), ("full", True))}
    kept = _memory(KEPT // scale, CONNECTIONS // scale)
    machine["load_average_after"] = load_average()
    told = {name: asdict(cost) for name, cost in counted.items()}
    publish(machine, {"machine": machine, "us": times, "counted": told, "bytes": kept}, json_file)
    print(_times_table(times), end="\n\n")
    print(_counted_table(counted), end="\n\n")
    print(_memory_table(kept))


async def _times(many: int, *, repeats: int, batch_s: float) -> dict[str, list[float]]:
    """Microseconds of each step, one figure a repetition; the steps take turns, so that a slow moment hits all."""
    steps = Steps()
    block = REQUEST[REQUEST.index(b"\r\n") + 2 :]
    timed: dict[str, Step] = {
        "request head read": lambda: plain.plain_request_head(REQUEST, HEADERS_MAX),
        "of it, a header block that is new": lambda: plain._request_block(block),
        "response head read": lambda: plain.plain_response_head(RESPONSE, "GET"),
        "request head read (h11)": lambda: read_request_head(REQUEST),
        "response head read (h11)": lambda: read_response_head(RESPONSE, "GET"),
        "route match among 10": steps.route_match(10),
        f"route match among {many}": steps.route_match(many),
        "forwarding context": lambda: forwarding_context(
            steps.head, "192.0.2.7", trusted_proxies=(), hops=1, scheme="https"
        ),
        "request id and trace": steps.identity,
        "session read": steps.session(),
        "cached decision": await steps.decision(),
        "four limits counted": steps.limits(),
        "request headers filtered and written": steps.request_headers,
        "response headers filtered and written": steps.response_headers,
        "signature cached": steps.signature(computed=False),
        "signature computed": steps.signature(computed=True),
        "metrics counted": steps.counted,
        "log line made, metrics counted": steps.record(),
    }
    counts = {name: _count(step, batch_s) for name, step in timed.items()}
    results: dict[str, list[float]] = {name: [] for name in timed}
    gc.collect()
    gc.disable()
    try:
        for _ in range(repeats):
            for name, step in timed.items():
                results[name].append(_batch_us(step, counts[name]))
    finally:
        gc.enable()
    return results


def _whole_requests(requests: int, repeats: int) -> dict[str, list[float]]:
    """Everything of a request but its sockets."""
    say("whole requests without sockets")
    return {
        "whole request, bare proxy": pipeline_us(full=False, requests=requests, repeats=repeats),
        "whole request, bare proxy, h11 alone": pipeline_us(
            full=False, fast_lane=False, requests=requests, repeats=repeats
        ),
        "whole request, signature cached": pipeline_us(full=True, requests=requests, repeats=repeats),
        "whole request, signature computed": pipeline_us(full=True, vary=True, requests=requests, repeats=repeats),
    }


def _count(step: Step, batch_s: float) -> int:
    """How many calls make a batch of about `batch_s`."""
    _batch_us(step, 10)
    return max(int(batch_s * 1e6 / max(_batch_us(step, 20), 0.01)), 20)


def _batch_us(step: Step, count: int) -> float:
    """CPU time of this process: what others do on the machine counts only as far as it empties the caches."""
    calls = range(count)
    started = time.process_time_ns()
    for _ in calls:
        step()
    return (time.process_time_ns() - started) / 1000 / count


def _memory(entries: int, connections: int) -> dict[str, float]:
    say(f"memory of {entries} entries each, then of {connections} idle connections")
    kept = {
        "session": memory.bytes_each(memory.sessions, entries),
        "cached decision": memory.bytes_each(memory.decisions, entries),
        "signature": memory.bytes_each(memory.signatures, min(entries, CACHED_SIGNATURES)),
        "limiter key, one bucket": memory.bytes_each(memory.limiter_keys, entries),
        "limiter key, all 60 buckets": memory.bytes_each(lambda n: memory.limiter_keys(n, buckets=60), entries),
    }
    idle = memory.idle_connections(connections)
    return kept | {f"idle connection, {how}": size for how, size in idle.items()}


MEMORY_TARGETS = {"session": 1024, "cached": 500, "signature": 1024, "limiter": 300, "idle": 8192}


def _times_table(times: dict[str, list[float]]) -> str:
    rows: list[Row] = [("step", "µs", "(least-most)")]
    rows += [(name, f"{median(each):.2f}", f"({min(each):.2f}-{max(each):.2f})") for name, each in times.items()]
    few, many = (each for name, each in times.items() if name.startswith("route match"))
    return f"{aligned(rows)}\n\n{_match_target(few, many)}"


def _counted_table(counted: dict[str, Cost]) -> str:
    rows: list[Row] = [("whole request, counted", "bytecode instructions", "calls", "blocks kept")]
    rows += [(name, f"{it.instructions:.0f}", f"{it.calls:.0f}", f"{it.kept:.2f}") for name, it in counted.items()]
    return aligned(rows)


def _match_target(few: Sequence[float], many: Sequence[float]) -> str:
    ratio = median(many) / median(few)
    verdict = mark(ratio, 1.3, 1.1)
    return f"a match in the large table takes {ratio:.2f} times one among 10 (must 1.3, reach for 1.1): {verdict}"


def _memory_table(kept: dict[str, float]) -> str:
    rows: list[Row] = [("kept", "bytes each", "must", "reach for", "")]
    for name, size in kept.items():
        must = MEMORY_TARGETS[name.partition(" ")[0].rstrip(",")]
        rows.append((name, f"{size:.0f}", str(must), str(must // 2), mark(size, must, must / 2)))
    return aligned(rows)
