"""All of it: measured one after the other, printed as tables, written as JSON and as plots."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.bench.growth import GROWTH, connections, replicas, sessions
from tests.bench.growth.routes import Routes
from tests.bench.machine import BenchError, described, load_average, raise_descriptor_limit, say
from tests.bench.plots import Series, lines
from tests.bench.report import Row, aligned, publish
from tests.bench.stage import ROOT

COUNTS: dict[str, tuple[int, ...]] = {
    "routes": (10, 100, 1_000, 10_000, 100_000),
    "connections": connections.COUNTS,
    "sessions": sessions.COUNTS,
    "replicas": replicas.COUNTS,
}
SHORT: dict[str, tuple[int, ...]] = {
    "routes": (10, 100), "connections": (1, 40), "sessions": (100,), "replicas": (2,),
}  # fmt: skip

EXPLANATION = """\
CPU times of routes and connections are the least of their rounds: other programs can only add to them. `instructions`
are those of Python's byte code, counted. Connections take turns: the one that asks is the one that asked longest ago.
Sessions are made 256 at a time and read at random, 32 at a time; in memory, `bytes each` is of the process, else the
server's own figure; `trips` are round trips to it. An operation of a store is a command of Redis or a transaction of
Postgres; a request's are what it adds to those of idle replicas."""


def growth(
    *,
    only: str,
    rounds: int,
    seconds: float,
    short: bool,
    json_file: Path | None,
    plots: Path | None,
    counts: Sequence[int] = (),
    stores: Sequence[str] = (),
) -> None:
    """Measure and print; `only` names some of the four, `counts` how many there are of each, `stores` where."""
    raise_descriptor_limit()
    machine = described()
    chosen = [kind for kind in GROWTH if not only or kind in only.split(",")]
    if not chosen:
        raise BenchError(f"unknown: {only}; there are {', '.join(GROWTH)}")
    if unknown := set(stores) - set(sessions.STORES):
        raise BenchError(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(sessions.STORES)}")
    told: dict[str, list[Any]] = {}
    for kind in chosen:
        many = tuple(counts) or (SHORT if short else COUNTS)[kind]
        if kind == "routes":
            told[kind] = [_routes(count) for count in many]
        elif kind == "connections":
            told[kind] = connections.measure(1 if short else rounds, 0.2 if short else seconds, many)
        elif kind == "sessions":
            told[kind] = sessions.measure(many, tuple(stores) or sessions.STORES)
        else:
            told[kind] = replicas.measure(1.0 if short else seconds * 5, many, tuple(stores) or replicas.STORES)
    machine["load_average_after"] = load_average()
    plain = {kind: [asdict(each) for each in found] for kind, found in told.items()}
    publish(machine, {"machine": machine, "results": plain}, json_file)
    for kind, rows in plain.items():
        print(table(kind, rows), end="\n\n")
    print(EXPLANATION)
    if plots is not None:
        draw(plain, plots)


def _routes(count: int) -> Routes:
    say(f"{count} routes")
    argv = [sys.executable, "-m", "tests.bench.growth.routes", str(count)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=1_200, check=False)
    if done.returncode != 0:
        raise BenchError(f"{count} routes: {done.stderr[-2000:]}")
    return Routes(**json.loads(done.stdout.splitlines()[-1]))


FORMATS = {
    "document_bytes": "d", "load_s": ".3f", "kept_bytes": "d", "match_us": ".2f", "same_match_us": ".2f",
    "instructions": ".0f", "idle_operations": ".1f", "idle_cpu_ms": ".2f", "request_operations": ".2f",
    "made_trips": ".3f", "read_trips": ".3f",
}  # fmt: skip
"""Of columns; one digit behind the point for what is not named."""


def table(kind: str, rows: Sequence[dict[str, Any]]) -> str:
    """A row for each count."""
    head = [name.replace("_", " ").replace(" us", " µs") for name in rows[0]]
    printed: list[Row] = [head]
    for row in rows:
        cells = []
        for name, value in row.items():
            whole = isinstance(value, (int, str))
            cells.append(str(value) if whole else format(value, FORMATS.get(name, ".1f")))
        printed.append(cells)
    return f"{kind}\n{aligned(printed)}"


def draw(results: dict[str, list[dict[str, Any]]], folder: Path) -> None:
    """A plot for each kind: cost against number."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind, rows in results.items():
        x, y, group, title, unit = PLOTS[kind]
        names = dict.fromkeys(str(row[group]) if group else "Wicketgate" for row in rows)
        series = [
            Series(name, [(row[x], row[y]) for row in rows if not group or str(row[group]) == name]) for name in names
        ]
        (folder / f"growth-{kind}.svg").write_text(lines(title, f"number of {kind}", unit, series))


PLOTS = {
    "routes": ("routes", "request_us", "", "A request among many routes", "CPU µs"),
    "connections": ("connections", "cpu_us", "contender", "A request among many open connections", "CPU µs"),
    "sessions": ("sessions", "read_cpu_us", "store", "Reading one of many sessions", "CPU µs of the gateway"),
    "replicas": ("replicas", "idle_cpu_ms", "store", "What idle replicas cost their store", "CPU ms a second"),
}
