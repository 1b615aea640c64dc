"""Breaker, keys and answers of Access against plain models, for any sequence of events."""

from __future__ import annotations

import json

from hypothesis import given, note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dataplane.access.breaker import Breaker
from dataplane.access.keys import decision_key, service_digest
from dataplane.access.protocol import AccessDecision, AccessFailure, parse_decision, question

text = st.text(max_size=40)
parts = st.tuples(text, st.none() | text, text, st.lists(text, max_size=4).map(tuple))


@given(parts, parts, st.booleans())
def test_two_questions_have_one_key_only_when_they_are_the_same(
    one: tuple[str, str | None, str, tuple[str, ...]], other: tuple[str, str | None, str, tuple[str, ...]], pad: bool
) -> None:
    if pad:  # beyond the length at which a key becomes a digest
        one = ("x" * 300 + one[0], *one[1:])
        other = ("x" * 300 + other[0], *other[1:])
    service = service_digest("http://access")
    assert (decision_key(service, question(*one)) == decision_key(service, question(*other))) == (one == other)


@given(st.text(min_size=1), st.text(min_size=1), parts)
def test_a_key_belongs_to_one_service(
    one: str, other: str, asked: tuple[str, str | None, str, tuple[str, ...]]
) -> None:
    keys = [decision_key(service_digest(url), question(*asked)) for url in (one, other)]
    assert (keys[0] == keys[1]) == (one == other)


@given(parts)
def test_parts_moved_over_their_border_make_another_key(
    asked: tuple[str, str | None, str, tuple[str, ...]],
) -> None:
    subject, workspace_id, route_id, roles = asked
    service = service_digest("http://access")
    key = decision_key(service, question(*asked))
    moved = [
        (subject + (workspace_id or ""), "", route_id, roles),
        (subject, None if workspace_id is not None else "", route_id, roles),
        (subject, workspace_id, route_id, (*roles, "")),
        (f'{subject}","workspaceId":"', workspace_id, route_id, roles),
        (subject, workspace_id, route_id, (",".join(roles),) if len(roles) > 1 else (*roles, "x")),
    ]
    for other in moved:
        if other != asked:
            assert decision_key(service, question(*other)) != key


@given(parts, st.integers(0, 20_000))
def test_a_key_is_small_however_much_a_caller_brings(
    asked: tuple[str, str | None, str, tuple[str, ...]], more: int
) -> None:
    subject, *rest = asked
    assert len(decision_key(service_digest("http://a"), question(subject + "x" * more, *rest))) <= 272


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("allow"), inner),
    max_leaves=8,
)


@given(st.integers(100, 599), json_values.map(lambda value: json.dumps(value).encode()) | st.binary())
def test_only_a_200_with_a_boolean_decides_whatever_comes(status: int, body: bytes) -> None:
    outcome = parse_decision(status, body)
    if isinstance(outcome, AccessDecision):
        note(repr(body))
        assert status == 200
        assert json.loads(body)["allow"] is outcome.allow
    else:
        assert isinstance(outcome, AccessFailure)
        assert outcome.rejected == (status == 400)


@given(st.booleans(), st.dictionaries(st.text().filter(lambda name: name != "allow"), json_values))
def test_fields_that_are_not_known_change_no_decision(allow: bool, more: dict[str, object]) -> None:
    outcome = parse_decision(200, json.dumps({**more, "allow": allow}).encode())
    assert isinstance(outcome, AccessDecision)
    assert outcome.allow is allow


class BreakerMachine(RuleBasedStateMachine):
    """The breaker against its rules, with calls that overlap, finish late or never report."""

    @initialize(limit=st.integers(0, 4), cooldown=st.sampled_from([0.0, 1.0, 5.0]))
    def begin(self, limit: int, cooldown: float) -> None:
        self.breaker = Breaker(limit, cooldown)
        self.limit = limit
        self.cooldown = cooldown
        self.now = 0.0
        self.row = 0
        self.opened_at: float | None = None
        self.probe: int | None = None
        self.era = 0
        self.running: list[tuple[int, int, bool]] = []  # ticket, era of its admission, whether it is the probe

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 4.0]))
    def advance(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def admit(self) -> None:
        ticket = self.breaker.admit(self.now)
        if self.opened_at is None:
            assert ticket is not None
            self.running.append((ticket, self.era, False))
        elif self.probe is not None or self.now < self.opened_at + self.cooldown:
            assert ticket is None
        else:
            assert ticket is not None, "after the cooldown, with no probe out, one call must be admitted"
            self.era += 1
            self.probe = ticket
            self.running.append((ticket, self.era, True))

    def finish(self, data: st.DataObject) -> tuple[int, bool, bool]:
        at = data.draw(st.integers(0, len(self.running) - 1))
        ticket, era, probe = self.running.pop(at)
        return ticket, era == self.era, probe

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def succeed(self, data: st.DataObject) -> None:
        ticket, speaks, _ = self.finish(data)
        self.breaker.succeeded(ticket)
        if speaks:
            self.row = 0
            self.opened_at = None
            self.probe = None

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        ticket, speaks, probe = self.finish(data)
        self.breaker.failed(ticket, self.now)
        if speaks and self.limit:
            self.row += 1
            if (probe and self.probe is not None) or self.row >= self.limit:
                self.row = 0
                self.opened_at = self.now
                self.probe = None
                self.era += 1

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        ticket, speaks, probe = self.finish(data)
        self.breaker.released(ticket)
        if speaks and probe:
            self.probe = None

    @invariant()
    def it_is_open_exactly_when_the_rules_say(self) -> None:
        if hasattr(self, "breaker"):
            assert self.breaker.open == (self.opened_at is not None)
            if self.limit == 0:
                assert not self.breaker.open


TestBreaker = BreakerMachine.TestCase
