"""Keys of budgets and the fields of responses, for whatever a caller or provider may put into them."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address

from hypothesis import given
from hypothesis import strategies as st

from common.routetable.compiled import Budget
from common.state.budgets import BudgetTable
from dataplane.limits import DeploymentBudgets, LoginLimit, PrincipalLimit, RequestLimits
from dataplane.limits.keys import address_part, key_part
from tests.support.limits import MINUTE, ManualClock, SwitchedStore, a_limiter, a_route, an_exchange, run_now

ONE = Budget(9, *MINUTE)
LIMITS = DeploymentBudgets(deployment=ONE, client=ONE, route=ONE, principal=ONE, login=ONE)

TRICKY = st.sampled_from(
    ["", ":", "%", "%3A", "sub", "sub:", "client", "login", "none", "total", "a:b", "%t", "%h", "/64", "\ud800", "\x85"]
)
TEXTS = st.one_of(TRICKY, st.text(), st.lists(TRICKY, max_size=4).map("".join), st.text(min_size=120, max_size=140))
ROUTE_IDS = st.one_of(
    st.sampled_from(["client", "login", "callback", "none", "deployment", "sub", "app", "app-sub"]),
    st.from_regex(r"[a-z0-9][a-z0-9-]{0,63}", fullmatch=True),
)
ADDRESSES = st.one_of(st.ip_addresses().map(str), TEXTS)


@given(TEXTS, TEXTS)
def test_different_texts_are_different_parts(one: str, other: str) -> None:
    assert (key_part(one) == key_part(other)) == (one == other)


@given(TEXTS)
def test_no_part_holds_a_separator_or_a_control(text: str) -> None:
    part = key_part(text)
    assert ":" not in part
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", part)
    part.encode()  # A backend stores keys as UTF-8.
    assert len(part) <= 128 * 6


@given(st.ip_addresses(), st.ip_addresses())
def test_two_addresses_share_a_key_only_within_a_64(
    one: IPv4Address | IPv6Address, other: IPv4Address | IPv6Address
) -> None:
    assert (address_part(str(one)) == address_part(str(other))) == (_caller(one) == _caller(other))


def _caller(address: IPv4Address | IPv6Address) -> IPv4Address | int:
    if isinstance(address, IPv4Address):
        return address
    return address.ipv4_mapped or int(address) >> 64


@given(st.ip_addresses(v=6), st.text("abc0123456789.", max_size=5))
def test_every_spelling_of_an_address_is_one_key(address: IPv6Address, zone: str) -> None:
    part = address_part(str(address))
    assert address_part(address.exploded.upper()) == part
    assert address_part(f"{address}%{zone}") == part


@given(ADDRESSES)
def test_what_is_no_address_never_has_an_addresss_key(text: str) -> None:
    try:
        ip_address(text.partition("%")[0])
    except ValueError:
        assert address_part(text) == "%t" + key_part(text)
        assert ":" not in address_part(text)


def keys_of(route_id: str | None, address: str, subject: str) -> dict[tuple[str, ...], str]:
    """The key of each budget that a request meets, by what the budget is about."""
    store = SwitchedStore(BudgetTable(ManualClock()))
    limiter = a_limiter(store)
    x = an_exchange() if route_id is None else an_exchange(route=a_route(route_id), subject=subject)
    object.__setattr__(x.forwarding, "client", address)
    run_now(RequestLimits(limiter, LIMITS)(x))
    run_now(PrincipalLimit(limiter, LIMITS)(x))
    run_now(LoginLimit(limiter, LIMITS)(x, "login"))
    caller = address_part(address)
    about: list[tuple[str, ...]] = [("deployment",), ("client", caller)]
    if route_id is None:
        about += [("none", caller)]
    else:
        about += [("route", route_id, caller), ("principal", route_id, subject)]
    about.append(("login", caller))
    return dict(zip(about, (check.key for check in store.checks), strict=True))


REQUESTS = st.tuples(st.none() | ROUTE_IDS, ADDRESSES, TEXTS)


@given(REQUESTS, REQUESTS)
def test_budgets_about_different_things_never_share_a_key(
    one: tuple[str | None, str, str], other: tuple[str | None, str, str]
) -> None:
    seen: dict[str, tuple[str, ...]] = {}
    for about, key in [*keys_of(*one).items(), *keys_of(*other).items()]:
        assert seen.setdefault(key, about) == about


ITEM = r'"[a-z]+"(?:;[a-z]=[0-9]{1,15})+'


@given(
    st.lists(st.integers(1, 10**20), min_size=3, max_size=3),
    st.integers(1, 60_000).flatmap(lambda bucket: st.tuples(st.integers(1, bucket * 60), st.just(bucket))),
)
def test_the_fields_are_structured_lists_of_strings_with_integers(maxima: list[int], shape: tuple[int, int]) -> None:
    deployment, client, route = (Budget(each, *shape) for each in maxima)
    limiter = a_limiter(BudgetTable(ManualClock()))
    step = RequestLimits(limiter, DeploymentBudgets(deployment=deployment, client=client, route=route))
    x = an_exchange(route=a_route())
    run_now(step(x))
    (limit_name, limit), (policy_name, policy) = x.response_headers
    assert (limit_name, policy_name) == (b"ratelimit", b"ratelimit-policy")
    for value in (limit, policy):
        assert re.fullmatch(f"{ITEM}(?:, {ITEM})*", value.decode())
