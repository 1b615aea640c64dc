"""Whole requests over a store: a session, one budget, decision and signature from the cache, and the log line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from common.settings.secret import Secret
from dataplane.gateway import Gateway
from tests.bench.pipeline import gateway, spent_on
from tests.bench.state.stores import Store
from tests.bench.state.timed import Timed
from tests.support.redis import Redis

_OPERATIONS = ("read_session", "check_budgets", "read_decision", "write_decision")


@dataclass(frozen=True)
class TimedRequests(Timed):
    """`operations` of it are requests. `asked` is how many operations of the store a request took; requests that
    travelled together shared them. `reads` is how often Redis read from its connections, a request.
    """

    asked: float
    reads: float | None


@asynccontextmanager
async def serving(store: Store) -> AsyncIterator[Gateway]:
    """A gateway over the store, with the limit of a route that no request reaches."""
    with TemporaryDirectory(prefix="wicketgate-bench-") as folder:
        settings = {"state_url": Secret(store.url), "state_timeout_s": 30.0, "rate_limit_route_max": 10**9}
        async with gateway(Path(folder), full=True, **settings) as it:
            await spent_on(it, requests=100)
            yield it


async def timed_requests(store: Store, it: Gateway, *, at_once: int, seconds: float) -> TimedRequests:
    """Requests for about `seconds`, `at_once` under way at a time."""
    few = await spent_on(it, requests=max(at_once, 50), connections=at_once)
    count = max(int(seconds * 1e6 / few.wall_us), at_once)
    server_before, asked_before, reads_before = store.server_cpu_s(), _asked(it), _reads(store)
    spent = await spent_on(it, requests=count, connections=at_once)
    server = store.server_cpu_s() - server_before
    reads = _reads(store)
    return TimedRequests(
        count,
        1e6 / spent.wall_us,
        spent.cpu_us,
        server * 1e6 / count,
        (_asked(it) - asked_before) / count,
        None if reads is None or reads_before is None else (reads - reads_before) / count,
    )


def _asked(it: Gateway) -> float:
    return sum(it.metrics.state_operations.value(name, "ok") for name in _OPERATIONS)


def _reads(store: Store) -> int | None:
    if not isinstance(store.server, Redis):
        return None
    told = dict(line.split(":", 1) for line in store.server.cli("INFO", "stats").splitlines() if ":" in line)
    return int(told["total_reads_processed"])
