"""More than a worker can do: what it still serves, how fast it refuses, and what is left when the flood ends.

slots  an upstream takes a fixed time, and the gateway has so many slots for it: what it can do is slots by time.
       Requests fall due at half of that, at it, at twice and three times it, whatever became of those before.
cores  the upstream answers at once: what it can do is what its core gives. Callers who wait for their answers, in
       growing numbers, up to as many as GATEWAY_MAX_PENDING_REQUESTS lets in; and the same before nginx, since what
       hundreds of sockets cost the kernel and the caches is nobody's own.
"""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from tests.bench.contenders import Contender, Field, check_bare, check_peer, plain_nginx, ready
from tests.bench.load import Sample, Scenario, run
from tests.bench.machine import (
    BenchError,
    described,
    find,
    load_average,
    memory_bytes,
    pinned,
    raise_descriptor_limit,
    say,
    version_of,
)
from tests.bench.report import aligned, publish
from tests.bench.stage import ROOT, SMALL, Stage, Started, stage
from tests.bench.targets import DISTURBED
from tests.support.ports import free_port

GOODPUT_MUST = 0.9
REFUSAL_MUST_MS = 20.0
SERVICE_MS = 100
STEPS = (0.5, 1.0, 2.0, 3.0, 1.0)
"""The last one says whether the gateway is what it was before the flood."""
CALLERS = (32, 64, 256, 900)
"""Those who fill the core, twice as many, and as many as are let in."""
BESIDE_NGINX_MUST = 0.9
GROWTH_MUST = 0.05
"""Of resident memory, from the end of the first flood to that of the last."""

EXPLANATION = """\
`offered` are requests that fell due, `served` those answered with 200, `refused` with 503, a second. A delay runs from
the sending of a request to its whole answer. The goodput of a flood is judged against the most that was served at any
step. Refusals take no slot: their delay is that of the gateway's event loop, and of waiting for a core where other
programs have it (`load average`). `kept` is the CPU time of a request among the callers for whom it is least, divided
by that among so many. Each run of callers begins with opening their connections, which is part of its CPU time: of 900
a few per cent."""

Callers = dict[str, dict[int, list[Sample]]]
"""By contender, and by how many callers wait for their answers."""


@dataclass(frozen=True)
class Step:
    """One rate for some seconds. Delays are 0 where there is no such answer."""

    factor: float
    offered: float
    served: float
    refused: float
    served_p99_ms: float
    refused_p99_ms: float
    lost: int
    memory_bytes: int


def overload(*, rounds: int, seconds: int, slots: int, short: bool, json_file: Path | None) -> None:
    """Measure, print and judge. Raises `BenchError` when an answer is none of those that are due, or one is missing."""
    raise_descriptor_limit()
    machine = described() | {name: version_of(find(name, name)) for name in ("nginx", "wrk")}
    steps: list[Step] = []
    callers: Callers = {}
    with stage() as own:
        gateway = _Gateway(own, slots)
        for number in range(1, rounds + 1):
            for factor in STEPS[1:3] if short else STEPS:
                steps.append(gateway.flood(factor, seconds))
                say(f"round {number}, {factor:g} times: {steps[-1].served:.0f} served, {steps[-1].refused:.0f} refused")
        left = gateway.left()
        if not short:
            callers = _callers(own, rounds, seconds)
    machine |= {"load_average_after": load_average(), "slots": f"{slots}, each for {SERVICE_MS} ms"}
    found = {"machine": machine, "steps": [asdict(step) for step in steps], "left": left}
    found["callers"] = {
        name: {str(count): [asdict(sample) for sample in samples] for count, samples in counts.items()}
        for name, counts in callers.items()
    }
    publish(machine, found, json_file)
    print(_steps_table(steps), end="\n\n")
    if callers:
        print(_callers_table(callers), end="\n\n")
    print("\n".join(_verdicts(steps, left, callers)), end="\n\n")
    print(EXPLANATION)


