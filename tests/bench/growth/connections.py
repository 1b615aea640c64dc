"""A request among many open connections: what it costs the gateway, beside nginx under the same load."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.bench.contenders import Field, plain_nginx
from tests.bench.machine import BenchError, cpu_s, memory_bytes, pinned, say
from tests.bench.overload import start_bare
from tests.bench.stage import ROOT, SMALL, Stage, Started, stage

COUNTS = (1, 10, 100, 1_000, 10_000)
AT_ONCE = 32
ALL_AT_ONCE_MOST = 1_000
"""More requests at once than this are refused with the usual settings."""


@dataclass(frozen=True)
class Connections:
    """CPU microseconds a request, least of the rounds: with 32 of them under way at a time, the connections taking
    turns, and with one on each connection (0 where that is not measured). `bytes_each` is resident memory.
    """

    contender: str
    connections: int
    cpu_us: float
    all_cpu_us: float
    bytes_each: float


def measure(rounds: int, seconds: float, counts: tuple[int, ...]) -> list[Connections]:
    told = []
    for count in counts:
        with stage() as own:
            started = {
                "Wicketgate": start_bare(
                    own,
                    "many",
                    own.upstream.origin,
                    {
                        "GATEWAY_MAX_CONNECTIONS": "20000",
                        "GATEWAY_KEEPALIVE_TIMEOUT_MS": "3600000",
                        "GATEWAY_UPSTREAM_POOL_MAX": str(ALL_AT_ONCE_MOST),
                    },
                ),
                "nginx": plain_nginx(Field(own)),
            }
            for name, it in started.items():
                for _ in range(AT_ONCE):
                    it.get(SMALL)
                before = memory_bytes(it.pid)
                with _opened(own, it, count) as load:
                    size = (memory_bytes(it.pid) - before) / count
                    few = min(_timed(load, it, min(AT_ONCE, count), seconds) for _ in range(rounds))
                    many = 0.0
                    if AT_ONCE < count <= ALL_AT_ONCE_MOST:
                        many = min(_timed(load, it, count, seconds) for _ in range(rounds))
                told.append(Connections(name, count, few, many, size))
                say(str(told[-1]))
    return told


@contextmanager
def _opened(on: Stage, it: Started, count: int) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-m", "tests.bench.peers.round_load", it.origin.rpartition(":")[2], SMALL, str(count)]
    command = pinned(argv, on.other_core)
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
        assert load.stdin is not None
        assert load.stdout is not None
        if load.stdout.readline() != "ready\n":
            raise BenchError(f"{count} connections could not be opened\n{it.child.output[-2000:]}")
        yield load
        load.stdin.close()


def _timed(load: subprocess.Popen[str], it: Started, at_once: int, seconds: float) -> float:
    assert load.stdin is not None
    assert load.stdout is not None
    before = cpu_s(it.pid)
    load.stdin.write(f"{at_once} {seconds}\n")
    load.stdin.flush()
    told = load.stdout.readline()
    if not told:
        raise BenchError(f"the load failed\n{it.child.output[-2000:]}")
    result: dict[str, Any] = json.loads(told)
    return (cpu_s(it.pid) - before) * 1e6 / result["requests"]
