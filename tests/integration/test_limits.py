"""Limits and admission as callers meet them: over sockets, through the whole pipeline."""

from __future__ import annotations

import asyncio
import re
from ipaddress import ip_network
from pathlib import Path

import pytest

from common.state.budgets import BudgetTable
from common.state.memory import MemoryState
from common.state.ports import StateUnavailable
from tests.support import upstreams
from tests.support.clock import ManualClock
from tests.support.gateway import DEADLINE_S, Caller, Running, route, running, table
from tests.support.upstreams import answers, answers_with, ok, upstream
from tests.support.websocket_peers import opened, refused, stays


async def test_a_refused_request_names_its_budget_and_reaches_no_upstream(tmp_path: Path) -> None:
    async with (
        upstream(answers) as app,
        running(tmp_path, table(route(app.url, rateLimits={"client": {"max": 2}}))) as gw,
    ):
        for left in (1, 0):
            answer = await gw.get()
            assert re.fullmatch(rf'"route";r={left};t=[0-9]+', answer.value("ratelimit"))
            assert answer.value("ratelimit-policy") == '"route";q=2;w=60'
        answer = await gw.get()
        assert (answer.status, answer.json["error"]) == (429, "too_many_requests")
        wait = answer.value("retry-after")
        assert 0 < int(wait) <= 61
        assert answer.value("ratelimit") == f'"route";r=0;t={wait}'
        assert answer.value("ratelimit-policy") == '"route";q=2;w=60'
        assert len(app.requests) == 2
        line = await gw.request_line(3)
        assert (line["status"], line["error"], line["outcome"]) == (429, "too_many_requests", "refused")
        assert line["detail"] == 'budget "route";q=2;w=60'
        assert gw.metric("gateway_rate_limited_total", scope="route", route="r0") == 1


async def test_an_applications_own_fields_stay_beside_the_gateways(tmp_path: Path) -> None:
    theirs = b'RateLimit: "jobs";r=1;t=5\r\nRateLimit-Policy: "jobs";q=9;w=5\r\n'
    async with (
        upstream(answers_with(ok(extra=theirs))) as app,
        running(tmp_path, table(route(app.url)), rate_limit_route_max=50) as gw,
    ):
        answer = await gw.get()
        assert sorted(answer.values("ratelimit-policy")) == ['"jobs";q=9;w=5', '"route";q=50;w=60']
        assert len(answer.values("ratelimit")) == 2


async def test_without_limits_nothing_is_said_of_them_but_a_warning(tmp_path: Path) -> None:
    async with upstream(answers) as app, running(tmp_path, table(route(app.url)), rate_limit_route_max=0) as gw:
        answer = await gw.get()
        assert [name for name, _ in answer.headers if "ratelimit" in name] == []
        assert "rateLimits" in gw.permissive_settings()


async def test_a_search_for_unknown_paths_is_limited(tmp_path: Path) -> None:
    async with (
        upstream(answers) as app,
        running(tmp_path, table(route(app.url, "/app/")), rate_limit_route_max=3) as gw,
    ):
        seen = [(await gw.get(f"/wp-{n}.php")).status for n in range(5)]
        assert seen == [404, 404, 404, 429, 429]
        assert (await gw.get("/app/")).status == 200
        assert gw.metric("gateway_rate_limited_total", scope="route", route="unmatched") == 2


async def test_callers_behind_a_trusted_proxy_have_budgets_of_their_own(tmp_path: Path) -> None:
    async with (
        upstream(answers) as app,
        running(
            tmp_path,
            table(route(app.url)),
            rate_limit_client_max=1,
            trusted_proxies=(ip_network("127.0.0.1/32"),),
        ) as gw,
    ):
        addresses = ("203.0.113.1", "203.0.113.2", "2001:db8::1", "2001:db8::2", "::ffff:203.0.113.1", "203.0.113.1")
        seen = [(await gw.get("/", f"x-forwarded-for: {address}")).status for address in addresses]
        assert seen == [200, 200, 200, 429, 429, 429]


async def test_a_callers_own_forwarding_header_buys_no_budget(tmp_path: Path) -> None:
    async with (
        upstream(answers) as app,
        running(tmp_path, table(route(app.url)), rate_limit_client_max=2) as gw,
    ):
        seen = [(await gw.get("/", f"x-forwarded-for: 198.51.100.{n}")).status for n in range(4)]
        assert seen == [200, 200, 429, 429]


async def test_a_principals_budget_follows_the_subject_across_sessions(tmp_path: Path) -> None:
    async with (
        upstream(answers) as app,
        running(
            tmp_path,
            table(route(app.url, auth={"mode": "session"})),
            rate_limit_principal_max=2,
            rate_limit_route_max=0,
        ) as gw,
    ):
        alice, again, bob = await gw.session("alice"), await gw.session("alice"), await gw.session("bob")
        seen = [(await gw.get("/", cookie)).status for cookie in (alice, again, alice, again, bob)]
        assert seen == [200, 200, 429, 429, 200]
        left = (await gw.get("/", bob)).value("ratelimit")
        assert re.fullmatch(r'"principal";r=0;t=[0-9]+', left)


async def test_a_caller_without_a_credential_spends_no_principals_budget(tmp_path: Path) -> None:
    async with (
        upstream(answers) as app,
        running(tmp_path, table(route(app.url, auth={"mode": "session"})), rate_limit_principal_max=1) as gw,
    ):
        for _ in range(3):
            assert (await gw.get()).status == 401
        assert (await gw.get("/", await gw.session("alice"))).status == 200


