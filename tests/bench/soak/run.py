"""The run itself: load, reloads and logins, the gateway asked twice a minute what it holds, and a verdict."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.machine import (
    BenchError,
    cpu_s,
    described,
    find,
    load_average,
    memory_bytes,
    pinned,
    raise_descriptor_limit,
    say,
)
from tests.bench.report import Row, aligned, publish
from tests.bench.soak.files import open_files
from tests.bench.soak.setting import Setting
from tests.bench.stage import PREFIX, ROOT, Started, stage

MUST = 0.05
"""By how much memory may have grown since the fifth minute."""
BASE_MINUTE = 5.0
CALLERS = 48
SLICE_S = 20
CONNECTIONS = (8, 32, 64, 400)
"""Each in its turn, so that the fifth minute has seen them all: the most at once decide how much is held."""
RELOAD_EVERY_S = 6.0
LOGIN_EVERY_S = 3.0
SAMPLE_EVERY_S = 30.0
QUIET_S = 60.0
"""After the load, until every timeout is over and nothing may be left."""
EXECUTOR = min(32, (os.cpu_count() or 1) + 4)
"""Threads of asyncio's own, which are started when there is work for them, and kept."""
GAUGES = ("gateway_connections", "gateway_active_requests", "gateway_active_exchanges", "gateway_websockets")

EXPLANATION = """\
`RSS` is the gateway's resident memory, `blocks` what Python's allocator has in use, `objects` what its collector
tracks, each while the load goes on. Compared are the medians around the fifth minute and at the end. `before` and
`after` are the gateway at rest."""


@dataclass
class Sample:
    """The gateway at one moment."""

    minute: float
    rss: int
    blocks: int
    objects: int
    tasks: int
    threads: int
    files: dict[str, int]
    """Those open, by kind."""
    cpu_s: float
    gauges: dict[str, float]
    malloc_held: int
    malloc_used: int
    """Of the C library: what it took from the system, and what of it is in use (0 without glibc)."""
    waiting: dict[str, int]
    """Where tasks stand, and how many of them."""
    kinds: dict[str, int] = field(repr=False)
    lines: dict[str, int] = field(repr=False)


def soak(*, minutes: float, json_file: Path | None, trace: bool = False) -> bool:
    """Load for so long, measure and print; whether nothing grew and nothing was left."""
    raise_descriptor_limit()
    machine = described() | {"minutes": f"{minutes:g}"}
    random.seed(1)
    with stage() as own:
        on = Setting(own, trace=trace)
        it = on.start()
        samples: list[Sample] = []
        with _callers(on, it) as callers:
            before = _sample(on, it, 0.0)
            wrk = _load(on, it, minutes, callers, samples)
            callers.stdin.close()  # type: ignore[union-attr]
            habits = json.loads(callers.stdout.read())  # type: ignore[union-attr]
        after = _at_rest(on, it, minutes, before)
        output = it.child.output
    machine["load_average_after"] = load_average()
    told = {"machine": machine, "wrk": wrk, "habits": habits, "output": output[-4000:]}
    told |= {"before": asdict(before), "after": asdict(after), "samples": [asdict(each) for each in samples]}
    publish(machine, told, json_file)
    print(_table(before, samples, after), end="\n\n")
    verdicts = judged(before, samples, after, minutes)
    print(f"{wrk['requests']} requests by wrk, {wrk['refused']} of them refused; {sum(habits.values())} other calls")
    print("\n".join(f"{'met' if met else 'MISSED'}: {text}" for met, text in verdicts), end="\n\n")
    print(_grown(samples, minutes), end="\n\n")
    print(EXPLANATION)
    return all(met for met, _ in verdicts)


