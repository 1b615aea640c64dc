"""Keys of budgets: an address has one, and no two parts share one."""

from __future__ import annotations

import pytest

from common.routetable.compiled import Budget
from common.state.budgets import BudgetTable
from dataplane.limits.keys import address_part, key_part, route_part
from dataplane.limits.steps import DeploymentBudgets, LoginLimit, PrincipalLimit, RequestLimits
from tests.support.limits import MINUTE, LogLines, ManualClock, SwitchedStore, a_limiter, a_route, an_exchange, run_now

ONE = Budget(1, *MINUTE)
ALL = DeploymentBudgets(deployment=ONE, client=ONE, route=ONE, principal=ONE, login=ONE)


def keys_of(client: str, route_id: str | None = "app", subject: str = "alice") -> list[str]:
    store = SwitchedStore(BudgetTable(ManualClock()))
    limiter = a_limiter(store, LogLines())
    x = an_exchange(client) if route_id is None else an_exchange(client, a_route(route_id), subject)
    run_now(RequestLimits(limiter, ALL)(x))
    run_now(PrincipalLimit(limiter, ALL)(x))
    run_now(LoginLimit(limiter, ALL)(x, "login"))
    return [check.key for check in store.checks]


def test_the_keys_are_those_of_the_contract() -> None:
    assert keys_of("203.0.113.7") == [
        "deployment:total",
        "client:203.0.113.7",
        "app:203.0.113.7",
        "app:sub:alice",
        "login:203.0.113.7",
    ]


def test_a_request_without_a_route_is_counted_for_none() -> None:
    assert keys_of("203.0.113.7", None)[2] == "none:203.0.113.7"


def test_addresses_of_one_64_are_one_caller() -> None:
    parts = {address_part(f"2001:db8:0:1:{n:x}::{n:x}") for n in range(1, 1_000)}
    assert parts == {"20010db800000001/64"}


def test_another_64_of_the_same_48_is_another_caller() -> None:
    assert len({address_part(f"2001:db8:0:{n:x}::1") for n in range(1_000)}) == 1_000


@pytest.mark.parametrize("spelling", ["::ffff:192.0.2.1", "::FFFF:c000:201", "0:0:0:0:0:ffff:192.0.2.1"])
def test_a_mapped_address_is_the_ipv4_caller(spelling: str) -> None:
    assert address_part(spelling) == address_part("192.0.2.1") == "192.0.2.1"


def test_a_zone_gives_no_further_key() -> None:
    assert address_part("fe80::1%eth0") == address_part("fe80::1%eth1") == address_part("fe80::1")


@pytest.mark.parametrize("text", ["", "unknown", "203.0.113.007", "1.2.3", "20010db800000001/64", "a\0b", "::1\0"])
def test_what_is_no_address_is_never_taken_for_one(text: str) -> None:
    assert address_part(text).startswith("%t")


def test_a_route_named_like_a_fixed_part_has_keys_of_its_own() -> None:
    for route_id in ("client", "none", "login", "callback", "deployment"):
        keys = keys_of("203.0.113.7", route_id)
        assert len(set(keys)) == len(keys)
        assert keys[2] == f"%{ord(route_id[0]):X}{route_id[1:]}:203.0.113.7"
    assert route_part("client-app") == "client-app"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("auth0|5f7c", "auth0|5f7c"),
        ("a:b", "a%3Ab"),
        ("100%", "100%25"),
        ("a\r\nb\x7f\x85", "a%0D%0Ab%7F%85"),
        ("Zoë Ω", "Zoë Ω"),
        ("x\ud800", "x%uD800"),
        ("s" * 128, "s" * 128),
    ],
)
def test_controls_and_separators_are_escaped(text: str, part: str) -> None:
    assert key_part(text) == part


def test_a_long_subject_makes_a_short_key() -> None:
    long, other = "s" * 129, "s" * 130
    assert key_part(long).startswith("%h")
    assert len(key_part("ü:" * 20_000)) == 66
    assert len({key_part(long), key_part(other), key_part("s" * 128)}) == 3
