"""What the servers' own load generators get from the same servers, from the core on which the gateway's side runs."""

from __future__ import annotations

import csv
import os
import re
import resource
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from common.state.redis.scripts import CHECK_BUDGETS
from tests.bench.machine import BenchError, find
from tests.bench.state.operations import HASHES
from tests.bench.state.stores import Store
from tests.bench.state.timed import Timed
from tests.support.postgres import CONTROL_PASSWORD, Postgres
from tests.support.redis import Redis

REDIS = {
    "redis-benchmark GET": ("GET", "key:__rand_int__"),
    "redis-benchmark SET": ("SET", "key:__rand_int__", "x" * 150),
    "redis-benchmark, the script of one budget": (
        "EVALSHA", CHECK_BUDGETS.digest.decode(), "1", "raw:__rand_int__", "1000000000", "60000", "1000", "1",
    ),
}  # fmt: skip
"""Each alone in its round trip, one connection for each caller."""

POSTGRES = {
    "pgbench SELECT 1": "SELECT 1",
    "pgbench, the function of one session": f"SELECT * FROM read_sessions(ARRAY['{HASHES[0]}'])",
    "pgbench, the function of one budget": (
        "SELECT * FROM check_budgets(ARRAY[int8send(:n)], ARRAY[1000000000], ARRAY[60000], ARRAY[1000], ARRAY[1])"
    ),
}
"""Each alone in its statement, prepared, one connection for each caller."""

_A_SECOND = {Redis: (15_000, 60_000), Postgres: (6_000, 15_000)}
"""Operations that take about a second, one by one and many at once: the generators are told how much, not how long,
because their connections take a while to be made.
"""


_MOST_CLIENTS = 32
"""Of pgbench: the server has 60 connections, of which the states opened here may hold twenty."""


def raw(store: Store, name: str, *, at_once: int, seconds: float) -> Timed:
    """One run of a load generator; `name` is a key of `REDIS` or `POSTGRES`."""
    if isinstance(store.server, Redis):
        return _redis(store, store.server, REDIS[name], at_once, seconds)
    assert isinstance(store.server, Postgres)
    return _postgres(store, store.server, POSTGRES[name], at_once, seconds)


def _redis(store: Store, server: Redis, command: Sequence[str], at_once: int, seconds: float) -> Timed:
    if command[0] == "EVALSHA":
        # With the text once, the server knows it by its digest.
        server.cli("SCRIPT", "LOAD", CHECK_BUDGETS.text.decode())
    count = _count(server, at_once, seconds)
    argv = [
        find("redis-benchmark", "redis-tools"), "-p", str(server.port), "-c", str(at_once), "-n", str(count),
        "-r", "1000", "--csv", *command,
    ]  # fmt: skip
    told, cpu_s, server_s, wall_s = _run(store, argv, {})
    rows = list(csv.reader(told.splitlines()))
    rate = float(rows[-1][1]) if rows and len(rows[-1]) > 1 else count / wall_s
    return Timed(count, rate, cpu_s * 1e6 / count, server_s * 1e6 / count)


def _postgres(store: Store, server: Postgres, statement: str, at_once: int, seconds: float) -> Timed:
    script = Path(server.folder).parent / "raw.sql"
    script.write_text(f"\\set n random(1, 1000)\n{statement};\n")
    clients = min(at_once, _MOST_CLIENTS)
    argv = [
        _pgbench(), "-h", "127.0.0.1", "-p", str(server.port), "-U", "control", "-n", "-M", "prepared",
        "-c", str(clients), "-j", "1", "-t", str(_count(server, at_once, seconds) // clients), "-f", str(script),
        "postgres",
    ]  # fmt: skip
    environment = {"PGPASSWORD": CONTROL_PASSWORD, "PGOPTIONS": "-c search_path=gateway -c jit=off"}
    told, cpu_s, server_s, _ = _run(store, argv, environment)
    done = re.search(r"transactions actually processed: (\d+)", told)
    rate = re.search(r"tps = ([\d.]+) \(without", told)
    if done is None or rate is None:
        raise BenchError(f"pgbench told no rate:\n{told}")
    count = int(done[1])
    return Timed(count, float(rate[1]), cpu_s * 1e6 / count, server_s * 1e6 / count)


def _count(server: Redis | Postgres, at_once: int, seconds: float) -> int:
    return max(int(_A_SECOND[type(server)][at_once > 1] * seconds), 5 * at_once)


def _pgbench() -> str:
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/pgbench"), reverse=True)
    return str(places[0]) if places else find("pgbench", "postgresql-contrib")


def _run(store: Store, argv: Sequence[str], environment: Mapping[str, str]) -> tuple[str, float, float, float]:
    """What it printed, its CPU seconds, the server's, and the time on the wall."""
    server_before, before, began = store.server_cpu_s(), _children_cpu_s(), time.monotonic()
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **environment}
    )
    if done.returncode != 0:
        raise BenchError(f"{argv[0]} failed: {done.stdout[-500:]}{done.stderr[-500:]}")
    wall = time.monotonic() - began
    return done.stdout, _children_cpu_s() - before, store.server_cpu_s() - server_before, wall


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
