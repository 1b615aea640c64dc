"""What a kept thing costs in memory: an idle connection of a process, and entries of the tables inside one."""

from __future__ import annotations

import gc
import hashlib
import socket
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from common.identity.principal import Principal
from common.identity.signature import IdentitySigner
from common.state.budgets import BudgetCheck, BudgetTable
from common.state.memory import MemoryState
from common.state.ports import NewSession
from dataplane.access.cache import DecisionCache, Kept
from dataplane.access.keys import decision_key, service_digest
from dataplane.access.protocol import AccessDecision, question
from tests.bench.contenders import CONTENDERS, Field, ready
from tests.bench.machine import BenchError, memory_bytes
from tests.bench.stage import REQUEST_HEADERS, SMALL, SMALL_BODY, Started, stage
from tests.bench.steps import at_once

Fill = Callable[[int], object]


def bytes_each(fill: Fill, count: int) -> float:
    """What Python allocated for each of `count` entries, by tracemalloc: exact, without the allocator's own slack."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = fill(count)
    gc.collect()
    size = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    del kept
    return size / count


def sessions(count: int) -> MemoryState:
    """Sessions as a login opens them: each with its own subject and email."""
    state = MemoryState(lambda: 0)
    for n in range(count):
        new = NewSession(
            _hash(n), f"{_hash(n)[:32]}", f"person-{n}@example.com", ("developer",), 28_800_000, 86_400_000
        )
        at_once(state.create_session(new))
    return state


def decisions(count: int) -> DecisionCache:
    """Decisions of as many subjects on one workspace."""
    cache, service, allow = DecisionCache(count), service_digest("http://access.internal:8090"), AccessDecision(True)
    for n in range(count):
        asked = question(_hash(n)[:32], "6f1c2a58-93b4-4c0e-8a27-5d0be1f4c973", "app", ("developer",))
        cache.put(decision_key(service, asked), Kept(allow, float(n), n, 1e9), 0.0)
    return cache


def questions(count: int) -> list[bytes]:
    """What is asked of Access, as it is kept: one question for each subject."""
    workspace = "6f1c2a58-93b4-4c0e-8a27-5d0be1f4c973"
    return [question(_hash(n)[:32], workspace, "app", ("developer",)) for n in range(count)]


def signatures(count: int) -> IdentitySigner:
    """Remembered signatures (at most `CACHED_SIGNATURES`): one caller, and a path with a query of its own for each."""
    signer = IdentitySigner()
    caller = Principal(_hash(0)[:32], "person-1@example.com", ("developer",))
    for n in range(count):
        # Texts of its own, as those of a request are.
        method, path, query = f"GET {SMALL} ?page={n}".split(" ")
        signer.lines(caller, "6f1c2a58-93b4-4c0e-8a27-5d0be1f4c973", method, path, query, "app.example.com")
    return signer


def limiter_keys(count: int, *, buckets: int = 1, requests: int = 1) -> BudgetTable:
    """As many callers on one route, each with so many requests in each of the last `buckets` of a window of 60."""
    # A clock as it stands on a machine that has run for a while: small numbers are Python's own and take no memory.
    now_ms = began_ms = 10**9
    table = BudgetTable(lambda: now_ms, max_keys=count)
    for bucket in range(buckets):
        now_ms = began_ms + bucket * 1_000
        for n in range(count):
            check = BudgetCheck(f"app:10.{n >> 16}.{n >> 8 & 255}.{n & 255}", 6_000, 60_000, 1_000)
            for _ in range(requests):
                at_once(table.check_budgets((check,)))
    return table


def idle_connections(count: int) -> dict[str, float]:
    """Resident bytes that `count` idle connections add to a gateway: none of them used, and each used once."""
    (bare,) = (each for each in CONTENDERS if each.name == "bare")
    with stage() as own:
        it = ready(Field(own), bare)
        # Few: what they held is free again, and would be taken by those that are counted.
        with _connected(it, 20) as warm:
            for sock in warm:
                _ask(sock)
        before = memory_bytes(it.pid)
        with _connected(it, count) as opened:
            _ask(opened[-1])
            unused = memory_bytes(it.pid) - before
            for sock in opened[:-1]:
                _ask(sock)
            used = memory_bytes(it.pid) - before
    return {"unused": unused / count, "used once": used / count}


@contextmanager
def _connected(it: Started, count: int) -> Iterator[list[socket.socket]]:
    host, _, port = it.origin.removeprefix("http://").partition(":")
    sockets: list[socket.socket] = []
    try:
        for _ in range(count):
            sockets.append(socket.create_connection((host, int(port)), timeout=10))  # noqa: PERF401 (all are closed)
        yield sockets
    finally:
        for sock in sockets:
            sock.close()


def _ask(sock: socket.socket) -> None:
    lines = "\r\n".join((f"GET {SMALL} HTTP/1.1", "host: bench", *REQUEST_HEADERS, "", ""))
    sock.sendall(lines.encode())
    answer = b""
    while not answer.endswith(SMALL_BODY.encode()):
        piece = sock.recv(65_536)
        if not piece:
            raise BenchError(f"an idle connection was closed: {answer[:200]!r}")
        answer += piece
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise BenchError(f"an idle connection was answered: {answer[:200]!r}")


def _hash(n: int) -> str:
    return hashlib.sha256(n.to_bytes(8, "big")).hexdigest()
