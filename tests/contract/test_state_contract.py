"""The contract of the shared state, one suite for every backend (`common.state.ports`, CONTRACT §12.5.1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from common.state.ports import ControlState, NewSession, Session, State
from tests.support.auth_harness import Time
from tests.support.state_backends import Backend
from tests.support.state_values import decision_key


@pytest.fixture
def time(backend: Backend) -> Time:
    return backend.fresh()


@pytest.fixture
async def state(backend: Backend, time: Time) -> AsyncIterator[ControlState]:
    state = backend.open(time)
    await state.start()
    yield state
    await state.close()


def new(id_hash: str = "a", subject: str = "alice", **changes: int) -> NewSession:
    values = {"idle_ms": 10_000, "max_age_ms": 60_000, "max_per_subject": 0, **changes}
    return NewSession(id_hash, subject, f"{subject}@example.test", ("reader", "writer"), **values)


async def live(state: State, *hashes: str) -> list[str]:
    return [each for each in hashes if await state.read_session(each) is not None]


async def test_a_session_is_read_as_it_was_created(state: State, time: Time) -> None:
    created = await state.create_session(new())
    now = time.now_ms()
    assert created == Session(
        "a", "alice", "alice@example.test", ("reader", "writer"), now, now, now + 10_000, now + 60_000
    )
    assert await state.read_session("a") == created


async def test_a_session_that_never_was_is_none(state: State) -> None:
    assert await state.read_session("nobody") is None
    assert await state.touch_session("nobody", 10_000) is None
    assert await state.delete_session("nobody") is False


async def test_an_id_is_never_given_twice(state: State, time: Time) -> None:
    created = await state.create_session(new())
    time.pass_s(1)
    with pytest.raises(ValueError):
        await state.create_session(new(subject="mallory"))
    assert await state.read_session("a") == created
    assert await state.delete_subject_sessions("mallory") == 0


async def test_the_id_of_a_session_that_is_over_is_free(state: State, time: Time) -> None:
    for id_hash in "abcdef":
        await state.create_session(new(id_hash))
    time.pass_s(10)
    created = await state.create_session(new("f", "bob"))
    assert await state.read_session("f") == created
    assert await state.delete_subject_sessions("bob") == 1


async def test_a_refused_id_ends_no_other_session_of_the_subject(state: State) -> None:
    await state.create_session(new("a"))
    await state.create_session(new("b"))
    with pytest.raises(ValueError):
        await state.create_session(new("b", max_per_subject=1))
    assert await live(state, "a", "b") == ["a", "b"]


@pytest.mark.parametrize(("left_ms", "lives"), [(1, True), (0, False), (-1, False)])
async def test_a_session_that_is_not_used_ends_at_its_idle_time(
    state: State, time: Time, left_ms: int, lives: bool
) -> None:
    await state.create_session(new())
    time.pass_s((10_000 - left_ms) / 1000)
    assert (await state.read_session("a") is not None) == lives
    assert (await state.touch_session("a", 10_000) is not None) == lives


async def test_use_extends_the_idle_time_and_never_the_maximum_age(state: State, time: Time) -> None:
    created = await state.create_session(new())
    for _ in range(6):
        time.pass_s(9)
        touched = await state.touch_session("a", 10_000)
        assert touched is not None
        assert touched.touched_at_ms == time.now_ms()
        assert touched.idle_expires_at_ms == min(time.now_ms() + 10_000, created.expires_at_ms)
        assert touched.expires_at_ms == created.expires_at_ms
    time.pass_s(6)
    assert await state.read_session("a") is None
    assert await state.touch_session("a", 10_000) is None


async def test_a_touch_takes_the_idle_time_that_it_is_given(state: State, time: Time) -> None:
    await state.create_session(new())
    touched = await state.touch_session("a", 20_000)
    assert touched is not None
    assert touched.idle_expires_at_ms == time.now_ms() + 20_000
    assert await state.read_session("a") == touched


async def test_an_idle_time_beyond_the_maximum_age_counts_as_that(state: State) -> None:
    created = await state.create_session(new(idle_ms=90_000))
    assert created.idle_expires_at_ms == created.expires_at_ms


async def test_a_deleted_session_is_gone_at_once(state: State) -> None:
    await state.create_session(new("a"))
    await state.create_session(new("b"))
    assert await state.delete_session("a") is True
    assert await state.delete_session("a") is False
    assert await live(state, "a", "b") == ["b"]


async def test_an_expired_session_was_not_there_to_delete(state: State, time: Time) -> None:
    await state.create_session(new("a"))
    await state.create_session(new("b"))
    time.pass_s(10)
    assert await state.delete_session("a") is False
    assert await state.delete_subject_sessions("alice") == 0


async def test_deleting_a_subject_ends_its_sessions_and_nobody_elses(state: State) -> None:
    for id_hash, subject in (("a", "alice"), ("b", "bob"), ("c", "alice")):
        await state.create_session(new(id_hash, subject))
    assert await state.delete_subject_sessions("alice") == 2
    assert await live(state, "a", "b", "c") == ["b"]
    assert await state.delete_subject_sessions("alice") == 0


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 9])
async def test_of_a_subjects_sessions_the_oldest_go(state: State, time: Time, limit: int) -> None:
    for id_hash in "abcd":
        await state.create_session(new(id_hash, max_per_subject=limit))
        await state.create_session(new(f"bob-{id_hash}", "bob"))
        time.pass_s(1)
    assert await live(state, *"abcd") == list("abcd")[-limit:]
    assert len(await live(state, *(f"bob-{each}" for each in "abcd"))) == 4


async def test_an_expired_session_takes_no_place_among_a_subjects(state: State, time: Time) -> None:
    await state.create_session(new("a", idle_ms=60_000))
    await state.create_session(new("b", idle_ms=1_000))
    time.pass_s(2)
    await state.create_session(new("c", max_per_subject=2))
    assert await live(state, *"abc") == ["a", "c"]


async def test_use_does_not_make_a_session_younger(state: State, time: Time) -> None:
    await state.create_session(new("a"))
    time.pass_s(1)
    await state.create_session(new("b"))
    await state.touch_session("a", 10_000)
    await state.create_session(new("c", max_per_subject=2))
    assert await live(state, *"abc") == ["b", "c"]


async def write(state: State, time: Time, *, allow: bool, asked_ms_ago: int = 0, keep_ms: int = 5_000) -> None:
    await state.write_decision(
        decision_key(b"k"),
        allow=allow,
        reason_code="" if allow else "missing_role",
        asked_at_ms=time.now_ms() - asked_ms_ago,
        keep_ms=keep_ms,
    )


async def test_a_decision_is_read_as_it_was_written_until_its_time_is_over(state: State, time: Time) -> None:
    assert await state.read_decision(decision_key(b"k")) is None
    await write(state, time, allow=True)
    time.pass_s(4.999)
    found = await state.read_decision(decision_key(b"k"))
    assert found is not None
    assert (found.allow, found.reason_code, found.age_ms) == (True, "", 4_999)
    time.pass_s(0.001)
    assert await state.read_decision(decision_key(b"k")) is None


async def test_a_newer_decision_replaces_the_older_one(state: State, time: Time) -> None:
    await write(state, time, allow=True, keep_ms=1_000)
    time.pass_s(0.5)
    await write(state, time, allow=False)
    time.pass_s(1)
    found = await state.read_decision(decision_key(b"k"))
    assert found is not None
    assert (found.allow, found.reason_code) == (False, "missing_role")
    assert await state.read_decision(decision_key(b"K")) is None


async def test_a_decision_ages_from_its_question_however_late_it_is_written(state: State, time: Time) -> None:
    """A write that waited in a server that stood still must not make an old decision young."""
    await write(state, time, allow=True, asked_ms_ago=3_000)
    found = await state.read_decision(decision_key(b"k"))
    assert found is not None
    assert found.age_ms == 3_000
    time.pass_s(2)
    assert await state.read_decision(decision_key(b"k")) is None
    await write(state, time, allow=True, asked_ms_ago=6_000)
    assert await state.read_decision(decision_key(b"k")) is None


async def test_a_question_from_ahead_of_the_clock_counts_as_asked_now(state: State, time: Time) -> None:
    await write(state, time, allow=True, asked_ms_ago=-60_000)
    found = await state.read_decision(decision_key(b"k"))
    assert found is not None
    assert found.age_ms == 0
    time.pass_s(5)
    assert await state.read_decision(decision_key(b"k")) is None


@pytest.mark.parametrize(
    ("first", "second", "stands"),
    [
        ((True, 0), (False, 1), True),
        ((False, 0), (True, 1), False),
        ((True, 1), (False, 0), False),
        ((False, 1), (True, 0), True),
        ((True, 1), (False, 1), False),
        ((False, 1), (True, 1), False),
    ],
)
async def test_the_later_question_decides_whichever_is_written_first(
    state: State, time: Time, first: tuple[bool, int], second: tuple[bool, int], stands: bool
) -> None:
    for allow, asked_ms_ago in (first, second):
        await write(state, time, allow=allow, asked_ms_ago=asked_ms_ago)
    found = await state.read_decision(decision_key(b"k"))
    assert found is not None
    assert found.allow == stands


async def test_a_denial_that_is_over_ends_the_allow_before_it(state: State, time: Time) -> None:
    await write(state, time, allow=True, asked_ms_ago=100, keep_ms=60_000)
    await write(state, time, allow=False, keep_ms=0)
    assert await state.read_decision(decision_key(b"k")) is None


async def test_a_decision_from_the_future_counts_as_absent_and_is_replaced(state: State, time: Time) -> None:
    """The server's clock was set back: how old the decision is, nobody can tell."""
    await write(state, time, allow=True, keep_ms=60_000)
    time.pass_s(-10)
    assert await state.read_decision(decision_key(b"k")) is None
    await write(state, time, allow=False)
    found = await state.read_decision(decision_key(b"k"))
    assert found is not None
    assert not found.allow


async def test_decisions_that_are_read_together_are_each_their_own(state: State, time: Time) -> None:
    for number in range(0, 200, 2):
        await state.write_decision(
            decision_key(b"%d" % number),
            allow=number % 4 == 0,
            reason_code="",
            asked_at_ms=time.now_ms(),
            keep_ms=60_000,
        )
    wanted = [*range(200), 4, 4]
    found = await asyncio.gather(*(state.read_decision(decision_key(b"%d" % number)) for number in wanted))
    told = [None if each is None else each.allow for each in found]
    assert told == [None if number % 2 else number % 4 == 0 for number in wanted]


async def test_the_state_says_what_it_is_and_what_time_it_has(state: State, time: Time) -> None:
    assert state.backend in {"memory", "redis", "postgres"}
    assert state.up
    await state.create_session(new())
    assert state.now_ms() == time.now_ms()
