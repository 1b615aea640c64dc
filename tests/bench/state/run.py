"""All of it, in rounds: operation by operation, store by store, so that a slow moment of the machine hits all alike."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import uvloop

from tests.bench.machine import described, load_average, raise_descriptor_limit, say
from tests.bench.report import Row, aligned, publish
from tests.bench.state import raw
from tests.bench.state.operations import OPERATIONS, fill
from tests.bench.state.requests import TimedRequests, serving, timed_requests
from tests.bench.state.stores import Store, stores
from tests.bench.state.timed import Timed, timed
from tests.bench.targets import mark
from tests.support.redis import Redis

WIDTHS = (1, 32, 128)

EXPLANATION = """\
Medians of the rounds. `at once` is how many callers ask; each asks again as soon as it was answered. CPU is this
process's, which is the gateway's side, and `server` the store's, in microseconds an operation. Those that are asked for
together travel together. The servers' own load generators send one operation for each caller and round trip, pgbench at
most 32 at once. A whole request reads a session and counts one budget; its decision and its signature are cached, and
only the store is behind a socket. `asked` is how many operations of the store a request took, and `reads` how often
Redis read from its connections for one."""

Results = Mapping[tuple[str, str, int], Sequence[Timed]]
"""By what was timed, on which store, how many at once; one figure a round."""

REQUEST = "whole request"
TARGETS = {"redis": (0.6, 0.8), "postgres": (0.4, 0.6)}
"""Requests over a store against those in memory: must, reach for."""


def state(*, rounds: int, seconds: float, json_file: Path | None) -> None:
    """Measure and print."""
    raise_descriptor_limit()
    machine = described()
    with stores() as found, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        results = runner.run(_measure(found, rounds, seconds))
    machine["load_average_after"] = load_average()
    publish(machine, as_json(machine, results), json_file)
    print(operations_table(results), end="\n\n")
    print(requests_table(results), end=f"\n\n{EXPLANATION}\n")


async def _measure(found: Sequence[Store], rounds: int, seconds: float) -> Results:
    results: dict[tuple[str, str, int], list[Timed]] = {}
    async with AsyncExitStack() as stack:
        opened = [(store, store.open()) for store in found]
        gateways = [(store, await stack.enter_async_context(serving(store))) for store in found]
        for _, each in opened:
            await each.start()
            stack.push_async_callback(each.close)
            await fill(each)
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            # Windows fill while they are counted in, and a full one costs more: each width is first as often as last.
            for width in WIDTHS if number % 2 == 0 else reversed(WIDTHS):
                for name, operation in OPERATIONS.items():
                    for store, each in opened:
                        told = await timed(store, each, operation, at_once=width, seconds=seconds)
                        results.setdefault((name, store.name, width), []).append(told)
                for store, it in gateways:
                    told = await timed_requests(store, it, at_once=width, seconds=seconds)
                    results.setdefault((REQUEST, store.name, width), []).append(told)
                for store in found:
                    if store.server is not None:
                        for name in raw.REDIS if isinstance(store.server, Redis) else raw.POSTGRES:
                            told = await asyncio.to_thread(raw.raw, store, name, at_once=width, seconds=seconds)
                            results.setdefault((name, store.name, width), []).append(told)
    return results


def operations_table(results: Results) -> str:
    """A row for each operation and store, then one for each of the servers' own load generators."""
    head = ["operation", "store"]
    for width in WIDTHS:
        head += [f"{width} at once: /s", "CPU µs", "server µs"]
    rows: list[Row] = [head]
    for name, store in dict.fromkeys((name, store) for name, store, _ in results if name != REQUEST):
        rows.append([name, store, *_cells(results, name, store)])
    return aligned(rows)


def requests_table(results: Results) -> str:
    """Whole requests, with what they asked of the store and the ratio to those in memory."""
    rows: list[Row] = [
        ("whole requests", "at once", "/s", "/memory", "CPU µs", "/memory", "server µs", "asked", "reads", "")
    ]
    for width in WIDTHS:
        memory = results[REQUEST, "memory", width]
        for store in ("memory", *TARGETS):
            samples = [each for each in results[REQUEST, store, width] if isinstance(each, TimedRequests)]
            by_rate = median(each.rate / base.rate for each, base in zip(samples, memory, strict=True))
            by_cpu = median(base.cpu_us / each.cpu_us for each, base in zip(samples, memory, strict=True))
            reads = [each.reads for each in samples if each.reads is not None]
            # A request alone waits for its round trip: the target is about many at once.
            verdict = mark(by_cpu, *TARGETS[store]) if store in TARGETS and width == 32 else ""
            rows.append(
                (
                    store,
                    str(width),
                    f"{median(each.rate for each in samples):.0f}",
                    f"{by_rate:.3f}",
                    f"{median(each.cpu_us for each in samples):.1f}",
                    f"{by_cpu:.3f}",
                    f"{median(each.server_cpu_us for each in samples):.1f}",
                    f"{median(each.asked for each in samples):.2f}",
                    f"{median(reads):.2f}" if reads else "",
                    verdict,
                )
            )
    return aligned(rows)


def as_json(machine: Mapping[str, str], results: Results) -> dict[str, Any]:
    """Everything measured: `results[what][store][at once]` is the list of its rounds."""
    told: dict[str, dict[str, dict[str, Any]]] = {}
    for (name, store, width), samples in results.items():
        told.setdefault(name, {}).setdefault(store, {})[str(width)] = [asdict(sample) for sample in samples]
    return {"machine": dict(machine), "results": told}


def _cells(results: Results, name: str, store: str) -> list[str]:
    cells = []
    for width in WIDTHS:
        samples = results[name, store, width]
        cells += [
            f"{median(each.rate for each in samples):.0f}",
            f"{median(each.cpu_us for each in samples):.1f}",
            f"{median(each.server_cpu_us for each in samples):.1f}",
        ]
    return cells
