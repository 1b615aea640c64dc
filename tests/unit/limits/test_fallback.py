"""The shared state away: what holds, what waits, what is counted and logged."""

from __future__ import annotations

import asyncio

import pytest

from common.routetable.compiled import Budget
from common.settings.gateway import RateLimitFallback
from common.state.budgets import BudgetTable
from dataplane.errors import GatewayError
from dataplane.exchange import Exchange
from dataplane.limits import DeploymentBudgets, RequestLimits
from dataplane.metrics import GatewayMetrics
from tests.support.limits import (
    MINUTE,
    LogLines,
    ManualClock,
    SwitchedStore,
    a_limiter,
    a_route,
    an_exchange,
    run_now,
)


class Gateway:
    """Step 6 over a store that can be away, with two requests a minute to a route."""

    def __init__(self, fallback: RateLimitFallback) -> None:
        self.clock = ManualClock()
        self.metrics = GatewayMetrics()
        self.lines = LogLines()
        self.store = SwitchedStore(BudgetTable(self.clock))
        limiter = a_limiter(
            self.store,
            self.lines,
            local=BudgetTable(self.clock),
            fallback=fallback,
            metrics=self.metrics,
            clock=self.clock,
        )
        self.step = RequestLimits(limiter, DeploymentBudgets(route=Budget(2, *MINUTE)))
        self.fallback = fallback

    def send(self) -> Exchange:
        x = an_exchange(route=a_route())
        run_now(self.step(x))
        return x

    def refused(self) -> str:
        with pytest.raises(GatewayError) as caught:
            self.send()
        return caught.value.code

    @property
    def fallbacks(self) -> int | float:
        return self.metrics.rate_limit_fallback.value(self.fallback)


def test_local_counts_in_the_process_while_the_store_is_away() -> None:
    gateway = Gateway("local")
    gateway.store.away = True
    for _ in range(2):
        gateway.send()
    assert gateway.refused() == "too_many_requests"
    assert gateway.fallbacks == 3
    assert gateway.metrics.rate_limited.value("route", "app") == 1


def test_local_says_what_is_left_by_its_own_count() -> None:
    gateway = Gateway("local")
    gateway.store.away = True
    assert gateway.send().response_headers[0] == (b"ratelimit", b'"route";r=1;t=61')


def test_deny_answers_503_while_the_store_is_away() -> None:
    gateway = Gateway("deny")
    gateway.store.away = True
    with pytest.raises(GatewayError) as caught:
        gateway.send()
    assert (caught.value.code, caught.value.spec.status, caught.value.retry_after_s) == (
        "rate_limit_unavailable",
        503,
        5,
    )
    assert gateway.fallbacks == 1


def test_allow_lets_every_request_through_and_promises_nothing() -> None:
    gateway = Gateway("allow")
    gateway.store.away = True
    for _ in range(10):
        assert gateway.send().response_headers == []
    assert gateway.fallbacks == 10


def test_an_outage_is_logged_once_and_its_end_once() -> None:
    gateway = Gateway("local")
    gateway.send()
    assert gateway.lines.lines == []
    for _ in range(2):
        gateway.store.away = True
        for _ in range(20):
            gateway.clock.now_ms += 61_000
            gateway.send()
        gateway.store.away = False
        for _ in range(5):
            gateway.clock.now_ms += 61_000
            gateway.send()
    assert [(line["level"], line["msg"]) for line in gateway.lines.lines] == [
        ("warning", "limits: the shared state does not answer; the fallback is local"),
        ("info", "limits: the shared state answers again; its budgets hold"),
    ] * 2
    assert gateway.lines.lines[0]["error"] == "connection refused"


def test_after_three_failures_one_request_a_second_asks_the_store() -> None:
    gateway = Gateway("allow")
    gateway.store.away = True
    for _ in range(200):
        gateway.send()
    assert gateway.store.asked == 3
    gateway.clock.now_ms += 1_000
    for _ in range(200):
        gateway.send()
    assert gateway.store.asked == 4
    gateway.store.away = False
    gateway.send()
    assert gateway.fallbacks == 401
    gateway.clock.now_ms += 1_000
    gateway.send()
    gateway.send()
    assert (gateway.store.asked, gateway.fallbacks) == (6, 401)


def test_a_store_that_comes_back_holds_the_budgets_it_had() -> None:
    gateway = Gateway("allow")
    gateway.send()
    gateway.send()
    gateway.store.away = True
    gateway.send()
    gateway.store.away = False
    assert gateway.refused() == "too_many_requests"


async def test_nobody_waits_for_the_one_that_asks_a_store_that_hangs() -> None:
    """A store whose packets are dropped costs its time-out once a second, not once a request."""
    gateway = Gateway("deny")
    gateway.store.away = True
    for _ in range(3):
        gateway.refused()
    gateway.clock.now_ms += 1_000
    gateway.store.answers = asyncio.Event()
    asking = asyncio.create_task(gateway.step(an_exchange(route=a_route())))
    await asyncio.sleep(0)
    assert gateway.store.asked == 4
    assert [gateway.refused() for _ in range(200)] == ["rate_limit_unavailable"] * 200
    gateway.store.answers.set()
    with pytest.raises(GatewayError):
        await asking
    assert gateway.store.asked == 4


async def test_two_hundred_requests_that_meet_the_outage_together_are_all_answered() -> None:
    gateway = Gateway("local")
    gateway.store.answers = asyncio.Event()
    gateway.store.away = True
    requests = [asyncio.create_task(gateway.step(an_exchange(f"10.0.0.{n}", a_route()))) for n in range(200)]
    await asyncio.sleep(0)
    gateway.store.answers.set()
    assert await asyncio.gather(*requests) == [None] * 200
    assert len(gateway.lines.lines) == 1


async def test_a_request_that_is_cancelled_while_it_asks_changes_nothing() -> None:
    gateway = Gateway("local")
    gateway.store.answers = asyncio.Event()
    asking = asyncio.create_task(gateway.step(an_exchange(route=a_route())))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    gateway.store.answers.set()
    await gateway.step(an_exchange(route=a_route()))
    assert (gateway.lines.lines, gateway.fallbacks) == ([], 0)
