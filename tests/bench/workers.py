"""Two workers beside one process, before one upstream and one Redis: rounds of A B C, A B C …, load from wrk.

Upstream, Redis and load share the second core. So two workers are timed twice: on the one core that one process has,
where they are busy and drive each other out of its caches, and on both cores, where they compete with their load and
wait for it. Each makes a request dearer than it is with a core for each worker and the load elsewhere, so the better of
the two is what is judged. A worker of two has as many connections as the one process has.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.contenders import Contender, Field, check_bare, ready
from tests.bench.load import Sample, Scenario, run
from tests.bench.machine import (
    described,
    find,
    load_average,
    memory_bytes,
    raise_descriptor_limit,
    say,
    shared_memory_bytes,
    version_of,
)
from tests.bench.report import Row, aligned, publish
from tests.bench.stage import SMALL, Stage, Started, stage
from tests.bench.targets import DISTURBED, mark
from tests.bench.websocket import cpu_s_of
from tests.support.ports import free_port
from tests.support.workers import workers_of

MUST, REACH = 1.8, 1.95
CONNECTIONS = 64
"""Of each worker. Fewer of them would travel together to Redis and through the loop."""

EXPLANATION = """\
All figures are medians of the rounds. CPU is that of all processes of the gateway, the supervisor too, a request.
`scaled` is what two workers with a core each serve against one process, by that: twice the CPU time a request of one
process, divided by that of two workers. On the same core they also drive each other out of its caches, on both they
wait for load, upstream and Redis, which have one of them too: both figures are below what two cores for the workers
alone would show, and the verdict is by the better one. `busiest` is the share of the workers' CPU time that the busier
one had: the kernel spreads connections by a hash. `slept` is how often a worker had nothing to do and slept, a hundred
requests: waking up costs as much as some of them. `others` is how much of the machine went to programs that are none of
the benchmark's: above a twentieth of it a verdict carries a question mark."""


@dataclass(frozen=True)
class Shape:
    """What a request does. `limit` is the route's budget; 0 asks Redis nothing."""

    name: str
    title: str
    limit: int


SHAPES = (
    Shape("bare", "bare proxy", 0),
    Shape("limit", "a budget counted in Redis", 1_000_000_000),
)


@dataclass(frozen=True)
class Form:
    """How many processes serve, on which cores."""

    name: str
    title: str
    workers: int
    both_cores: bool = False


FORMS = (
    Form("one", "one process", 1),
    Form("two", "two workers, same core", 2),
    Form("apart", "two workers, both cores", 2, both_cores=True),
)


@dataclass(frozen=True)
class Run:
    """One timed run, how its CPU time was spread over the workers, and how often they slept for each request."""

    sample: Sample
    busiest: float
    slept: float


def workers(*, rounds: int, seconds: int, short: bool, json_file: Path | None) -> None:
    """Measure and print. Raises `BenchError` as soon as an answer is not as it must be."""
    raise_descriptor_limit()
    machine = described() | {name: version_of(find(name, name)) for name in ("nginx", "wrk")}
    shapes = SHAPES[:1] if short else SHAPES
    measured: dict[tuple[str, str], list[Run]] = {}
    memory: dict[str, dict[str, int]] = {}
    with stage() as own:
        on = Field(own)
        redis = _redis(own)
        contenders = {(shape.name, form.name): _contender(shape, form, redis) for shape in shapes for form in FORMS}
        started = {key: ready(on, contender) for key, contender in contenders.items()}
        workers_in = {form.name: form.workers for form in FORMS}
        for number in range(1, rounds + 1):
            for key, contender in contenders.items():
                timed = _timed(on, contender, started[key], workers_in[key[1]], seconds)
                measured.setdefault(key, []).append(timed)
                say(f"round {number}, {contender.name}: {timed.sample.rps:.0f} req/s, {timed.sample.cpu_us:.1f} µs")
        for form in FORMS[:2]:
            pid = started[shapes[0].name, form.name].pid
            memory[form.title] = {"rss_bytes": memory_bytes(pid), "pss_bytes": shared_memory_bytes(pid)}
    machine |= {"load_average_after": load_average(), "rounds": f"{rounds} of {seconds} s"}
    publish(machine, _as_json(machine, measured, memory), json_file)
    for shape in shapes:
        print(_table(shape, measured), end="\n\n")
    for title, sizes in memory.items():
        shared = f"{sizes['pss_bytes'] / 2**20:.0f} MiB with what is shared counted once"
        print(f"memory, {title}: {sizes['rss_bytes'] / 2**20:.0f} MiB resident, {shared}")
    print(f"\n{EXPLANATION}")


def scaled(one: Sample, two: Sample) -> float:
    """What two workers on two cores serve against one on one, by CPU time a request."""
    return 2 * one.cpu_us / two.cpu_us


def judged(rounds: Mapping[str, Sequence[Sample]]) -> dict[str, float]:
    """`scaled` of each form of two workers, as the median of its rounds."""
    return {
        form.name: median(scaled(one, two) for one, two in zip(rounds["one"], rounds[form.name], strict=True))
        for form in FORMS
        if form.workers > 1
    }


