"""Decisions that replicas share: they stand between what a process keeps and Access, and keep the rules of both."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from common.routetable.compiled import Route
from common.state.memory import MemoryState
from common.state.ports import Decision, DecisionKey, State, StateUnavailable
from dataplane.access.breaker import Breaker
from dataplane.access.client import AccessClient, AccessTransport, AccessTransportError
from dataplane.access.drops import DecisionDrops
from dataplane.access.protocol import AccessDecision
from dataplane.access.shared import SharedDecisions
from dataplane.errors import GatewayError
from dataplane.metrics import GatewayMetrics
from tests.support.access_transport import (
    DENY,
    AnsweringTransport,
    HeldTransport,
    ManualClock,
    RecordedLog,
    route,
)
from tests.support.state_values import entry

WORKSPACE = "11111111-1111-4111-8111-111111111111"
NEVER_S = 100_000.0


class Store:
    """A store of the test's own: counts what it is asked, and is slow or away when the test says so."""

    shared = True

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.state = MemoryState(self.now_ms)
        self.reads = 0
        self.writes = 0
        self.away = False
        self.answer_takes_s = 0.0
        self.says: Decision | None = None

    def now_ms(self) -> int:
        return int(self.clock() * 1000)

    async def read_decision(self, key: DecisionKey) -> Decision | None:
        self.reads += 1
        if self.away:
            raise StateUnavailable("away")
        found = self.says or await self.state.read_decision(key)
        self.clock.advance(self.answer_takes_s)
        return found

    async def write_decision(self, key: DecisionKey, **values: Any) -> None:
        self.writes += 1
        if self.away:
            raise StateUnavailable("away")
        await self.state.write_decision(key, **values)


class Replica:
    """A client over the store, with an Access of its own."""

    def __init__(self, store: Store, transport: AccessTransport | None = None, *, cache_max: int = 100) -> None:
        self.transport = transport or AnsweringTransport()
        self.metrics = GatewayMetrics()
        self.client = AccessClient(
            self.transport,
            url="http://access:3000",
            timeout_s=30.0,
            cache_max=cache_max,
            breaker=Breaker(0, 5.0),
            metrics=self.metrics,
            log=RecordedLog(),  # type: ignore[arg-type]
            shared=SharedDecisions(cast(State, store), store.clock),
            clock=store.clock,
        )

    async def decide(self, where: Route, *, subject: str = "u-1", fresh: bool = False) -> AccessDecision:
        decision = await self.client.decide(subject, WORKSPACE, where, ("dev",), fresh=fresh)
        await settle()
        return decision

    async def unavailable(self, where: Route) -> None:
        with pytest.raises(GatewayError) as caught:
            await self.decide(where)
        assert caught.value.code == "access_unavailable"

    @property
    def asked(self) -> int:
        assert isinstance(self.transport, AnsweringTransport)
        return self.transport.count

    def answer(self, answer: tuple[int, bytes] | Exception) -> None:
        assert isinstance(self.transport, AnsweringTransport)
        self.transport.answer = answer

    def lookups(self) -> dict[str, int]:
        found = {name: int(self.metrics.access_cache.value(name)) for name in ("hit", "miss", "shared", "stale")}
        return {name: count for name, count in found.items() if count}


async def settle() -> None:
    """Let every callback that is ready run: a write of a decision is waited for by nobody."""
    for _ in range(8):
        await asyncio.sleep(0)


@pytest.fixture
def store() -> Store:
    return Store(ManualClock())


DOWN = AccessTransportError("connect", "refused")


async def test_what_one_replica_was_told_answers_at_the_other(store: Store) -> None:
    first, second = Replica(store), Replica(store)
    assert (await first.decide(route())).allow
    for _ in range(3):
        assert (await second.decide(route())).allow
    assert (first.asked, second.asked) == (1, 0)
    assert second.lookups() == {"hit": 3}
    assert store.reads == 2, "what was found is kept in the process"


async def test_a_denial_is_shared_with_its_reason(store: Store) -> None:
    first, second = Replica(store), Replica(store)
    first.answer((200, b'{"allow": false, "reasonCode": "missing_role"}'))
    await first.decide(route())
    decision = await second.decide(route())
    assert (decision.allow, decision.reason, second.asked) == (False, "missing_role", 0)