@contextmanager
def _callers(on: Setting, it: Started) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-m", "tests.bench.soak.callers", str(CALLERS)]
    with subprocess.Popen(
        pinned(argv, on.stage.other_core), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        _tell(process, on.world(it))
        yield process


def _tell(process: subprocess.Popen[str], world: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(world) + "\n")
    process.stdin.flush()


def _load(
    on: Setting, it: Started, minutes: float, callers: subprocess.Popen[str], samples: list[Sample]
) -> dict[str, int]:
    """Load until the time is over; what wrk counted."""
    began = time.monotonic()
    ends = began + minutes * 60
    told: dict[str, int] = {}
    next_reload = next_login = began
    next_sample = began + min(SAMPLE_EVERY_S, minutes * 3)
    counts = itertools.cycle(CONNECTIONS)
    while (now := time.monotonic()) < ends:
        seconds = max(1, min(SLICE_S, round(ends - now)))
        with _wrk(on, it, seconds, next(counts)) as wrk:
            while wrk.poll() is None:
                now = time.monotonic()
                if now >= next_login:
                    next_login = now + LOGIN_EVERY_S
                    on.change_sessions(it)
                    _tell(callers, on.world(it))
                if now >= next_reload:
                    next_reload = now + RELOAD_EVERY_S
                    on.change_table(it)
                if now >= next_sample:
                    next_sample = now + min(SAMPLE_EVERY_S, minutes * 3)
                    samples.append(_sample(on, it, (now - began) / 60))
                    say(_line(samples[-1]))
                time.sleep(0.1)
            _add(told, wrk)
        if it.child.returncode is not None or callers.poll() is not None:
            raise BenchError(f"the gateway or the load ended\n{it.child.output[-3000:]}")
    return told


def _add(told: dict[str, int], wrk: subprocess.Popen[str]) -> None:
    assert wrk.stdout is not None
    output = wrk.stdout.read()
    found = [line for line in output.splitlines() if line.startswith('{"requests"')]
    # wrk gives up where it finds no connection at once: on a busy machine the next one does.
    for name, count in json.loads(found[0]).items() if found else ():
        told[name] = told.get(name, 0) + count


def _wrk(on: Setting, it: Started, seconds: int, connections: int) -> subprocess.Popen[str]:
    environment = {
        "BENCH_COOKIE": on.sessions[-1],
        "BENCH_PREFIX": PREFIX,
        "BENCH_ORIGIN": it.origin,
        "BENCH_SEED": f"{time.monotonic_ns():x}",
    }
    argv = [find("wrk", "wrk"), "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s"]
    argv += ["-s", str(ROOT / "tests/bench/soak/load.lua"), it.origin]
    return subprocess.Popen(
        pinned(argv, on.stage.other_core), env=dict(os.environ) | environment, stdout=subprocess.PIPE, text=True
    )


def _sample(on: Setting, it: Started, minute: float) -> Sample:
    held = on.ask()
    metrics = on.deployment.metrics(it)
    if it.log is not None:
        os.truncate(it.log, 0)
    return Sample(
        minute=minute,
        rss=memory_bytes(it.pid),
        blocks=held["blocks"],
        objects=held["objects"],
        tasks=held["tasks"],
        threads=held["threads"],
        files=open_files(it.pid),
        cpu_s=cpu_s(it.pid),
        gauges={name: float(re.findall(rf"^{name} (\S+)$", metrics, re.MULTILINE)[0]) for name in GAUGES},
        malloc_held=held.get("malloc_held", 0),
        malloc_used=held.get("malloc_used", 0),
        waiting=held["waiting"],
        kinds=held["kinds"],
        lines=held.get("lines", {}),
    )


def _at_rest(on: Setting, it: Started, minute: float, before: Sample) -> Sample:
    """The gateway as soon as nothing is left in it, or when that has taken too long."""
    ends = time.monotonic() + QUIET_S
    while True:
        time.sleep(2.0)
        sample = _sample(on, it, minute)
        left = sum(sample.gauges.values()) != 1 or sample.tasks or Counter(sample.files) - Counter(before.files)
        if not left or time.monotonic() >= ends:
            return sample


def judged(before: Sample, samples: Sequence[Sample], after: Sample, minutes: float) -> list[tuple[bool, str]]:
    """Every verdict with its figures."""
    first, last = _minutes(samples, minutes)
    verdicts = []
    for name in ("rss", "blocks"):
        base, end = (median(getattr(each, name) for each in part) for part in (first, last))
        growth = end / base - 1
        verdicts.append((growth <= MUST, f"{name} at the end {growth:+.1%} of the fifth minute's, must {MUST:.0%}"))
    left = sum(after.gauges.values()) - 1  # The connection that asks.
    verdicts.append((left == 0, f"{left:.0f} connections, requests, exchanges and WebSockets left"))
    verdicts.append((after.tasks == 0, f"{after.tasks} tasks left {after.waiting or ''}"))
    more = Counter(after.files) - Counter(before.files)
    verdicts.append((not more, f"{more.total()} files open that were not before {dict(more) or ''}"))
    verdicts.append((after.threads <= before.threads + EXECUTOR, f"{after.threads} threads, {before.threads} before"))
    return verdicts


def _minutes(samples: Sequence[Sample], minutes: float) -> tuple[list[Sample], list[Sample]]:
    """The samples around the minute that is compared with, and those of the last one; of a short run its halves."""
    if minutes < 2 * BASE_MINUTE:
        middle = max(1, len(samples) // 2)
        return list(samples[:middle]), list(samples[-middle:])
    first = [each for each in samples if abs(each.minute - BASE_MINUTE) <= 0.8]
    return first, list(samples[-3:])


def _grown(samples: Sequence[Sample], minutes: float) -> str:
    """The objects, and the lines of a traced run, of which there are most more than there were."""
    first, last = (part[-1] for part in _minutes(samples, minutes))
    rows: list[Row] = [("grown", "then", "at the end")]
    for then, now in ((first.kinds, last.kinds), (first.lines, last.lines)):
        more = sorted(now, key=lambda name: then.get(name, 0) - now[name])[:8]
        rows += [(name, str(then.get(name, 0)), str(now[name])) for name in more if now[name] > then.get(name, 0)]
    return aligned(rows)


def _line(sample: Sample) -> str:
    gauges = ", ".join(f"{name.removeprefix('gateway_')} {count:.0f}" for name, count in sample.gauges.items())
    malloc = f"malloc {sample.malloc_used >> 20} of {sample.malloc_held >> 20} MiB"
    return f"{sample.minute:.1f} min: {sample.rss / 2**20:.1f} MiB, {malloc}, {sample.blocks} blocks, {gauges}"


def _table(before: Sample, samples: Sequence[Sample], after: Sample) -> str:
    rows: list[Row] = [("minute", "RSS MiB", "blocks", "objects", "tasks", "files", "connections", "CPU s")]
    every = max(1, len(samples) // 24)
    shown = [("before", before), *((f"{each.minute:.1f}", each) for each in samples[::every]), ("after", after)]
    for name, each in shown:
        rows.append(
            (
                name, f"{each.rss / 2**20:.1f}", str(each.blocks), str(each.objects), str(each.tasks),
                str(sum(each.files.values())), f"{each.gauges['gateway_connections']:.0f}", f"{each.cpu_s:.0f}",
            )
        )  # fmt: skip
    return aligned(rows)