class _Gateway:
    """The gateway with its slots, before the upstream that takes its time, and the load that does not wait."""

    def __init__(self, on: Stage, slots: int) -> None:
        self._on = on
        self._capacity = slots * 1000 / SERVICE_MS
        self._token = secrets.token_hex(32)
        upstream = free_port()
        peer = [sys.executable, "-m", "tests.bench.peers.slow_upstream", str(upstream), str(SERVICE_MS)]
        on.start("slow upstream", peer, on.other_core, port=upstream)
        environment = {
            "GATEWAY_MAX_CONCURRENT_REQUESTS": str(slots),
            "GATEWAY_METRICS_TOKEN": self._token,
            "GATEWAY_KEEPALIVE_TIMEOUT_MS": "600000",
        }
        self.it = start_bare(on, "overload", f"http://127.0.0.1:{upstream}", environment)

    def flood(self, factor: float, seconds: int) -> Step:
        rate = self._capacity * factor
        # Enough for all that is under way, and for those that wait for the loop: a tenth of a second of arrivals.
        connections = round(self._capacity * SERVICE_MS / 1000 + rate / 5) + 16
        argv = [sys.executable, "-m", "tests.bench.peers.paced_load", self.it.origin.rpartition(":")[2], SMALL]
        done = subprocess.run(
            pinned(argv, self._on.other_core),
            input=f"{rate} {seconds} {connections}\n",
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=seconds + 60,
            check=False,
        )
        if done.returncode != 0:
            raise BenchError(f"the load failed: {done.stderr[-2000:]}\n{self.it.child.output[-2000:]}")
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        answers = told["answers"]
        if other := set(answers) - {"200", "503"}:
            raise BenchError(f"answers with {other} beside 200 and 503: {answers}")
        if told["unanswered"]:
            raise BenchError(f"{told['unanswered']} requests were never answered")
        served, refused = answers.get("200", {}), answers.get("503", {})
        return Step(
            factor=factor,
            offered=told["due"] / seconds,
            served=served.get("count", 0) / told["seconds"],
            refused=refused.get("count", 0) / told["seconds"],
            served_p99_ms=served.get("sent_p99_ms", 0.0),
            refused_p99_ms=refused.get("sent_p99_ms", 0.0),
            lost=told["lost"],
            memory_bytes=memory_bytes(self.it.pid),
        )

    def left(self) -> dict[str, float]:
        """What the gateway still holds, by its own account; the connection that asks is one of them."""
        shown = {"authorization": f"Bearer {self._token}"}
        text = httpx.get(f"{self.it.origin}/metrics", headers=shown, trust_env=False).raise_for_status().text
        names = ("gateway_active_requests", "gateway_active_exchanges", "gateway_connections")
        return {name: float(re.findall(rf"^{name} (\S+)$", text, re.MULTILINE)[0]) for name in names}


def start_bare(on: Stage, name: str, upstream: str, environment: dict[str, str]) -> Started:
    """A gateway in front of one upstream that authenticates nobody and limits nothing."""
    folder, port = on.folder / name, free_port()
    folder.mkdir()
    route = {"id": "app", "match": {"path": "/"}, "upstream": upstream, "auth": {"mode": "none"}}
    (folder / "routes.json").write_text(json.dumps({"version": 2, "routes": [route]}))
    environment = {
        "GATEWAY_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "GATEWAY_CONFIG": str(folder / "routes.json"),
        "GATEWAY_PUBLIC_URL": f"http://127.0.0.1:{port}",
        "GATEWAY_RATE_LIMIT_ROUTE_MAX": "0",
        **environment,
    }
    argv = [sys.executable, "-m", "dataplane.cli", "run"]
    log = on.folder / f"{name}.log"
    child = on.start(name, argv, on.contender_core, port=port, env=environment, output=log)
    return Started(child, f"http://127.0.0.1:{port}", log=log)


def _callers(on: Stage, rounds: int, seconds: int) -> Callers:
    field = Field(on)
    contenders = (
        Contender("Wicketgate", "Wicketgate", lambda _: start_bare(on, "callers", on.upstream.origin, {}), check_bare),
        Contender("nginx", "nginx, plain proxy", plain_nginx, check_peer),
    )
    started = {contender.name: ready(field, contender) for contender in contenders}
    found: Callers = {contender.name: {count: [] for count in CALLERS} for contender in contenders}
    for number in range(1, rounds + 1):
        for count in CALLERS:
            for contender in contenders:
                _settled(on)
                scenario = Scenario(str(count), f"{count} callers", SMALL, count)
                sample = run(field, contender, started[contender.name], scenario, 2 * seconds)
                found[contender.name][count].append(sample)
                say(
                    f"round {number}, {contender.name}, {count} callers: {sample.rps:.0f} req/s, {sample.cpu_us:.1f} µs"
                )
    return found


def _settled(on: Stage) -> None:
    """Return once the upstream is asked no more by what was under way when the run before ended."""
    before = -1
    while (asked := on.upstream.requests()) != before:
        before = asked
        time.sleep(0.3)


