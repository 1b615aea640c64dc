"""What a request meets, in which order, and what its answer says."""

from __future__ import annotations

import pytest

from common.routetable.compiled import Budget
from common.settings.gateway import GatewaySettings
from common.state.budgets import BudgetTable
from dataplane.errors import GatewayError
from dataplane.exchange import Exchange
from dataplane.limits import DeploymentBudgets, LoginLimit, PrincipalLimit, RequestLimits
from dataplane.metrics import GatewayMetrics
from tests.support.limits import MINUTE, ManualClock, SwitchedStore, a_limiter, a_route, an_exchange, run_now

HEADERS = list[tuple[bytes, bytes]]


def of(max_requests: int) -> Budget:
    return Budget(max_requests, *MINUTE)


class Gateway:
    """The steps over one table."""

    def __init__(self, **budgets: Budget) -> None:
        self.clock = ManualClock()
        self.metrics = GatewayMetrics()
        self.store = SwitchedStore(BudgetTable(self.clock))
        limiter = a_limiter(self.store, metrics=self.metrics, clock=self.clock)
        deployment = DeploymentBudgets(**budgets)
        self.requests = RequestLimits(limiter, deployment)
        self.principals = PrincipalLimit(limiter, deployment)
        self.logins = LoginLimit(limiter, deployment)

    def send(self, x: Exchange) -> HEADERS:
        run_now(self.requests(x))
        run_now(self.principals(x))
        return x.response_headers

    def refuse(self, x: Exchange) -> GatewayError:
        with pytest.raises(GatewayError) as caught:
            self.send(x)
        assert caught.value.code == "too_many_requests"
        return caught.value


def test_the_three_budgets_of_a_request_are_one_operation_of_the_store() -> None:
    gateway = Gateway(deployment=of(9), client=of(9), route=of(9))
    gateway.send(an_exchange(route=a_route()))
    assert gateway.store.asked == 1
    assert len(gateway.store.checks) == 3


def test_the_first_refusal_in_table_order_is_the_answer() -> None:
    gateway = Gateway(deployment=of(1), client=of(1), route=of(1))
    gateway.send(an_exchange(route=a_route()))
    assert gateway.refuse(an_exchange(route=a_route())).detail == 'budget "deployment";q=1;w=60'
    gateway = Gateway(deployment=of(5), client=of(1), route=of(1))
    gateway.send(an_exchange(route=a_route()))
    assert gateway.refuse(an_exchange(route=a_route())).detail == 'budget "client";q=1;w=60'


def test_a_refusal_says_when_to_come_back_in_all_three_fields() -> None:
    gateway = Gateway(route=of(2))
    for gateway.clock.now_ms in (0, 10_000):
        gateway.send(an_exchange(route=a_route()))
    gateway.clock.now_ms = 20_001
    refused = gateway.refuse(an_exchange(route=a_route()))
    assert refused.retry_after_s == 41  # 40.999 s, rounded up: rounded down it would be refused again
    assert refused.headers == (
        (b"ratelimit", b'"route";r=0;t=41'),
        (b"ratelimit-policy", b'"route";q=2;w=60'),
    )
    gateway.clock.now_ms += refused.retry_after_s * 1_000
    gateway.send(an_exchange(route=a_route()))


def test_an_answer_says_what_is_left_of_the_callers_budgets() -> None:
    gateway = Gateway(client=of(9), route=of(4), principal=of(2))
    x = an_exchange(route=a_route(), subject="alice")
    assert gateway.send(x) == [
        (b"ratelimit", b'"client";r=8;t=61, "route";r=3;t=61'),
        (b"ratelimit-policy", b'"client";q=9;w=60, "route";q=4;w=60'),
        (b"ratelimit", b'"principal";r=1;t=61'),
        (b"ratelimit-policy", b'"principal";q=2;w=60'),
    ]


def test_the_load_of_the_deployment_is_told_to_nobody_it_does_not_refuse() -> None:
    gateway = Gateway(deployment=of(2), route=of(9))
    assert gateway.send(an_exchange(route=a_route())) == [
        (b"ratelimit", b'"route";r=8;t=61'),
        (b"ratelimit-policy", b'"route";q=9;w=60'),
    ]
    only = Gateway(deployment=of(1))
    assert only.send(an_exchange(route=a_route())) == []
    assert only.refuse(an_exchange(route=a_route())).headers[0] == (b"ratelimit", b'"deployment";r=0;t=61')


def test_the_deployments_budget_bounds_a_flood_from_many_addresses() -> None:
    gateway = Gateway(deployment=of(3), client=of(100))
    for n in range(3):
        gateway.send(an_exchange(f"198.51.100.{n}", a_route()))
    gateway.refuse(an_exchange("198.51.100.99", a_route()))


def test_a_thousand_addresses_of_one_64_have_one_budget() -> None:
    gateway = Gateway(route=of(10))
    answered = 0
    for n in range(1_000):
        try:
            gateway.send(an_exchange(f"2001:db8::{n:x}", a_route()))
            answered += 1
        except GatewayError:
            pass
    assert answered == 10


def test_unknown_paths_are_limited_like_any_route_and_apart_from_them() -> None:
    gateway = Gateway(route=of(2))
    for _ in range(2):
        gateway.send(an_exchange())
    gateway.refuse(an_exchange())
    gateway.send(an_exchange(route=a_route()))
    assert gateway.metrics.rate_limited.value("route", "unmatched") == 1


