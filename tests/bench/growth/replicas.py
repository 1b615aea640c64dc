"""Gateways on one store: what each more of them asks of it while nobody calls, and what a request takes of it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from common.identity.signature import new_private_key_pem
from common.state.ports import NewSession
from tests.bench.machine import BenchError, pinned, say
from tests.bench.stage import ROOT, SMALL, Stage, Started, stage
from tests.bench.state.stores import Store, trust
from tests.support.ports import free_port
from tests.support.postgres import Postgres, open_folder, start_postgres
from tests.support.processes import Children
from tests.support.redis import Redis, start_redis

COUNTS = (1, 2, 4, 8)
STORES = ("redis", "postgres")
RATE = 400
"""Requests a second, of all replicas together: few enough for the machine, however many share it."""
SETTLED_S = 6.0
"""After the last start: connections are open, and the first heartbeats written."""
CALLERS = 64


@dataclass(frozen=True)
class Replicas:
    """Of the server, while nobody calls: connections, operations and CPU milliseconds a second, and bytes a second on
    the wire (Redis alone tells them); then a request's operations and CPU microseconds, the idle share taken off. An
    operation is a command of Redis, inside scripts too, or a transaction of Postgres.
    """

    store: str
    replicas: int
    connections: int
    idle_operations: float
    idle_cpu_ms: float
    idle_bytes: float
    request_operations: float
    request_cpu_us: float


@dataclass(frozen=True)
class _Told:
    """What a server says of itself at one moment."""

    at: float
    cpu_s: float
    operations: int
    bytes: int
    connections: int


def measure(seconds: float, counts: tuple[int, ...], names: tuple[str, ...]) -> list[Replicas]:
    told = []
    for name in names:
        for count in counts:
            with stage() as own, _server(name) as store:
                told.append(_measure(own, store, count, seconds))
            say(str(told[-1]))
    return told


def _measure(on: Stage, store: Store, count: int, seconds: float) -> Replicas:
    session = secrets.token_urlsafe(32)
    asyncio.run(_log_in(store, session))
    key = new_private_key_pem()
    gateways = [_gateway(on, store, number, key) for number in range(count)]
    cookie = f"cookie: gateway_session={session}"
    for it in gateways:
        answer = Started(it.child, it.origin, (cookie,)).get(SMALL)
        if answer.status_code != 200:
            raise BenchError(f"{answer.status_code} {answer.text[:300]}\n{it.child.output[-2000:]}")
    time.sleep(SETTLED_S)
    first = _ask(store)
    time.sleep(seconds)
    idle = _ask(store)
    requests = _load(on, gateways, seconds, cookie)
    loaded = _ask(store)
    rest = idle.at - first.at
    operations, cpu = (idle.operations - first.operations) / rest, (idle.cpu_s - first.cpu_s) / rest
    passed = loaded.at - idle.at
    return Replicas(
        store.name,
        count,
        idle.connections,
        operations,
        cpu * 1e3,
        (idle.bytes - first.bytes) / rest,
        (loaded.operations - idle.operations - operations * passed) / requests,
        (loaded.cpu_s - idle.cpu_s - cpu * passed) * 1e6 / requests,
    )


def _load(on: Stage, gateways: list[Started], seconds: float, cookie: str) -> int:
    """Requests that fall due at a fixed rate, at all gateways alike; how many were answered."""
    loads = []
    for it in gateways:
        argv = [sys.executable, "-m", "tests.bench.peers.paced_load", it.origin.rpartition(":")[2], SMALL, cookie]
        loads.append(
            subprocess.Popen(
                pinned(argv, on.other_core), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        )
    answered = 0
    for load in loads:
        assert load.stdin is not None
        load.stdin.write(f"{RATE / len(gateways)} {seconds} {CALLERS // len(gateways)}\n")
        load.stdin.close()
    for load in loads:
        assert load.stdout is not None
        told: dict[str, Any] = json.loads(load.stdout.read().splitlines()[-1])
        load.wait()
        if set(told["answers"]) != {"200"}:
            raise BenchError(f"answers were {told['answers']}")
        answered += told["answers"]["200"]["count"]
    return answered


async def _log_in(store: Store, session: str) -> None:
    state = store.open()
    await state.start()
    hashed = hashlib.sha256(session.encode()).hexdigest()
    await state.create_session(NewSession(hashed, "somebody", "somebody@example.test", (), 28_800_000, 86_400_000))
    await state.close()


def _gateway(on: Stage, store: Store, number: int, key: str) -> Started:
    folder, port = on.folder / f"gateway-{number}", free_port()
    folder.mkdir()
    route = {"id": "app", "match": {"path": "/"}, "upstream": on.upstream.origin, "auth": {"mode": "session"}}
    (folder / "routes.json").write_text(json.dumps({"version": 2, "routes": [route]}))
    environment = {
        "GATEWAY_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "GATEWAY_CONFIG": str(folder / "routes.json"),
        "GATEWAY_CONFIG_SOURCE": "store",
        "GATEWAY_PUBLIC_URL": f"http://127.0.0.1:{port}",
        "GATEWAY_OIDC_ISSUER": "http://127.0.0.1:9",
        "GATEWAY_OIDC_CLIENT_ID": "nobody",
        "GATEWAY_OIDC_CLIENT_SECRET": secrets.token_hex(32),
        "GATEWAY_SESSION_SECRET": secrets.token_hex(32),
        "GATEWAY_IDENTITY_SIGNING_KEY": key,
        "GATEWAY_STATE_URL": store.url,
        "GATEWAY_STATE_TIMEOUT_MS": "10000",
        "GATEWAY_REPLICA_ID": f"gateway-{number}",
        "GATEWAY_RATE_LIMIT_ROUTE_MAX": "1000000000",
    }
    if store.name == "postgres":
        environment["GATEWAY_POSTGRES_POOL_MAX"] = "5"  # The server takes 60 connections.
    log = on.folder / f"gateway-{number}.log"
    argv = [sys.executable, "-m", "dataplane.cli", "run"]
    child = on.start(folder.name, argv, on.contender_core, port=port, env=environment, output=log)
    return Started(child, f"http://127.0.0.1:{port}", log=log)


@contextmanager
def _server(name: str) -> Iterator[Store]:
    with open_folder() as folder, Children() as children:
        if name == "redis":
            redis = start_redis(children, folder / "redis")
            yield Store(name, redis.url, redis)
        else:
            postgres = start_postgres(children, folder / "postgres")
            trust(postgres)
            asyncio.run(postgres.migrate())
            yield Store(name, postgres.control_url, postgres)


def _ask(store: Store) -> _Told:
    if isinstance(store.server, Redis):
        return _ask_redis(store.server)
    assert isinstance(store.server, Postgres)
    return asyncio.run(_ask_postgres(store.server, store.server_cpu_s()))


def _ask_redis(server: Redis) -> _Told:
    told = dict(line.split(":", 1) for line in server.cli("INFO", "everything").splitlines() if ":" in line)
    return _Told(
        time.monotonic(),
        float(told["used_cpu_user"]) + float(told["used_cpu_sys"]),
        int(told["total_commands_processed"]),
        int(told["total_net_input_bytes"]) + int(told["total_net_output_bytes"]),
        int(told["connected_clients"]) - 1,
    )


async def _ask_postgres(server: Postgres, cpu_s: float) -> _Told:
    """The kernel counts its processes' time in ticks of 10 ms: measure for long."""
    (((transactions, backends),),) = await server.run(
        "SELECT sum(xact_commit + xact_rollback)::bigint, sum(numbackends)::int FROM pg_stat_database"
    )
    return _Told(time.monotonic(), cpu_s, int(transactions), 0, int(backends) - 1)