def _steps_table(steps: Sequence[Step]) -> str:
    rows: list[Sequence[str]] = [
        ("slots", "offered/s", "served/s", "refused/s", "served p99 ms", "refused p99 ms", "lost", "MiB")
    ]
    rows += [
        (
            f"{step.factor:g} times",
            f"{step.offered:.0f}",
            f"{step.served:.0f}",
            f"{step.refused:.0f}",
            f"{step.served_p99_ms:.0f}",
            f"{step.refused_p99_ms:.1f}" if step.refused else "",
            str(step.lost),
            f"{step.memory_bytes / 2**20:.1f}",
        )
        for step in steps
    ]
    return aligned(rows)


def _callers_table(callers: Callers) -> str:
    rows: list[Sequence[str]] = [
        ("callers who wait", "", "req/s", "(least-most)", "CPU µs", "kept", "core", "p99 ms", "others")
    ]
    for name, counts in callers.items():
        rows += [
            (
                name,
                str(count),
                f"{median(each.rps for each in samples):.0f}",
                f"({min(each.rps for each in samples):.0f}-{max(each.rps for each in samples):.0f})",
                f"{median(each.cpu_us for each in samples):.1f}",
                f"{_kept(counts, count):.0%}",
                f"{median(each.core for each in samples):.0%}",
                f"{median(each.p99_us for each in samples) / 1000:.1f}",
                f"{median(each.others for each in samples):.0%}",
            )
            for count, samples in counts.items()
        ]
    return aligned(rows)


def _kept(counts: dict[int, list[Sample]], count: int) -> float:
    """How much of what its core can serve at best is served to so many, by CPU time a request."""
    costs = {each: median(sample.cpu_us for sample in samples) for each, samples in counts.items()}
    return min(costs.values()) / costs[count]


def _verdicts(steps: Sequence[Step], left: dict[str, float], callers: Callers) -> list[str]:
    floods = [step for step in steps if step.factor >= 2]
    peak = max(step.served for step in steps)
    goodput = min(step.served for step in floods) / peak
    refusals = max(step.refused_p99_ms for step in floods)
    lost = sum(step.lost for step in steps)
    growth = floods[-1].memory_bytes / floods[0].memory_bytes - 1
    holds = left["gateway_active_requests"] + left["gateway_active_exchanges"] + left["gateway_connections"] - 1
    lines = [
        _verdict(goodput >= GOODPUT_MUST, f"goodput of the floods {goodput:.0%} of the peak, must {GOODPUT_MUST:.0%}"),
        _verdict(refusals < REFUSAL_MUST_MS, f"p99 of refusals {refusals:.1f} ms, must {REFUSAL_MUST_MS:g} ms"),
        _verdict(lost == 0, f"{lost} answers lost"),
        _verdict(holds == 0, f"{holds:.0f} requests, slots and connections held after the end"),
        _verdict(growth <= GROWTH_MUST, f"memory of the last flood {growth:+.1%} of that of the first"),
    ]
    if callers:
        lines += _callers_verdicts(callers)
    return lines


def _callers_verdicts(callers: Callers) -> list[str]:
    """Of twice as many as fill the core by requests a second, or by CPU time a request where other programs used the
    machine; of the most there may be by what nginx keeps of its own, since both have as many sockets.
    """
    ours, theirs = callers["Wicketgate"], callers["nginx"]
    _, twice, *_, most = ours
    rates = {count: median(each.rps for each in samples) for count, samples in ours.items()}
    others = median(each.others for samples in ours.values() for each in samples)
    by_rate, by_cpu = rates[twice] / max(rates.values()), _kept(ours, twice)
    goodput = by_cpu if others > DISTURBED else by_rate
    kept, nginx = _kept(ours, most), _kept(theirs, most)
    return [
        _verdict(
            goodput >= GOODPUT_MUST,
            f"{twice} callers, twice as many as fill the core, are served at {by_rate:.0%} of the peak, by CPU time at "
            f"{by_cpu:.0%}, must {GOODPUT_MUST:.0%}",
        ),
        _verdict(
            kept >= BESIDE_NGINX_MUST * nginx,
            f"{most} callers are served at {rates[most] / max(rates.values()):.0%} of the peak, by CPU time at "
            f"{kept:.0%}, nginx's at {nginx:.0%}, must {BESIDE_NGINX_MUST:.0%} of that",
        ),
    ]


def _verdict(met: bool, text: str) -> str:
    return f"{'met' if met else 'MISSED'}: {text}"
