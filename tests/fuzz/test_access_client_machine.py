"""The client under any interleaving of callers, answers, outages, cancellations and time.

What must hold: a decision is one that Access gave to this very question, asked late enough for the route's lifetime;
a stale one is an allow within lifetime and grace with no denial after it; a fresh one was asked for by this caller.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from dataplane.access.breaker import Breaker
from dataplane.access.client import AccessClient, AccessTransportError
from dataplane.access.protocol import AccessDecision
from dataplane.errors import GatewayError
from dataplane.metrics import GatewayMetrics
from tests.support.access_transport import ALLOW, DENY, ManualClock, RecordedLog, Recorder, route

SUBJECTS = ("a", "b")


@dataclass
class Waiting:
    """One caller: what it asked for and when."""

    task: asyncio.Task[AccessDecision]
    subject: str
    ttl_ms: int
    grace_ms: int
    fresh: bool
    at: float
    asked_before: int


class ClientMachine(RuleBasedStateMachine):
    @initialize(failures=st.integers(0, 3), cache_max=st.sampled_from([0, 1, 10]))
    def begin(self, failures: int, cache_max: int) -> None:
        self.runner = asyncio.Runner()
        self.clock = ManualClock(0.0)
        self.transport = Recorder(self.clock)
        self.metrics = GatewayMetrics()
        self.waiting: list[Waiting] = []
        self.client = AccessClient(
            self.transport,
            url="http://access",
            timeout_s=1_000_000,
            cache_max=cache_max,
            breaker=Breaker(failures, 2.0),
            metrics=self.metrics,
            log=RecordedLog(),  # type: ignore[arg-type]
            clock=self.clock,
        )

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.run(self.finish())
            self.runner.close()

    async def finish(self) -> None:
        for waiting in self.waiting:
            waiting.task.cancel()
        await self.settle()
        assert not self.transport.open_calls(), "a call outlived everyone who waited for it"
        await self.client.close()

    async def settle(self) -> None:
        for _ in range(8):
            await asyncio.sleep(0)

    def check(self) -> None:
        """Let everything that can move move, and judge who got an answer."""
        self.runner.run(self.settle())
        for waiting in [waiting for waiting in self.waiting if waiting.task.done()]:
            self.waiting.remove(waiting)
            self.judge(waiting)

    def judge(self, waiting: Waiting) -> None:
        now = self.clock.now
        answered = [call for call in self.transport.about(waiting.subject) if call.allow is not None]
        error = waiting.task.exception()
        if error is not None:
            assert isinstance(error, GatewayError)
            assert error.code == "access_unavailable"
            return
        decision = waiting.task.result()
        if decision.stale:
            assert decision.allow
            assert not waiting.fresh
            assert waiting.grace_ms > 0
            life_s = (waiting.ttl_ms + waiting.grace_ms) / 1000
            allows = [call for call in answered if call.allow and now - call.at < life_s]
            assert allows, "no allow was given within lifetime and grace"
            newest = max(call.order for call in allows)
            assert not [call for call in answered if not call.allow and call.order > newest], "a denial came after it"
            return
        if waiting.fresh or waiting.ttl_ms == 0:
            late_enough = [call for call in answered if call.order >= waiting.asked_before]
        else:
            late_enough = [call for call in answered if call.at > waiting.at - waiting.ttl_ms / 1000]
        assert [call for call in late_enough if call.allow is decision.allow], "nobody decided this late enough"

    @rule(
        subject=st.sampled_from(SUBJECTS),
        ttl_ms=st.sampled_from([0, 1_000, 3_000]),
        grace_ms=st.sampled_from([0, 2_000]),
        fresh=st.booleans(),
    )
    def call(self, subject: str, ttl_ms: int, grace_ms: int, fresh: bool) -> None:
        where = route("app", ttl_ms=ttl_ms, grace_ms=grace_ms)

        async def start() -> Waiting:
            task = asyncio.ensure_future(self.client.decide(subject, None, where, (), fresh=fresh))
            return Waiting(task, subject, ttl_ms, grace_ms, fresh, self.clock.now, len(self.transport.asked))

        self.waiting.append(self.runner.run(start()))
        self.check()

    @precondition(lambda self: self.transport.open_calls())
    @rule(data=st.data(), allow=st.booleans())
    def answer(self, data: st.DataObject, allow: bool) -> None:
        call = data.draw(st.sampled_from(self.transport.open_calls()))
        call.allow = allow
        call.answered_at = self.clock.now
        call.answer.set_result((200, ALLOW if allow else DENY))
        self.check()

    @precondition(lambda self: self.transport.open_calls())
    @rule(data=st.data(), status=st.sampled_from([0, 204, 400, 500]))
    def fail(self, data: st.DataObject, status: int) -> None:
        call = data.draw(st.sampled_from(self.transport.open_calls()))
        if status == 0:
            call.answer.set_exception(AccessTransportError("reset", "closed"))
        else:
            call.answer.set_result((status, ALLOW))
        self.check()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        waiting = data.draw(st.sampled_from(self.waiting))
        self.waiting.remove(waiting)
        waiting.task.cancel()
        self.check()
        assert waiting.task.cancelled()

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.0, 5.0]))
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.check()


TestClient = ClientMachine.TestCase
TestClient.settings = settings(max_examples=150, stateful_step_count=40)