async def test_one_request_too_many_inside_is_refused_at_once(tmp_path: Path) -> None:
    async with (
        upstream(upstreams.never_answers) as app,
        running(tmp_path, table(route(app.url)), max_pending_requests=1) as gw,
    ):
        inside = await _waiting_inside(gw)
        answer = await gw.get()
        assert (answer.status, answer.json["error"]) == (503, "gateway_overloaded")
        assert answer.value("retry-after") == "1"
        assert gw.metric("gateway_active_requests") == 1
        inside.vanish()
        await gw.settled()
        assert (await gw.request_line(2))["outcome"] == "aborted"
        second = await _waiting_inside(gw)
        second.vanish()
        await gw.settled()


async def _waiting_inside(gw: Running) -> Caller:
    """A caller whose request is inside the gateway and gets no answer."""
    caller = await gw.connect()
    await caller.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    async with asyncio.timeout(DEADLINE_S):
        while gw.metric("gateway_active_requests") != 1:
            await asyncio.sleep(0)
    return caller


async def test_a_websockets_handshake_is_counted_and_told_like_a_request(tmp_path: Path) -> None:
    async with (
        upstream(stays) as app,
        running(tmp_path, table(route(app.url, websocket=True, rateLimits={"client": {"max": 2}}))) as gw,
    ):
        for left in (1, 0):
            answer = (await opened(gw)).answer
            assert re.fullmatch(rf'"route";r={left};t=[0-9]+', answer.value("ratelimit"))
            assert answer.value("ratelimit-policy") == '"route";q=2;w=60'
        answer = await refused(gw)
        assert (answer.status, answer.json["error"]) == (429, "too_many_requests")
        assert 0 < int(answer.value("retry-after")) <= 61
        assert app.connections == 2


# Time moved by hand


class Milliseconds:
    """The clock that the windows in the process's own state are counted by."""

    def __init__(self, gw: Running) -> None:
        self.now_ms = 1_000_000
        budgets_of(gw)._now_ms = lambda: self.now_ms


def budgets_of(gw: Running) -> BudgetTable:
    assert isinstance(gw.gateway.state, MemoryState)
    return gw.gateway.state.budgets


async def test_whoever_comes_back_after_retry_after_is_served_and_a_second_earlier_is_not(tmp_path: Path) -> None:
    """However often it asked in between: what is refused is not counted."""
    async with (
        upstream(answers) as app,
        running(tmp_path, table(route(app.url, rateLimits={"client": {"max": 2}}))) as gw,
    ):
        clock = Milliseconds(gw)
        for _ in range(2):
            assert (await gw.get()).status == 200
            clock.now_ms += 10_000
        refused = await gw.get()
        assert (refused.status, refused.value("retry-after")) == (429, "41")
        for wait_ms, left in ((20_000, "21"), (20_000, "1"), (999, "1")):
            clock.now_ms += wait_ms
            again = await gw.get()
            assert (again.status, again.value("retry-after")) == (429, left)
        clock.now_ms += 1
        answer = await gw.get()
        assert (answer.status, answer.value("ratelimit")) == (200, '"route";r=0;t=10')
        assert (await gw.get()).value("retry-after") == "10"
        assert len(app.requests) == 3


async def test_spraying_addresses_through_a_trusted_proxy_frees_nobodys_budget(tmp_path: Path) -> None:
    """A table that is full of live windows keeps them, and what finds no room shares one budget."""
    async with (
        upstream(answers) as app,
        running(
            tmp_path,
            table(route(app.url)),
            rate_limit_client_max=2,
            rate_limit_route_max=0,
            trusted_proxies=(ip_network("127.0.0.1/32"),),
        ) as gw,
    ):
        clock = Milliseconds(gw)
        budgets_of(gw)._max_keys = 10
        caller = await gw.connect()

        async def ask_as(address: str) -> int:
            return (
                await caller.ask(f"GET / HTTP/1.1\r\nhost: a\r\nx-forwarded-for: {address}\r\n\r\n".encode())
            ).status

        victim = "203.0.113.7"
        assert [await ask_as(victim) for _ in range(3)] == [200, 200, 429]
        sprayed = [await ask_as(f"2001:db8:{n:x}::1") for n in range(300)]
        assert sprayed.count(200) == 9 + 2, "those that found room, and one shared budget"
        assert len(budgets_of(gw)) == 10
        assert await ask_as(victim) == 429
        clock.now_ms += 61_000
        assert await ask_as(victim) == 200


@pytest.mark.parametrize(
    ("fallback", "during"),
    [("local", [200, 200, 429, 429]), ("deny", [503] * 4), ("allow", [200] * 4)],
)
async def test_an_outage_of_the_state_is_bridged_as_configured_and_logged_once(
    tmp_path: Path, fallback: str, during: list[int]
) -> None:
    clock = ManualClock()

    async def away(_: object) -> None:
        raise StateUnavailable("connection refused")

    async with (
        upstream(answers) as app,
        running(
            tmp_path, table(route(app.url)), clock=clock, rate_limit_route_max=2, rate_limit_fallback=fallback
        ) as gw,
    ):
        state = gw.gateway.state
        there = state.check_budgets
        assert (await gw.get()).status == 200
        for outage in range(2):
            state.check_budgets = away  # type: ignore[method-assign]
            seen = [(await gw.get()).status for _ in range(4)]
            assert seen == (during if outage == 0 or fallback != "local" else [429] * 4)
            assert gw.metric("gateway_rate_limit_fallback_total", mode=fallback) == 4 * (outage + 1)
            state.check_budgets = there  # type: ignore[method-assign]
            clock.now_s += 1.0
            await gw.get()
        said = [(line["level"], line["msg"]) for line in gw.lines if line["msg"].startswith("limits: ")]
        assert (
            said
            == [
                ("warning", f"limits: the shared state does not answer; the fallback is {fallback}"),
                ("info", "limits: the shared state answers again; its budgets hold"),
            ]
            * 2
        )
