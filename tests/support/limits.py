"""What tests of limits share: a clock moved by hand, a store that goes away, and exchanges as the steps see them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar, cast

import orjson

from common.identity.principal import Principal
from common.routetable.compiled import Budget, Match, RateLimits, Route
from common.settings.gateway import RateLimitFallback
from common.state.budgets import BudgetCheck, BudgetResult, BudgetStore, BudgetTable
from common.state.ports import StateUnavailable
from common.telemetry.log import Log
from dataplane.exchange import Downstream, Exchange
from dataplane.forwarding.context import ForwardingContext
from dataplane.http1.heads import RequestHead
from dataplane.limits import Limiter
from dataplane.metrics import GatewayMetrics
from tests.support.forwarding import route as any_route

T = TypeVar("T")

MINUTE = (60_000, 1_000)
"""Window and bucket of a deployment that sets neither."""


class ManualClock:
    """Milliseconds that move when a test moves them."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def seconds(self) -> float:
        return self.now_ms / 1000


class SwitchedStore:
    """A store that is away while `away`; asks are counted, and wait for `answers` where that is set."""

    def __init__(self, store: BudgetStore) -> None:
        self.store = store
        self.away = False
        self.asked = 0
        self.checks: list[BudgetCheck] = []
        self.answers: asyncio.Event | None = None

    async def check_budgets(self, checks: Sequence[BudgetCheck]) -> Sequence[BudgetResult]:
        self.asked += 1
        self.checks.extend(checks)
        if self.answers is not None:
            await self.answers.wait()
        if self.away:
            raise StateUnavailable("connection refused")
        return await self.store.check_budgets(checks)


class LogLines:
    """A log whose lines a test reads."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.log = Log(write=lambda line: self.lines.append(orjson.loads(line)))


def run_now(work: Awaitable[T]) -> T:
    """The result of what waits for nothing."""
    waiting = work.__await__()
    try:
        next(waiting)
    except StopIteration as stop:
        return cast("T", stop.value)
    waiting.close()
    raise AssertionError("it waited")


def check_now(table: BudgetTable, *checks: BudgetCheck) -> list[BudgetResult]:
    return list(run_now(table.check_budgets(checks)))


def a_route(route_id: str = "app", *, client: Budget | None = None, principal: Budget | None = None) -> Route:
    return any_route(id=route_id, rate_limits=RateLimits(client=client, principal=principal))


def an_exchange(client: str = "203.0.113.7", route: Route | None = None, subject: str | None = None) -> Exchange:
    """An exchange after the steps before the limits: its caller is known, and the route where one is given."""
    head = RequestHead("GET", "/", "", http_1_0=False, headers=(), authority=None, body_length=0, keep_alive=True)
    x = Exchange(head, cast("Downstream", None), peer=client, secure=False, started_at=0.0)
    x.forwarding = ForwardingContext(client, "https", "app.test", "app.test", client.encode(), trusted=False)
    if route is not None:
        x.match = x.matched = Match(route, {}, "")
        x.route_id = route.id
    if subject is not None:
        x.principal = Principal(subject)
    return x


def a_limiter(
    store: BudgetStore,
    lines: LogLines | None = None,
    *,
    local: BudgetStore | None = None,
    fallback: RateLimitFallback = "local",
    metrics: GatewayMetrics | None = None,
    clock: ManualClock | None = None,
) -> Limiter:
    return Limiter(
        store,
        store if local is None else local,
        fallback=fallback,
        metrics=metrics or GatewayMetrics(),
        log=(lines or LogLines()).log,
        clock=(clock or ManualClock()).seconds,
    )