@pytest.mark.parametrize(
    "other", [{"subject": "u-2"}, {"where": route("other")}, {"roles": ("admin",)}, {"workspace": None}]
)
async def test_a_shared_decision_answers_no_other_question(store: Store, other: dict[str, Any]) -> None:
    first, second = Replica(store), Replica(store)
    await first.decide(route())
    subject, where = other.get("subject", "u-1"), other.get("where", route())
    workspace = other.get("workspace", WORKSPACE)
    await second.client.decide(subject, workspace, where, other.get("roles", ("dev",)))
    assert second.asked == 1


async def test_the_lifetime_runs_from_the_question_at_every_replica(store: Store) -> None:
    transport = HeldTransport()
    first, second = Replica(store, transport), Replica(store)
    asking = asyncio.ensure_future(first.decide(route(ttl_ms=5_000)))
    call = await transport.reached(1)
    store.clock.advance(3)  # A slow answer makes no decision younger.
    call.allow()
    await asking
    store.clock.advance(1.9)
    await second.decide(route(ttl_ms=5_000))
    assert second.asked == 0
    store.clock.advance(0.1)
    await second.decide(route(ttl_ms=5_000))
    assert second.asked == 1


async def test_the_time_that_the_store_took_to_answer_makes_no_allow_younger(store: Store) -> None:
    first, second = Replica(store), Replica(store)
    await first.decide(route(ttl_ms=5_000))
    store.clock.advance(1)
    store.answer_takes_s = 4.5
    await second.decide(route(ttl_ms=5_000))
    assert second.asked == 1


async def test_a_lifetime_of_zero_neither_reads_nor_is_kept(store: Store) -> None:
    first, second = Replica(store), Replica(store)
    await first.decide(route(ttl_ms=60_000))
    reads = store.reads
    await second.decide(route(ttl_ms=0))
    assert (second.asked, store.reads, store.writes) == (1, reads, 1)


async def test_a_fresh_decision_is_asked_for_and_ends_what_is_stored(store: Store) -> None:
    first, second, third = Replica(store), Replica(store), Replica(store)
    await first.decide(route())
    store.clock.advance(1)
    reads = store.reads
    second.answer((200, DENY))
    assert not (await second.decide(route(), fresh=True)).allow
    assert (second.asked, store.reads) == (1, reads)
    assert not (await third.decide(route())).allow
    assert third.asked == 0


async def test_a_store_that_is_away_is_no_outage(store: Store) -> None:
    replica = Replica(store)
    store.away = True
    assert (await replica.decide(route())).allow
    assert replica.asked == 1
    assert (await replica.decide(route())).allow
    assert replica.asked == 1, "what this process keeps is its own"


async def test_a_failure_is_never_stored(store: Store) -> None:
    first, second = Replica(store), Replica(store)
    first.answer(DOWN)
    await first.unavailable(route())
    assert store.writes == 0
    assert (await second.decide(route())).allow


async def test_callers_at_once_share_one_call(store: Store) -> None:
    transport = HeldTransport()
    replica = Replica(store, transport)
    asking = [asyncio.ensure_future(replica.decide(route())) for _ in range(5)]
    call = await transport.reached(1)
    # One that comes while the call is under way waits for it, and asks the store nothing.
    reads = store.reads
    asking.append(asyncio.ensure_future(replica.decide(route())))
    await settle()
    assert store.reads == reads
    call.allow()
    assert all(decision.allow for decision in await asyncio.gather(*asking))
    assert len(transport.calls) == 1
    assert replica.lookups() == {"miss": 1, "shared": 5}


async def test_an_allow_of_another_replica_bridges_an_outage(store: Store) -> None:
    where = route(ttl_ms=1_000, grace_ms=60_000)
    first, second = Replica(store), Replica(store)
    await first.decide(where)
    store.clock.advance(30)
    second.answer(DOWN)
    decision = await second.decide(where)
    assert (decision.allow, decision.stale) == (True, True)
    store.clock.advance(31)
    await second.unavailable(where)


async def test_with_a_lifetime_of_zero_the_grace_comes_from_the_store_too(store: Store) -> None:
    where = route(ttl_ms=0, grace_ms=60_000)
    first, second = Replica(store), Replica(store)
    await first.decide(where)
    second.answer(DOWN)
    assert (await second.decide(where)).stale


async def test_a_denial_of_another_replica_ends_what_an_earlier_allow_could_bridge(store: Store) -> None:
    where = route(ttl_ms=1_000, grace_ms=60_000)
    first, second = Replica(store), Replica(store)
    await first.decide(where)
    store.clock.advance(2)
    second.answer((200, DENY))
    await second.decide(where)
    store.clock.advance(2)
    first.answer(DOWN)
    await first.unavailable(where)


