"""Any order of operations on the shared state gives what a plain model of the contract gives."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from common.state.administration import HANDLE_LENGTH
from common.state.ports import ControlState, Decision, NewSession, Session
from tests.support.state_backends import Backend
from tests.support.state_values import decision_key, entry

HASHES = [each * HANDLE_LENGTH for each in "abcdef"]
IDS = st.sampled_from(HASHES)
SUBJECTS = st.sampled_from(["alice", "bob"])
SPANS = st.integers(1, 20)


@dataclass
class ModelSession:
    subject: str
    created: int
    idle_until: int
    until: int


@dataclass
class Model:
    """The contract in a few lines: lists, and no care for speed or memory."""

    now: int = 0
    entries: int = 0
    sessions: dict[str, ModelSession] = field(default_factory=dict)
    decisions: dict[bytes, tuple[bool, int, int]] = field(default_factory=dict)

    def live(self) -> dict[str, ModelSession]:
        return {each: s for each, s in self.sessions.items() if self.now < min(s.idle_until, s.until)}

    def create(self, id_hash: str, subject: str, idle: int, age: int, limit: int) -> bool:
        live = self.live()
        if id_hash in live:
            return False
        # Of sessions created in the same millisecond the first is the older one; a dictionary keeps that order.
        own = sorted((s.created, order, each) for order, (each, s) in enumerate(live.items()) if s.subject == subject)
        for _, _, each in own[: max(len(own) - limit + 1, 0)] if limit else ():
            del live[each]
        live[id_hash] = ModelSession(subject, self.now, self.now + min(idle, age), self.now + age)
        self.sessions = live
        return True


class StateMachine(RuleBasedStateMachine):
    backend: Backend

    @initialize()
    def start(self) -> None:
        self.runner = asyncio.Runner()
        self.time = self.backend.fresh()
        self.state: ControlState = self.backend.open(self.time)
        self.runner.run(self.state.start())
        self.model = Model(self.time.now_ms())

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.run(self.state.close())
            self.runner.close()

    @rule(seconds=SPANS)
    def pass_time(self, seconds: int) -> None:
        self.time.pass_s(seconds)
        self.model.now = self.time.now_ms()

    @rule(id_hash=IDS, subject=SUBJECTS, idle=SPANS, age=SPANS, limit=st.integers(0, 6))
    def create(self, id_hash: str, subject: str, idle: int, age: int, limit: int) -> None:
        new = NewSession(id_hash, subject, "", (), idle * 1000, age * 1000, limit)
        if self.model.create(id_hash, subject, idle * 1000, age * 1000, limit):
            created = self.runner.run(self.state.create_session(new))
            assert (created.id_hash, created.subject) == (id_hash, subject)
        else:
            with pytest.raises(ValueError):
                self.runner.run(self.state.create_session(new))

    @rule(id_hash=IDS, idle=SPANS)
    def touch(self, id_hash: str, idle: int) -> None:
        touched = self.runner.run(self.state.touch_session(id_hash, idle * 1000))
        modelled = self.model.live().get(id_hash)
        assert (touched is None) == (modelled is None)
        if modelled is not None:
            modelled.idle_until = min(self.model.now + idle * 1000, modelled.until)

    @rule(id_hash=IDS)
    def delete(self, id_hash: str) -> None:
        assert self.runner.run(self.state.delete_session(id_hash)) == (id_hash in self.model.live())
        self.model.sessions.pop(id_hash, None)

    @rule(subject=SUBJECTS)
    def delete_subject(self, subject: str) -> None:
        own = [each for each, s in self.model.live().items() if s.subject == subject]
        assert self.runner.run(self.state.delete_subject_sessions(subject)) == len(own)
        for each in own:
            del self.model.sessions[each]

    @rule(subject=SUBJECTS)
    def revoke_subject(self, subject: str) -> None:
        own = [each for each, s in self.model.live().items() if s.subject == subject]
        assert self.runner.run(self.state.revoke_subject_sessions(subject, entry())) == len(own)
        for each in own:
            del self.model.sessions[each]
        self.model.entries += 1

    @rule(id_hash=IDS)
    def revoke(self, id_hash: str) -> None:
        is_live = id_hash in self.model.live()
        assert self.runner.run(self.state.revoke_session(id_hash, entry())).matching == is_live
        self.model.sessions.pop(id_hash, None)
        self.model.entries += is_live

    @rule(key=st.sampled_from([b"k", b"l"]), allow=st.booleans(), ago=st.integers(-1, 3), keep=SPANS)
    def write_decision(self, key: bytes, allow: bool, ago: int, keep: int) -> None:
        now = self.model.now
        self.runner.run(
            self.state.write_decision(
                decision_key(key), allow=allow, reason_code="r", asked_at_ms=now - ago * 1000, keep_ms=keep * 1000
            )
        )
        asked = min(now - ago * 1000, now)
        before, asked_before, gone = self.model.decisions.get(key, (True, 0, 0))
        if now >= gone or (asked_before, not before) < (asked, not allow) or (asked_before == asked and before):
            self.model.decisions[key] = (allow, asked, asked + keep * 1000)

    async def read_decision(self, key: bytes) -> Decision | None:
        return await self.state.read_decision(decision_key(key))

    async def listed(self, subject: str | None) -> list[str]:
        found: list[str] = []
        after = None
        while True:
            page = await self.state.list_sessions(subject, after, 2)
            found += [each.id_hash for each in page.sessions]
            after = page.next_after
            if after is None:
                return found

    async def read_session(self, id_hash: str) -> Session | None:
        return await self.state.read_session(id_hash)

    @invariant()
    def agrees_with_the_model(self) -> None:
        if not hasattr(self, "model"):
            return
        live = self.model.live()
        for id_hash in HASHES:
            found = self.runner.run(self.read_session(id_hash))
            modelled = live.get(id_hash)
            assert (found is None) == (modelled is None), id_hash
            if found is not None and modelled is not None:
                assert found.subject == modelled.subject
                assert (found.created_at_ms, found.idle_expires_at_ms, found.expires_at_ms) == (
                    modelled.created,
                    modelled.idle_until,
                    modelled.until,
                )
        for subject in (None, "alice", "bob"):
            listed = [each for each, s in live.items() if subject in (None, s.subject)]
            assert self.runner.run(self.listed(subject)) == sorted(listed)
        assert len(self.runner.run(self.state.list_audit(None, 1_000)).entries) == self.model.entries
        for key in (b"k", b"l"):
            decision = self.runner.run(self.read_decision(key))
            allow, at, gone = self.model.decisions.get(key, (False, 0, 0))
            assert (decision is None) == (self.model.now >= gone)
            if decision is not None:
                assert (decision.allow, decision.age_ms) == (allow, self.model.now - at)


def test_any_order_of_operations_agrees_with_the_model(backend: Backend) -> None:
    case: Any = type("Machine", (StateMachine,), {"backend": backend}).TestCase  # type: ignore[attr-defined]
    examples = 80 if backend.name == "memory" else 10
    case.settings = settings(settings.default, max_examples=examples, stateful_step_count=40)
    case("runTest").debug()