def test_routes_do_not_spend_each_others_budgets() -> None:
    gateway = Gateway(route=of(1))
    for route_id in ("a", "b", "client", "none"):
        gateway.send(an_exchange(route=a_route(route_id)))
        gateway.refuse(an_exchange(route=a_route(route_id)))


def test_a_routes_own_budget_replaces_the_deployments() -> None:
    gateway = Gateway(route=of(1), principal=of(1))
    own = a_route(client=Budget(3, 10_000, 1_000), principal=Budget(2, 5_000, 500))
    assert gateway.send(an_exchange(route=own, subject="alice")) == [
        (b"ratelimit", b'"route";r=2;t=11'),
        (b"ratelimit-policy", b'"route";q=3;w=10'),
        (b"ratelimit", b'"principal";r=1;t=6'),
        (b"ratelimit-policy", b'"principal";q=2;w=5'),
    ]
    gateway.send(an_exchange(route=own, subject="alice"))
    assert gateway.refuse(an_exchange(route=own, subject="alice")).headers[1][1] == b'"principal";q=2;w=5'


def test_a_routes_own_zero_turns_its_limiter_off() -> None:
    gateway = Gateway(route=of(1), principal=of(1))
    for _ in range(5):
        assert gateway.send(an_exchange(route=a_route(client=of(0), principal=of(0)), subject="alice")) == []
    assert gateway.store.asked == 0


def test_principals_behind_one_address_do_not_spend_each_others_budget() -> None:
    gateway = Gateway(principal=of(1))
    gateway.send(an_exchange(route=a_route(), subject="alice"))
    gateway.send(an_exchange(route=a_route(), subject="bob"))
    gateway.refuse(an_exchange("198.51.100.1", a_route(), "alice"))


def test_a_request_without_a_principal_has_no_principal_budget() -> None:
    gateway = Gateway(principal=of(1))
    for _ in range(3):
        assert gateway.send(an_exchange(route=a_route())) == []


def test_logins_are_limited_by_address_and_apart_from_requests() -> None:
    gateway = Gateway(login=of(2), route=of(1))
    x = an_exchange("203.0.113.7")
    for _ in range(2):
        run_now(gateway.logins(x, "login"))
    assert x.response_headers[-1] == (b"ratelimit-policy", b'"login";q=2;w=60')
    with pytest.raises(GatewayError) as caught:
        run_now(gateway.logins(x, "login"))
    assert (caught.value.code, caught.value.retry_after_s) == ("too_many_requests", 61)
    assert gateway.metrics.rate_limited.value("login", "gateway") == 1
    run_now(gateway.logins(an_exchange("203.0.113.8"), "login"))
    run_now(gateway.logins(x, "callback"))
    gateway.send(an_exchange())


def test_a_refusal_is_counted_once_by_its_scope_and_route() -> None:
    gateway = Gateway(client=of(1), route=of(1))
    gateway.send(an_exchange(route=a_route()))
    gateway.refuse(an_exchange(route=a_route()))
    counted = gateway.metrics.rate_limited
    assert (counted.value("client", "app"), counted.value("route", "app")) == (1, 0)


def test_callers_make_no_series_of_metrics() -> None:
    gateway = Gateway(route=of(1), principal=of(1))
    for n in range(2_000):
        address = f"10.1.{n >> 8}.{n & 255}"
        x = an_exchange(address, a_route(), f"subject-{n}") if n % 2 else an_exchange(address)
        gateway.send(x)
        gateway.refuse(x)
    series = gateway.metrics.rate_limited.family().samples
    assert {tuple(sample.labels.values()) for sample in series} == {("route", "app"), ("route", "unmatched")}


def test_a_window_under_a_second_is_told_as_one_second() -> None:
    gateway = Gateway(route=Budget(5, 100, 10))
    assert gateway.send(an_exchange()) == [
        (b"ratelimit", b'"route";r=4;t=1'),
        (b"ratelimit-policy", b'"route";q=5;w=1'),
    ]


def test_a_quota_beyond_what_a_window_counts_to_is_told_as_what_it_is() -> None:
    # A structured integer has 15 digits at most (RFC 9651 §3.3.1).
    gateway = Gateway(route=Budget(10**20, *MINUTE))
    assert gateway.send(an_exchange()) == [
        (b"ratelimit", b'"route";r=1073741821;t=61'),
        (b"ratelimit-policy", b'"route";q=1073741822;w=60'),
    ]


def test_the_environments_defaults_limit_routes_and_logins() -> None:
    budgets = DeploymentBudgets.of(GatewaySettings())
    assert (budgets.route, budgets.login) == (Budget(6_000, *MINUTE), Budget(20, *MINUTE))
    store = SwitchedStore(BudgetTable(ManualClock()))
    run_now(RequestLimits(a_limiter(store), budgets)(an_exchange(route=a_route())))
    assert [check.key for check in store.checks] == ["app:203.0.113.7"]


def test_many_different_budgets_of_routes_are_all_held() -> None:
    gateway = Gateway()
    for n in range(1, 1_500):
        headers = gateway.send(an_exchange(route=a_route(f"r{n}", client=of(n))))
        assert headers[1][1] == b'"route";q=%d;w=60' % n