async def test_without_a_grace_nothing_stored_bridges_an_outage(store: Store) -> None:
    first, second = Replica(store), Replica(store)
    await first.decide(route(ttl_ms=60_000))
    store.clock.advance(10)
    second.answer(DOWN)
    await second.unavailable(route(ttl_ms=1_000))


async def test_a_process_that_keeps_nothing_shares_nothing(store: Store) -> None:
    replica = Replica(store, cache_max=0)
    await replica.decide(route())
    await replica.decide(route())
    assert (replica.asked, store.reads, store.writes) == (2, 0, 0)


@pytest.mark.parametrize("allow", [1, "1", "true", b"1", [True], None, 0, False])
@pytest.mark.parametrize("reason", ["", "root", None, 7])
async def test_only_true_allows_whatever_else_a_store_says(store: Store, allow: Any, reason: Any) -> None:
    store.says = Decision(allow, reason, 0)
    decision = await Replica(store).decide(route())
    assert (decision.allow, decision.reason) == (False, "access_denied")


@pytest.mark.parametrize("age_ms", [5_000, 10**15, 2**63])
async def test_an_age_beyond_the_lifetime_is_no_decision(store: Store, age_ms: int) -> None:
    store.says = Decision(True, "", age_ms)
    replica = Replica(store)
    await replica.decide(route(ttl_ms=5_000))
    assert replica.asked == 1


# Dropped decisions


async def test_what_was_asked_before_decisions_were_dropped_answers_nobody_any_more(store: Store) -> None:
    first, second = Replica(store), Replica(store)
    await first.decide(route())
    await second.decide(route())
    store.clock.advance(1)
    second.client.forget()
    # The store holds it still: its deletion may be on its way.
    await second.decide(route())
    assert second.asked == 1
    await second.decide(route())
    assert second.asked == 1, "what was asked since is kept again"


async def test_a_call_under_way_when_decisions_are_dropped_is_kept_by_nobody(store: Store) -> None:
    transport = HeldTransport()
    replica = Replica(store, transport)
    before = asyncio.ensure_future(replica.decide(route()))
    call = await transport.reached(1)
    replica.client.forget()
    after = asyncio.ensure_future(replica.decide(route()))
    second = await transport.reached(2)
    call.allow()
    assert (await before).allow
    assert store.writes == 0
    second.deny()
    assert not (await after).allow
    assert not (await replica.decide(route())).allow


async def test_a_grace_ends_with_the_decision_that_was_dropped(store: Store) -> None:
    where = route(ttl_ms=1_000, grace_ms=60_000)
    replica = Replica(store)
    await replica.decide(where)
    store.clock.advance(2)
    replica.client.forget()
    replica.answer(DOWN)
    await replica.unavailable(where)


class Watched:
    """A watch over a state in memory, and how often it said to forget."""

    def __init__(self, poll_s: float) -> None:
        self.state = MemoryState(lambda: 0)
        self.forgotten = asyncio.Semaphore(0)
        self.watch = DecisionDrops(
            cast(State, self.state),
            self.forgotten.release,
            RecordedLog(),
            poll_s=poll_s,  # type: ignore[arg-type]
        )

    async def drop(self) -> None:
        await self.state.drop_decisions("alice", None, entry("decisions.drop"))

    async def forgets(self) -> None:
        async with asyncio.timeout(15):
            await self.forgotten.acquire()


async def test_dropped_decisions_are_forgotten_at_a_hint() -> None:
    watched = Watched(NEVER_S)
    await watched.drop()
    await watched.watch.start()
    for _ in range(2):
        assert watched.forgotten.locked()
        await watched.drop()
        await watched.forgets()
    await watched.watch.stop()


async def test_dropped_decisions_are_found_without_a_hint_too(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(0.005)
    monkeypatch.setattr(watched.state, "on_hint", lambda wake: None)
    await watched.watch.start()
    await watched.drop()
    await watched.forgets()
    await watched.watch.stop()


async def test_what_happened_while_the_state_was_away_is_forgotten_when_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = Watched(0.005)
    answers = iter([StateUnavailable("away"), StateUnavailable("away"), 4, 4, StateUnavailable("away"), 0])

    async def decisions_dropped() -> int:
        answer = next(answers, 0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(watched.state, "decisions_dropped", decisions_dropped)
    await watched.watch.start()
    await watched.forgets()  # It could not be known whether some had been dropped.
    await watched.forgets()  # A store that counts from the beginning again lost what it held.
    await watched.watch.stop()
