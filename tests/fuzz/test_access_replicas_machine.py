"""Two replicas that share decisions, under any interleaving of callers, answers, the store's delays, outages and drops.

What must hold: an allow is one that Access gave to this very question, to either replica, late enough for the route's
lifetime, however long the store took to take it and to give it; and nothing that was asked before decisions were
dropped answers a caller who came later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from common.state.memory import MemoryState
from common.state.ports import Decision, DecisionKey, State, StateUnavailable
from dataplane.access.breaker import Breaker
from dataplane.access.client import AccessClient, AccessTransportError
from dataplane.access.protocol import AccessDecision
from dataplane.access.shared import SharedDecisions
from dataplane.errors import GatewayError
from dataplane.metrics import GatewayMetrics
from tests.support.access_transport import ALLOW, DENY, Asked, ManualClock, RecordedLog, Recorder, route

# Paths to a mistake are long: what cuts them short, or has nothing to do with them, is drawn less often.
SUBJECTS = ("a", "a", "a", "b")
RARELY = st.sampled_from([False, False, False, False, True])
TTLS_MS = (0, 1_000, 3_000, 3_000)


class SlowStore:
    """A store whose operations happen and are answered when the machine says so, in any order: each way takes as long
    as it likes.
    """

    shared = True

    def __init__(self, clock: ManualClock) -> None:
        self._state = MemoryState(self.now_ms)
        self._clock = clock
        self.asked: list[tuple[asyncio.Future[Any], Callable[[], Coroutine[Any, Any, Any]]]] = []
        self.done: list[tuple[asyncio.Future[Any], Any]] = []

    def now_ms(self) -> int:
        return int(self._clock() * 1000)

    async def read_decision(self, key: DecisionKey) -> Decision | None:
        found: Decision | None = await self._later(lambda: self._state.read_decision(key))
        return found

    async def write_decision(self, key: DecisionKey, **values: Any) -> None:
        await self._later(lambda: self._state.write_decision(key, **values))

    async def _later(self, operation: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.asked.append((future, operation))
        return await future

    async def happen(self, place: int) -> None:
        """An operation that was given up happens all the same."""
        future, operation = self.asked.pop(place)
        self.done.append((future, await operation()))

    def answer(self, place: int, *, fails: bool) -> None:
        """Or it is said to have failed, though it happened."""
        future, result = self.done.pop(place)
        if not future.done():
            if fails:
                future.set_exception(StateUnavailable("away"))
            else:
                future.set_result(result)


@dataclass
class Replica:
    """A client of its own, with what it asked, and when decisions were dropped for it last."""

    client: AccessClient
    transport: Recorder
    dropped_at: float = -1.0
    asked_at_drop: int = 0


@dataclass
class Waiting:
    """One caller, and what was known when it came."""

    task: asyncio.Task[AccessDecision]
    replica: Replica
    subject: str
    ttl_ms: int
    grace_ms: int
    fresh: bool
    at: float
    asked_before: int
    dropped_at: float
    asked_at_drop: int


class ReplicasMachine(RuleBasedStateMachine):
    @initialize(failures=st.integers(0, 2))
    def begin(self, failures: int) -> None:
        self.runner = asyncio.Runner()
        self.clock = ManualClock(0.0)
        self.store = SlowStore(self.clock)
        self.waiting: list[Waiting] = []
        self.replicas = []
        for _ in range(2):
            transport = Recorder(self.clock)
            client = AccessClient(
                transport,
                url="http://access",
                timeout_s=1_000_000,
                cache_max=10,
                breaker=Breaker(failures, 2.0),
                metrics=GatewayMetrics(),
                log=RecordedLog(),  # type: ignore[arg-type]
                shared=SharedDecisions(cast(State, self.store), self.clock),
                clock=self.clock,
            )
            self.replicas.append(Replica(client, transport))

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.run(self.finish())
            self.runner.close()

    async def finish(self) -> None:
        for waiting in self.waiting:
            waiting.task.cancel()
        await self.settle()
        for replica in self.replicas:
            assert not replica.transport.open_calls(), "a call outlived everyone who waited for it"
            await replica.client.close()

    async def settle(self) -> None:
        for _ in range(12):
            await asyncio.sleep(0)

    def check(self) -> None:
        """Let everything that can move move, and judge who got an answer."""
        self.runner.run(self.settle())
        for waiting in [waiting for waiting in self.waiting if waiting.task.done()]:
            self.waiting.remove(waiting)
            self.judge(waiting)

    def judge(self, waiting: Waiting) -> None:
        error = waiting.task.exception()
        if error is not None:
            assert isinstance(error, GatewayError)
            assert error.code == "access_unavailable"
            return
        decision = waiting.task.result()
        own = waiting.replica.transport
        answered = [
            (replica, call)
            for replica in self.replicas
            for call in replica.transport.about(waiting.subject)
            if call.allow is decision.allow and self.after_drop(waiting, replica, call)
        ]
        assert answered, "nobody decided this since decisions were dropped"
        if waiting.fresh:
            assert [
                call for replica, call in answered if replica.transport is own and call.order >= waiting.asked_before
            ]
        elif waiting.ttl_ms == 0 and not decision.stale:
            assert [call for replica, call in answered if replica.transport is own]
        if decision.allow:
            self.judge_allow(waiting, decision, [call for _, call in answered])

    def judge_allow(self, waiting: Waiting, decision: AccessDecision, allows: list[Asked]) -> None:
        now = self.clock.now
        if decision.stale:
            assert not waiting.fresh
            assert waiting.grace_ms > 0
            life_s = (waiting.ttl_ms + waiting.grace_ms) / 1000
            within = [call for call in allows if now - call.at < life_s]
            assert within, "no allow was given within lifetime and grace"
            newest = max(call.at for call in within)
            own = waiting.replica.transport.about(waiting.subject)
            assert not [call for call in own if call.allow is False and call.at > newest], "a denial came after it"
        elif not waiting.fresh and waiting.ttl_ms:
            assert [call for call in allows if call.at > waiting.at - waiting.ttl_ms / 1000], "it is too old"

    def after_drop(self, waiting: Waiting, replica: Replica, call: Asked) -> bool:
        if replica is waiting.replica:
            return call.order >= waiting.asked_at_drop
        return call.at > waiting.dropped_at

    @rule(
        number=st.sampled_from([0, 1]),
        subject=st.sampled_from(SUBJECTS),
        ttl_ms=st.sampled_from(TTLS_MS),
        grace_ms=st.sampled_from([0, 2_000]),
        fresh=RARELY,
    )
    def call(self, number: int, subject: str, ttl_ms: int, grace_ms: int, fresh: bool) -> None:
        where, replica = route("app", ttl_ms=ttl_ms, grace_ms=grace_ms), self.replicas[number]

        async def start() -> Waiting:
            task = asyncio.ensure_future(replica.client.decide(subject, None, where, (), fresh=fresh))
            return Waiting(
                task, replica, subject, ttl_ms, grace_ms, fresh, self.clock.now, len(replica.transport.asked),
                replica.dropped_at, replica.asked_at_drop,
            )  # fmt: skip

        self.waiting.append(self.runner.run(start()))
        self.check()

    @precondition(lambda self: any(replica.transport.open_calls() for replica in self.replicas))
    @rule(data=st.data(), outcome=st.sampled_from(["allow", "allow", "deny", "fail"]))
    def answer(self, data: st.DataObject, outcome: str) -> None:
        calls = [call for replica in self.replicas for call in replica.transport.open_calls()]
        call = data.draw(st.sampled_from(calls))
        if outcome == "fail":
            call.answer.set_exception(AccessTransportError("reset", "closed"))
        else:
            call.allow = outcome == "allow"
            call.answer.set_result((200, ALLOW if call.allow else DENY))
        self.check()

    @precondition(lambda self: self.store.asked)
    @rule(data=st.data(), at_once=st.booleans())
    def store_works(self, data: st.DataObject, at_once: bool) -> None:
        place = data.draw(st.integers(0, len(self.store.asked) - 1))
        self.runner.run(self.store.happen(place))
        if at_once:
            self.store.answer(-1, fails=False)
        self.check()

    @precondition(lambda self: self.store.asked)
    @rule()
    def store_works_on(self) -> None:
        while self.store.asked:
            self.runner.run(self.store.happen(0))
            self.store.answer(-1, fails=False)
            self.check()

    @precondition(lambda self: self.store.done)
    @rule(data=st.data(), fails=st.booleans())
    def store_answers(self, data: st.DataObject, fails: bool) -> None:
        self.store.answer(data.draw(st.integers(0, len(self.store.done) - 1)), fails=fails)
        self.check()

    @rule(number=st.sampled_from([0, 1]), now=RARELY)
    def drop(self, number: int, now: bool) -> None:
        if not now:
            return
        replica = self.replicas[number]
        replica.client.forget()
        replica.dropped_at, replica.asked_at_drop = self.clock.now, len(replica.transport.asked)
        self.check()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), now=RARELY)
    def leave(self, data: st.DataObject, now: bool) -> None:
        if not now:
            return
        waiting = data.draw(st.sampled_from(self.waiting))
        self.waiting.remove(waiting)
        waiting.task.cancel()
        self.check()
        assert waiting.task.cancelled()

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.0]))
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.check()


TestReplicas = ReplicasMachine.TestCase
TestReplicas.settings = settings(max_examples=200, stateful_step_count=50)
