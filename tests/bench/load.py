"""One timed run: wrk against one contender, with the proof that every answer was the right one."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from typing import Any

import httpx

from tests.bench.contenders import Contender, Field
from tests.bench.machine import BenchError, busy_s, cpu_s, find, pinned
from tests.bench.stage import ONE_MB, REQUEST_HEADERS, ROOT, SMALL, TEN_KB, Started

CONNECTIONS = 32


@dataclass(frozen=True)
class Scenario:
    """What is asked for, over how many connections."""

    name: str
    title: str
    path: str
    connections: int


SCENARIOS = (
    Scenario("small", "191 bytes, 32 connections", SMALL, CONNECTIONS),
    Scenario("one", "191 bytes, one connection", SMALL, 1),
    Scenario("10kB", "10 kB, 32 connections", TEN_KB, CONNECTIONS),
    Scenario("1MB", "1 MB, 32 connections", ONE_MB, CONNECTIONS),
)


@dataclass(frozen=True)
class Sample:
    """What one run measured. `core` is the share of one core that the contender had while it lasted, `others` the share
    of the whole machine that went to programs which are none of the benchmark's.
    """

    requests: int
    rps: float
    cpu_us: float
    p50_us: int
    p99_us: int
    core: float
    others: float


def run(on: Field, contender: Contender, it: Started, scenario: Scenario, seconds: int) -> Sample:
    """Time one contender. Raises `BenchError` when anything but the expected answers came."""
    expected_bytes = _answer_bytes(it, scenario.path)
    upstream = on.stage.upstream
    asked_before = upstream.requests()
    _empty(it)
    others_before = busy_s() - on.stage.spent_s()
    cpu_before, started = cpu_s(it.pid), time.monotonic()
    told = _wrk(on, contender, it, scenario, seconds)
    cpu, wall = cpu_s(it.pid) - cpu_before, time.monotonic() - started
    others = busy_s() - on.stage.spent_s() - others_before
    try:
        judge(told, upstream.requests() - asked_before, expected_bytes, scenario.connections)
        _judge_log(it, told["requests"])
    except BenchError as wrong:
        raise BenchError(f"{contender.name}, {scenario.title}: {wrong}\n{it.child.output[-2000:]}") from wrong
    requests = told["requests"]
    return Sample(
        requests=requests,
        rps=requests / (told["duration_us"] / 1e6),
        cpu_us=cpu * 1e6 / requests,
        p50_us=told["p50_us"],
        p99_us=told["p99_us"],
        core=cpu / wall,
        others=max(others, 0.0) / wall / (os.cpu_count() or 1),
    )


def judge(told: dict[str, Any], reached_upstream: int, expected_bytes: int, connections: int) -> None:
    """Raise `BenchError` unless every answer that was counted was a whole 200 that came from the upstream.

    wrk counts statuses from 400 on as errors; a redirect or a short body shows in the bytes, an answer of the
    contender's own in what the upstream was asked. What was on its way when the time ended is in neither count.
    """
    requests = told["requests"]
    if any(told["errors"].values()):
        raise BenchError(f"errors while it was timed: {told['errors']} beside {requests} answers")
    if requests == 0:
        raise BenchError("not one answer came")
    if not requests <= reached_upstream <= requests + 2 * connections:
        raise BenchError(f"{requests} answers came, and the upstream was asked {reached_upstream} times")
    least, most = requests * expected_bytes * 0.98, (requests + connections) * expected_bytes * 1.02
    if not least <= told["bytes"] <= most:
        raise BenchError(f"{requests} answers of about {expected_bytes} bytes came to {told['bytes']} bytes")


def _judge_log(it: Started, requests: int) -> None:
    """A gateway wrote a line for each request."""
    if it.log is None:
        return
    deadline = time.monotonic() + 2.0
    while (lines := it.log.read_bytes().count(b'"status":200')) < requests and time.monotonic() < deadline:
        time.sleep(0.05)
    if lines < requests:
        raise BenchError(f"{requests} answers came, and {lines} lines were logged")


def _empty(it: Started) -> None:
    """The log grows by megabytes a second: each run begins with an empty one."""
    if it.log is not None:
        os.truncate(it.log, 0)


def _answer_bytes(it: Started, path: str) -> int:
    """The size of one whole answer, head and body, as it stands on the wire.

    The smaller of two: once a minute an answer to a session carries its cookie anew.
    """
    return min(_size(it.get(path)) for _ in range(2))


def _size(answer: httpx.Response) -> int:
    if answer.status_code != 200:
        raise BenchError(f"answered with {answer.status_code} right before it was timed: {answer.text[:300]}")
    lines = (f"{name}: {value}\r\n" for name, value in answer.headers.multi_items())
    return len(f"HTTP/1.1 200 {answer.reason_phrase}\r\n\r\n") + sum(map(len, lines)) + len(answer.content)


def _wrk(on: Field, contender: Contender, it: Started, scenario: Scenario, seconds: int) -> dict[str, Any]:
    argv = [find("wrk", "wrk"), "-t1", f"-c{scenario.connections}", f"-d{seconds}s", "--timeout", "10s", "--latency"]
    argv += ["-s", str(ROOT / "tests/bench/peers/wrk.lua")]
    for header in (*REQUEST_HEADERS, *it.headers):
        argv += ["-H", header]
    # Paths of one run never come again in another: a signature of before must not serve.
    env = dict(os.environ) | ({"BENCH_SEED": f"{time.monotonic_ns():x}"} if contender.vary else {})
    done = subprocess.run(
        pinned([*argv, it.origin + scenario.path], on.stage.other_core),
        env=env,
        capture_output=True,
        text=True,
        timeout=seconds + 60,
        check=False,
    )
    told = [line for line in done.stdout.splitlines() if line.startswith('{"requests"')]
    if done.returncode != 0 or len(told) != 1:
        raise BenchError(f"wrk failed ({done.returncode}):\n{done.stdout}{done.stderr}")
    result: dict[str, Any] = json.loads(told[0])
    return result