def _timed(on: Field, contender: Contender, it: Started, workers: int, seconds: int) -> Run:
    pids = workers_of(it.pid) or [it.pid]
    connections = CONNECTIONS * workers
    before, slept = [cpu_s_of(pid) for pid in pids], sum(map(_sleeps, pids))
    scenario = Scenario("small", f"191 bytes, {connections} connections", SMALL, connections)
    sample = run(on, contender, it, scenario, seconds)
    spent = [cpu_s_of(pid) - cpu for pid, cpu in zip(pids, before, strict=True)]
    return Run(sample, max(spent) / sum(spent), (sum(map(_sleeps, pids)) - slept) / sample.requests)


def _sleeps(pid: int) -> int:
    """How often a process gave its core away because it had nothing to do (proc(5))."""
    told = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"^voluntary_ctxt_switches:\s+(\d+)$", told, re.MULTILINE)[0])


def _redis(on: Stage) -> str:
    port = free_port()
    folder = on.folder / "redis"
    folder.mkdir()
    argv = [find("redis-server", "redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    on.start("redis", [*argv, "--save", "", "--appendonly", "no", "--daemonize", "no"], on.other_core, port=port)
    return f"redis://127.0.0.1:{port}/0"


def _contender(shape: Shape, form: Form, redis: str) -> Contender:
    return Contender(
        f"{shape.name}-{form.name}", f"{shape.title}, {form.title}", _gateway(shape, form, redis), check_bare
    )


def _gateway(shape: Shape, form: Form, redis: str) -> Callable[[Field], Started]:
    def start(on: Field) -> Started:
        own, port = on.stage, free_port()
        folder = own.folder / f"gateway-{shape.name}-{form.name}"
        folder.mkdir()
        route = {"id": "app", "match": {"path": "/"}, "upstream": own.upstream.origin, "auth": {"mode": "none"}}
        (folder / "routes.json").write_text(json.dumps({"version": 2, "routes": [route]}))
        environment = {
            "GATEWAY_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(port),
            "GATEWAY_CONFIG": str(folder / "routes.json"),
            "GATEWAY_PUBLIC_URL": f"http://127.0.0.1:{port}",
            "GATEWAY_STATE_URL": redis,
            "GATEWAY_STATE_PREFIX": f"{shape.name}_{form.name}",
            "GATEWAY_WORKERS": str(form.workers),
            "GATEWAY_RATE_LIMIT_ROUTE_MAX": str(shape.limit),
        }
        log = own.folder / f"{folder.name}.log"
        core = None if form.both_cores else own.contender_core
        argv = [sys.executable, "-m", "dataplane.cli", "run"]
        child = own.start(folder.name, argv, core, port=port, env=environment, output=log)
        return Started(child, f"http://127.0.0.1:{port}", log=log)

    return start


def _table(shape: Shape, measured: dict[tuple[str, str], list[Run]]) -> str:
    rows: list[Row] = [
        (shape.title, "req/s", "(least-most)", "/one", "CPU µs", "scaled", "busiest", "slept", "others", "p99 ms", "")
    ]
    rounds = {form.name: [timed.sample for timed in measured[shape.name, form.name]] for form in FORMS}
    gains = judged(rounds)
    best = max(gains, key=lambda name: gains[name])
    for form in FORMS:
        runs, samples = measured[shape.name, form.name], rounds[form.name]
        rate = [sample.rps for sample in samples]
        others = median(sample.others for sample in samples)
        verdict = mark(gains[best], MUST, REACH) + ("?" if others > DISTURBED else "")
        rows.append(
            (
                form.title,
                f"{median(rate):.0f}",
                f"({min(rate):.0f}-{max(rate):.0f})",
                f"{median(two.rps / one.rps for one, two in zip(rounds['one'], samples, strict=True)):.2f}",
                f"{median(sample.cpu_us for sample in samples):.1f}",
                f"{gains[form.name]:.2f}" if form.name in gains else "",
                f"{median(timed.busiest for timed in runs):.0%}",
                f"{median(timed.slept for timed in runs) * 100:.1f}",
                f"{others:.0%}",
                f"{median(sample.p99_us for sample in samples) / 1000:.1f}",
                verdict if form.name == best else "",
            )
        )
    return aligned(rows)


def _as_json(
    machine: dict[str, str], measured: dict[tuple[str, str], list[Run]], memory: dict[str, dict[str, int]]
) -> dict[str, Any]:
    """Everything measured: `results[shape][form]` is the list of its rounds."""
    results: dict[str, dict[str, Any]] = {}
    for (shape, form), runs in measured.items():
        rounds = [{**asdict(timed.sample), "busiest": timed.busiest, "slept": timed.slept} for timed in runs]
        results.setdefault(shape, {})[form] = rounds
    return {"machine": machine, "results": results, "memory": memory}
