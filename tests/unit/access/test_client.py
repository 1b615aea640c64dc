"""The client with a transport under the test's hand: cache, shared calls, grace, breaker, cancellation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import pytest

from common.routetable.compiled import Route
from dataplane.access.breaker import Breaker
from dataplane.access.client import AccessClient, AccessTransport, AccessTransportError
from dataplane.access.protocol import AccessDecision
from dataplane.errors import GatewayError
from dataplane.metrics import GatewayMetrics
from tests.support.access_transport import (
    ALLOW,
    DENY,
    AnsweringTransport,
    HeldTransport,
    ManualClock,
    RecordedLog,
    route,
)

WORKSPACE = "11111111-1111-4111-8111-111111111111"


class Bench:
    """A client with everything around it in reach."""

    def __init__(
        self,
        transport: AccessTransport,
        *,
        failures: int = 0,
        cooldown_s: float = 5.0,
        timeout_s: float = 30.0,
        cache_max: int = 100,
    ) -> None:
        self.clock = ManualClock()
        self.metrics = GatewayMetrics()
        self.log = RecordedLog()
        self.client = AccessClient(
            transport,
            url="http://access:3000",
            timeout_s=timeout_s,
            cache_max=cache_max,
            breaker=Breaker(failures, cooldown_s),
            metrics=self.metrics,
            log=self.log,  # type: ignore[arg-type]
            clock=self.clock,
        )

    def decide(self, where: Route, *, subject: str = "u-1", fresh: bool = False) -> Coroutine[Any, Any, AccessDecision]:
        return self.client.decide(subject, WORKSPACE, where, ("dev",), fresh=fresh)

    def start(self, where: Route, **given: Any) -> asyncio.Task[AccessDecision]:
        return asyncio.get_running_loop().create_task(self.decide(where, **given))

    async def unavailable(self, where: Route, **given: Any) -> GatewayError:
        with pytest.raises(GatewayError) as caught:
            await self.decide(where, **given)
        assert caught.value.code == "access_unavailable"
        return caught.value

    def lookups(self) -> dict[str, int]:
        found = {result: int(self.metrics.access_cache.value(result)) for result in ("hit", "miss", "shared", "stale")}
        return {result: count for result, count in found.items() if count}

    def calls(self) -> dict[str, int]:
        results = ("allow", "deny", "unavailable", "rejected")
        found = {result: int(self.metrics.access_requests.value(result)) for result in results}
        return {result: count for result, count in found.items() if count}


async def settle() -> None:
    """Let every callback that is ready run."""
    for _ in range(5):
        await asyncio.sleep(0)


def down() -> AccessTransportError:
    return AccessTransportError("connect", "refused")


# Cache


async def test_a_decision_is_asked_for_once_a_lifetime() -> None:
    transport = AnsweringTransport()
    bench = Bench(transport)
    for _ in range(3):
        assert (await bench.decide(route(ttl_ms=5_000))).allow
    bench.clock.advance(4.999)
    await bench.decide(route(ttl_ms=5_000))
    assert transport.count == 1
    bench.clock.advance(0.001)
    await bench.decide(route(ttl_ms=5_000))
    assert transport.count == 2
    assert bench.lookups() == {"hit": 3, "miss": 2}
    assert bench.calls() == {"allow": 2}
    assert bench.metrics.access_duration.count() == 2


async def test_a_lifetime_of_zero_asks_each_time() -> None:
    transport = AnsweringTransport()
    bench = Bench(transport)
    for _ in range(3):
        await bench.decide(route(ttl_ms=0))
    assert transport.count == 3


async def test_a_denial_is_kept_like_an_allow() -> None:
    transport = AnsweringTransport((200, DENY))
    bench = Bench(transport)
    assert not (await bench.decide(route())).allow
    assert not (await bench.decide(route())).allow
    assert transport.count == 1


@pytest.mark.parametrize("answer", [(500, b""), (200, b"{}"), (400, b""), (403, b""), down()])
async def test_an_outage_is_never_kept(answer: tuple[int, bytes] | Exception) -> None:
    transport = AnsweringTransport(answer)
    bench = Bench(transport)
    await bench.unavailable(route())
    transport.answer = (200, ALLOW)
    assert (await bench.decide(route())).allow


async def test_the_lifetime_is_the_one_of_the_route_that_asks() -> None:
    transport = AnsweringTransport()
    bench = Bench(transport)
    await bench.decide(route(ttl_ms=60_000))
    bench.clock.advance(10)
    await bench.decide(route(ttl_ms=5_000))
    assert transport.count == 2


async def test_the_age_of_a_decision_counts_from_the_question() -> None:
    """A slow answer must not lengthen the time until a revocation is felt."""
    transport = HeldTransport()
    bench = Bench(transport)
    first = bench.start(route(ttl_ms=5_000))
    call = await transport.reached(1)
    bench.clock.advance(3)
    call.allow()
    await first
    bench.clock.advance(2)
    bench.start(route(ttl_ms=5_000))
    await transport.reached(2)


@pytest.mark.parametrize(
    "other",
    [
        ("u-2", WORKSPACE, "app", ("dev",)),
        ("u-1", None, "app", ("dev",)),
        ("u-1", "22222222-2222-4222-8222-222222222222", "app", ("dev",)),
        ("u-1", WORKSPACE, "other", ("dev",)),
        ("u-1", WORKSPACE, "app", ()),
        ("u-1", WORKSPACE, "app", ("dev", "admin")),
    ],
)
async def test_a_decision_never_answers_another_question(
    other: tuple[str, str | None, str, tuple[str, ...]],
) -> None:
    transport = AnsweringTransport()
    bench = Bench(transport)
    assert (await bench.client.decide("u-1", WORKSPACE, route("app"), ("dev",))).allow
    transport.answer = (200, DENY)
    subject, workspace_id, route_id, roles = other
    assert not (await bench.client.decide(subject, workspace_id, route(route_id), roles)).allow
    assert (await bench.client.decide("u-1", WORKSPACE, route("app"), ("dev",))).allow


async def test_the_bound_of_the_cache_holds() -> None:
    transport = AnsweringTransport()
    bench = Bench(transport, cache_max=2)
    for subject in ("a", "b", "c", "a"):
        await bench.decide(route(), subject=subject)
    assert transport.count == 4


async def test_the_question_on_the_wire_names_caller_workspace_route_and_roles() -> None:
    transport = AnsweringTransport()
    bench = Bench(transport)
    await bench.client.decide("u-1", None, route("admin-api"), ("a", "b"))
    assert json.loads(transport.bodies[0]) == {"subject": "u-1", "routeId": "admin-api", "roles": ["a", "b"]}


async def test_a_subject_that_is_not_unicode_is_a_bug_and_not_an_outage() -> None:
    bench = Bench(AnsweringTransport())
    with pytest.raises(GatewayError) as caught:
        await bench.decide(route(), subject="\ud800")
    assert caught.value.code == "internal_error"


# Shared calls


async def test_a_burst_asks_once_and_everyone_gets_the_answer() -> None:
    transport = HeldTransport()
    bench = Bench(transport)
    burst = [bench.start(route()) for _ in range(50)]
    call = await transport.reached(1)
    await settle()
    call.deny()
    assert [decision.allow for decision in await asyncio.gather(*burst)] == [False] * 50
    assert len(transport.calls) == 1
    assert bench.lookups() == {"miss": 1, "shared": 49}
    assert bench.calls() == {"deny": 1}


async def test_a_failed_call_fails_everyone_who_waits_and_nobody_after() -> None:
    transport = HeldTransport()
    bench = Bench(transport)
    burst = [bench.start(route()) for _ in range(3)]
    (await transport.reached(1)).fail()
    outcomes = await asyncio.gather(*burst, return_exceptions=True)
    assert [getattr(outcome, "code", None) for outcome in outcomes] == ["access_unavailable"] * 3
    later = bench.start(route())
    (await transport.reached(2)).allow()
    assert (await later).allow


async def test_different_questions_do_not_share() -> None:
    transport = HeldTransport()
    bench = Bench(transport)
    first = bench.start(route(), subject="a")
    second = bench.start(route(), subject="b")
    (await transport.reached(1)).allow()
    (await transport.reached(2)).deny()
    assert (await first).allow
    assert not (await second).allow


async def test_a_waiter_that_is_cancelled_does_not_cancel_the_call_for_others() -> None:
    transport = HeldTransport()
    bench = Bench(transport)
    first = bench.start(route())
    call = await transport.reached(1)
    second = bench.start(route())
    await settle()
    first.cancel()
    await settle()
    assert first.cancelled()
    assert not call.cancelled
    call.allow()
    assert (await second).allow


async def test_the_last_waiter_takes_the_call_with_it() -> None:
    transport = HeldTransport()
    bench = Bench(transport, failures=1)
    waiters = [bench.start(route()) for _ in range(3)]
    call = await transport.reached(1)
    await settle()
    for waiter in waiters:
        waiter.cancel()
    await settle()
    assert call.cancelled
    assert bench.metrics.access_breaker_open.value() == 0
    again = bench.start(route())
    (await transport.reached(2)).allow()
    assert (await again).allow


async def test_nobody_joins_a_call_whose_last_waiter_left() -> None:
    transport = HeldTransport()
    bench = Bench(transport)
    first = bench.start(route())
    await transport.reached(1)
    first.cancel()
    second = bench.start(route())  # runs after `first` was told, before its call has ended
    (await transport.reached(2)).allow()
    assert (await second).allow


async def test_a_call_older_than_the_lifetime_is_not_joined() -> None:
    """Its answer may be from before a revocation that this request must feel."""
    transport = HeldTransport()
    bench = Bench(transport)
    old = bench.start(route(ttl_ms=1_000))
    first = await transport.reached(1)
    bench.clock.advance(1)
    new = bench.start(route(ttl_ms=1_000))
    (await transport.reached(2)).deny()
    assert not (await new).allow
    first.allow()
    assert (await old).allow
    assert not (await bench.decide(route(ttl_ms=1_000))).allow


async def test_with_a_lifetime_of_zero_no_call_is_shared() -> None:
    transport = HeldTransport()
    bench = Bench(transport)
    waiters = [bench.start(route(ttl_ms=0)) for _ in range(3)]
    for number in (1, 2, 3):
        (await transport.reached(number)).allow()
    await asyncio.gather(*waiters)


async def test_a_bug_in_the_transport_reaches_those_who_wait_and_lets_nobody_in() -> None:
    bench = Bench(AnsweringTransport(RuntimeError("bug")), failures=1)
    with pytest.raises(RuntimeError):
        await bench.decide(route())
    assert bench.metrics.access_breaker_open.value() == 0


async def test_closing_ends_every_call_without_a_decision() -> None:
    transport = HeldTransport()
    bench = Bench(transport)
    waiter = bench.start(route())
    call = await transport.reached(1)
    await bench.client.close()
    assert call.cancelled
    with pytest.raises(GatewayError):
        await waiter


# Fresh


async def test_fresh_asks_although_a_decision_is_kept_and_renews_it() -> None:
    transport = AnsweringTransport()
    bench = Bench(transport)
    await bench.decide(route())
    transport.answer = (200, DENY)
    assert not (await bench.decide(route(), fresh=True)).allow
    assert not (await bench.decide(route())).allow
    assert transport.count == 2
    assert bench.lookups() == {"miss": 1, "hit": 1}


async def test_fresh_never_joins_a_call_that_began_earlier() -> None:
    transport = HeldTransport()
    bench = Bench(transport)
    earlier = bench.start(route())
    first = await transport.reached(1)
    fresh = bench.start(route(), fresh=True)
    (await transport.reached(2)).deny()
    assert not (await fresh).allow
    first.allow()
    assert (await earlier).allow
    assert not (await bench.decide(route())).allow, "the later question's answer is the one that is kept"


async def test_fresh_is_never_stale() -> None:
    transport = AnsweringTransport()
    bench = Bench(transport)
    await bench.decide(route(grace_ms=3_600_000))
    transport.answer = down()
    await bench.unavailable(route(grace_ms=3_600_000), fresh=True)
    assert bench.lookups() == {"miss": 1}


# Outage grace


async def test_without_a_grace_an_outage_is_seen_when_the_lifetime_ends() -> None:
    transport = AnsweringTransport()
    bench = Bench(transport)
    await bench.decide(route(ttl_ms=1_000))
    transport.answer = down()
    bench.clock.advance(1)
    await bench.unavailable(route(ttl_ms=1_000))


async def test_the_last_allow_bridges_an_outage_until_lifetime_and_grace_are_over() -> None:
    transport = AnsweringTransport()
    bench = Bench(transport)
    where = route(ttl_ms=1_000, grace_ms=2_000)
    await bench.decide(where)
    transport.answer = down()
    bench.clock.advance(2.5)
    decision = await bench.decide(where)
    assert decision == AccessDecision(True, "", stale=True)
    assert bench.metrics.access_stale.value("app") == 1
    assert bench.metrics.access_stale_age.count("app") == 1
    assert bench.lookups() == {"miss": 1, "stale": 1}
    bench.clock.advance(0.5)
    await bench.unavailable(where)
    assert bench.metrics.access_stale.value("app") == 1


async def test_a_stale_denial_is_an_outage() -> None:
    transport = AnsweringTransport((200, DENY))
    bench = Bench(transport)
    where = route(ttl_ms=1_000, grace_ms=60_000)
    await bench.decide(where)
    transport.answer = down()
    bench.clock.advance(1)
    await bench.unavailable(where)


async def test_a_denial_ends_what_the_allow_before_it_could_bridge() -> None:
    transport = AnsweringTransport()
    bench = Bench(transport)
    where = route(ttl_ms=0, grace_ms=60_000)
    await bench.decide(where)
    transport.answer = (200, DENY)
    assert not (await bench.decide(where)).allow
    transport.answer = down()
    await bench.unavailable(where)


async def test_the_grace_belongs_to_the_route() -> None:
    transport = AnsweringTransport()
    bench = Bench(transport)
    await bench.decide(route(ttl_ms=1_000, grace_ms=60_000))
    transport.answer = down()
    bench.clock.advance(2)
    await bench.unavailable(route(ttl_ms=1_000, grace_ms=0))


async def test_bridging_renews_nothing() -> None:
    transport = AnsweringTransport()
    bench = Bench(transport)
    where = route(ttl_ms=1_000, grace_ms=1_000)
    await bench.decide(where)
    transport.answer = down()
    for _ in range(3):
        bench.clock.advance(0.5)
        await bench.decide(where)
    bench.clock.advance(0.5)
    await bench.unavailable(where)


async def test_a_failed_call_gives_way_to_a_decision_that_came_meanwhile() -> None:
    transport = HeldTransport()
    bench = Bench(transport)
    earlier = bench.start(route())
    first = await transport.reached(1)
    fresh = bench.start(route(), fresh=True)
    (await transport.reached(2)).deny()
    await fresh
    first.fail()
    assert not (await earlier).allow


# Breaker


async def test_an_open_breaker_answers_at_once_and_calls_nobody() -> None:
    transport = AnsweringTransport(down())
    bench = Bench(transport, failures=3)
    for _ in range(10):
        await bench.unavailable(route())
    assert transport.count == 3
    assert bench.metrics.access_breaker_open.value() == 1
    assert bench.calls() == {"unavailable": 3}
    assert "breaker_open" in (await bench.unavailable(route())).detail


async def test_a_recovered_service_is_used_after_one_probe() -> None:
    transport = AnsweringTransport(down())
    bench = Bench(transport, failures=5, cooldown_s=5.0)
    for _ in range(50):
        await bench.unavailable(route())
    transport.answer = (200, ALLOW)
    bench.clock.advance(4.999)
    await bench.unavailable(route())
    bench.clock.advance(0.001)
    assert (await bench.decide(route())).allow
    assert bench.metrics.access_breaker_open.value() == 0
    assert (await bench.decide(route(), subject="other")).allow


async def test_one_probe_at_a_time_and_a_slow_one_holds_nobody() -> None:
    transport = HeldTransport()
    bench = Bench(transport, failures=1)
    first = bench.start(route())
    (await transport.reached(1)).fail()
    await asyncio.gather(first, return_exceptions=True)
    bench.clock.advance(5)
    probe = bench.start(route(), subject="prober")
    call = await transport.reached(2)
    await bench.unavailable(route(), subject="somebody")
    call.allow()
    assert (await probe).allow


async def test_a_cancelled_probe_frees_its_place() -> None:
    transport = HeldTransport()
    bench = Bench(transport, failures=1)
    first = bench.start(route())
    (await transport.reached(1)).fail()
    await asyncio.gather(first, return_exceptions=True)
    bench.clock.advance(5)
    probe = bench.start(route())
    await transport.reached(2)
    probe.cancel()
    await settle()
    again = bench.start(route())
    (await transport.reached(3)).allow()
    assert (await again).allow


async def test_a_probe_that_is_stopped_before_its_first_step_frees_its_place() -> None:
    transport = AnsweringTransport(down())
    bench = Bench(transport, failures=1)
    await bench.unavailable(route())
    bench.clock.advance(5)
    probe = bench.start(route())
    await asyncio.sleep(0)  # the caller waits now; its call is scheduled and has not begun
    await bench.client.close()
    with pytest.raises(GatewayError):
        await probe
    assert transport.count == 1
    transport.answer = (200, ALLOW)
    assert (await bench.decide(route())).allow


async def test_denials_and_refused_questions_open_no_breaker() -> None:
    transport = AnsweringTransport((200, DENY))
    bench = Bench(transport, failures=1)
    for _ in range(3):
        await bench.decide(route(ttl_ms=0))
    transport.answer = (400, b"")
    for _ in range(3):
        await bench.unavailable(route(ttl_ms=0))
    assert bench.metrics.access_breaker_open.value() == 0
    assert bench.calls() == {"deny": 3, "rejected": 3}


async def test_a_refused_question_does_not_close_the_breaker_nor_hold_the_probe() -> None:
    transport = AnsweringTransport(down())
    bench = Bench(transport, failures=1)
    await bench.unavailable(route())
    bench.clock.advance(5)
    transport.answer = (400, b"")
    await bench.unavailable(route())
    assert bench.metrics.access_breaker_open.value() == 1
    transport.answer = (200, ALLOW)
    assert (await bench.decide(route())).allow


async def test_the_grace_serves_while_the_breaker_is_open() -> None:
    transport = AnsweringTransport()
    bench = Bench(transport, failures=1)
    where = route(ttl_ms=1_000, grace_ms=60_000)
    await bench.decide(where)
    transport.answer = down()
    bench.clock.advance(1)
    for _ in range(5):
        assert (await bench.decide(where)).stale
    assert transport.count == 2


async def test_a_failure_of_nothing_lasts_for_ever() -> None:
    """`failures` 0 turns the breaker off: every request asks."""
    transport = AnsweringTransport(down())
    bench = Bench(transport, failures=0)
    for _ in range(20):
        await bench.unavailable(route())
    assert transport.count == 20


# Budget, causes, log


async def test_a_call_ends_with_its_budget_whatever_the_transport_does() -> None:
    transport = HeldTransport()
    bench = Bench(transport, timeout_s=0.01)
    error = await bench.unavailable(route())
    assert error.detail.startswith("timeout: ")
    assert transport.calls[0].cancelled


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (AccessTransportError("connect", "name not resolved"), "connect: name not resolved"),
        (AccessTransportError("tls", "certificate expired"), "tls: certificate expired"),
        (AccessTransportError("reset", "closed"), "reset: closed"),
        (ConnectionResetError("peer"), "connect: "),
        ((401, b""), "status: Access answered 401: it does not accept GATEWAY_ACCESS_TOKEN"),
        ((302, b""), "status: Access answered 302: redirects are not followed"),
        ((404, b""), "status: Access answered 404: nothing is served"),
        ((400, b""), "rejected: "),
        ((500, b""), "status: Access answered 500"),
        ((200, b"x"), "malformed: "),
    ],
)
async def test_the_operator_reads_the_cause_and_the_caller_gets_503(
    answer: tuple[int, bytes] | Exception, cause: str
) -> None:
    error = await Bench(AnsweringTransport(answer)).unavailable(route())
    assert error.detail.startswith(cause)
    assert error.spec.status == 503
    assert error.retry_after_s is not None
    assert cause not in error.message


async def test_an_outage_is_logged_at_its_start_and_its_end_and_not_in_between() -> None:
    transport = AnsweringTransport(down())
    bench = Bench(transport, failures=2)
    for _ in range(10):
        await bench.unavailable(route())
    bench.clock.advance(5)
    transport.answer = (200, ALLOW)
    await bench.decide(route())
    assert bench.log.messages() == ["access is unavailable", "access breaker opened", "access answers again"]
