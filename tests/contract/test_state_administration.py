"""What operators do to sessions and decisions, on every backend (`common.state.administration`, CONTRACT §12.7)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator

import pytest

from common.state.administration import AUTH_FAILURES_MAX, HandleRevocation, SessionPage
from common.state.ports import ControlState, StateUnavailable
from tests.support.auth_harness import Time
from tests.support.state_backends import Backend
from tests.support.state_values import decision_key, entry, hashed, keep_decision, session


@pytest.fixture
def time(backend: Backend) -> Time:
    return backend.fresh()


@pytest.fixture
async def state(backend: Backend, time: Time) -> AsyncIterator[ControlState]:
    state = backend.open(time)
    await state.start()
    yield state
    await state.close()


async def listed(state: ControlState, limit: int, subject: str | None = None) -> list[str]:
    """All hashes, page by page."""
    found: list[str] = []
    after = None
    while True:
        page = await state.list_sessions(subject, after, limit)
        assert len(page.sessions) <= limit
        found += [each.id_hash for each in page.sessions]
        after = page.next_after
        if after is None:
            return found


async def recorded(state: ControlState) -> list[tuple[str, str]]:
    """Action and target of each entry, newest first."""
    return [(each.action, each.target) for each in (await state.list_audit(None, 100)).entries]


async def test_without_sessions_the_list_is_empty(state: ControlState) -> None:
    assert await state.list_sessions(None, None, 10) == SessionPage((), None)
    assert await state.list_sessions("alice", None, 10) == SessionPage((), None)


@pytest.mark.parametrize("limit", [1, 2, 6, 7, 8, 100])
async def test_sessions_are_listed_once_each_in_the_order_of_their_hashes(state: ControlState, limit: int) -> None:
    created = [await state.create_session(session(hashed(n), "alice" if n % 2 else "bob")) for n in range(7)]
    in_order = sorted(created, key=lambda each: each.id_hash)
    assert await listed(state, limit) == [each.id_hash for each in in_order]
    assert await listed(state, limit, "alice") == [each.id_hash for each in in_order if each.subject == "alice"]
    assert await listed(state, limit, "carol") == []
    first = await state.list_sessions(None, None, 7)
    assert first.sessions == tuple(in_order)
    assert first.next_after is None


async def test_the_order_is_that_of_bytes_whatever_language_the_server_speaks(state: ControlState) -> None:
    hashes = ["B", "a", "a-b", "aab", "ab", "a b", "é", "z"]
    for each in hashes:
        await state.create_session(session(each))
    assert await listed(state, 3) == sorted(hashes)
    assert await listed(state, 3, "alice") == sorted(hashes)


async def test_a_session_that_is_over_or_deleted_is_not_listed(state: ControlState, time: Time) -> None:
    for n in range(30):
        await state.create_session(session(hashed(n), idle_ms=60_000 if n % 10 == 0 else 5_000))
    time.pass_s(5)
    await state.delete_session(hashed(10))
    assert await listed(state, 4) == sorted([hashed(0), hashed(20)])
    assert await listed(state, 4, "alice") == sorted([hashed(0), hashed(20)])


async def test_many_that_are_over_are_passed_over_a_bounded_number_at_a_time(state: ControlState, time: Time) -> None:
    for n in range(40):
        await state.create_session(session(f"{n:02}", idle_ms=5_000))
    time.pass_s(1)
    await state.create_session(session("99", idle_ms=60_000))
    time.pass_s(4)
    calls, after = 0, None
    while True:
        page = await state.list_sessions(None, after, 5)
        calls += 1
        if page.next_after is None:
            break
        assert after is None or page.next_after > after
        after = page.next_after
    assert [each.id_hash for each in page.sessions] == ["99"]
    assert calls > 1


async def test_the_oldest_that_made_room_for_another_is_not_listed(state: ControlState, time: Time) -> None:
    for n in range(5):
        await state.create_session(session(hashed(n), most=2))
        time.pass_s(1)
    assert await listed(state, 10) == sorted([hashed(3), hashed(4)])


async def test_revoking_a_subject_ends_its_sessions_and_is_recorded(state: ControlState) -> None:
    for id_hash, subject in (("a", "alice"), ("b", "bob"), ("c", "alice")):
        await state.create_session(session(id_hash, subject))
    assert await state.revoke_subject_sessions("alice", entry()) == 2
    assert await listed(state, 10) == ["b"]
    assert await state.read_session("a") is None
    assert await recorded(state) == [("sessions.revoke", "alice")]
    # Nothing is left of them: the subject may log in again.
    await state.create_session(session("a"))
    assert await listed(state, 10, "alice") == ["a"]


async def test_revoking_a_subject_without_sessions_is_recorded_too(state: ControlState) -> None:
    assert await state.revoke_subject_sessions("nobody", entry(target="nobody")) == 0
    assert await recorded(state) == [("sessions.revoke", "nobody")]


async def test_a_handle_ends_the_one_session_that_bears_it(state: ControlState) -> None:
    for n in range(3):
        await state.create_session(session(hashed(n)))
    assert await state.revoke_session(hashed(1)[:16], entry(target="handle")) == HandleRevocation(1)
    assert await listed(state, 10) == sorted([hashed(0), hashed(2)])
    assert await state.delete_subject_sessions("alice") == 2
    assert await recorded(state) == [("sessions.revoke", "handle")]


async def test_a_handle_that_names_two_sessions_or_none_changes_and_records_nothing(
    state: ControlState, time: Time
) -> None:
    await state.create_session(session("0123456789abcdef" + "0" * 48))
    await state.create_session(session("0123456789abcdef" + "f" * 48))
    await state.create_session(session("00000000000000ff" + "f" * 48, idle_ms=1_000))
    time.pass_s(1)
    assert await state.revoke_session("0123456789abcdef", entry()) == HandleRevocation(2)
    # Unknown, over, too short, too long, and what would be a pattern somewhere.
    for unknown in (
        "fedcba9876543210",
        "00000000000000ff",
        "0123456789abcde",
        "0" * 64,
        "",
        "*" * 16,
        "%" * 16,
        "[" * 16,
    ):
        assert await state.revoke_session(unknown, entry()) == HandleRevocation(0), unknown
    assert len(await listed(state, 10)) == 2
    assert await recorded(state) == []
    await state.delete_session("0123456789abcdef" + "0" * 48)
    assert await state.revoke_session("0123456789abcdef", entry()) == HandleRevocation(1)


async def test_of_many_that_revoke_one_session_one_has_done_it(state: ControlState) -> None:
    await state.create_session(session(hashed(1)))
    handle = hashed(1)[:16]
    revocations = (state.revoke_session(handle, entry()) for _ in range(20))
    done = await asyncio.gather(*revocations, return_exceptions=True)
    # A cluster deletes first and records next: who comes in between is told so.
    assert [each for each in done if each != HandleRevocation(0) and not isinstance(each, StateUnavailable)] == [
        HandleRevocation(1)
    ]
    assert len(await recorded(state)) == 1


KEYS = {
    "aw": decision_key(b"aw", "alice", "w"),
    "av": decision_key(b"av", "alice", "v"),
    "a-": decision_key(b"a-", "alice"),
    "bw": decision_key(b"bw", "bob", "w"),
    "b-": decision_key(b"b-", "bob"),
}


@pytest.mark.parametrize(
    ("subject", "workspace_id", "left"),
    [
        ("alice", None, ["bw", "b-"]),
        (None, "w", ["av", "a-", "b-"]),
        ("alice", "w", ["av", "a-", "bw", "b-"]),
        ("carol", None, ["aw", "av", "a-", "bw", "b-"]),
        (None, "", ["aw", "av", "a-", "bw", "b-"]),
    ],
)
async def test_decisions_of_a_subject_and_workspace_are_dropped_and_no_others(
    state: ControlState, subject: str | None, workspace_id: str | None, left: list[str]
) -> None:
    for key in KEYS.values():
        await keep_decision(state, key, 60_000)
    before = await state.decisions_dropped()
    assert await state.drop_decisions(subject, workspace_id, entry("decisions.drop")) == len(KEYS) - len(left)
    assert [name for name, key in KEYS.items() if await state.read_decision(key) is not None] == left
    assert await state.decisions_dropped() > before
    assert await recorded(state) == [("decisions.drop", "alice")]


async def test_a_decision_that_is_over_was_not_there_to_drop(state: ControlState, time: Time) -> None:
    await keep_decision(state, KEYS["aw"], 1_000)
    await keep_decision(state, KEYS["av"], 60_000)
    time.pass_s(1)
    assert await state.drop_decisions("alice", None, entry()) == 1
    # What is written afterwards is kept as ever.
    await keep_decision(state, KEYS["aw"], 1_000, allow=False)
    assert await state.read_decision(KEYS["aw"]) is not None


async def test_each_drop_is_seen_by_whoever_looks(state: ControlState) -> None:
    seen = [await state.decisions_dropped()]
    for _ in range(3):
        await state.drop_decisions("alice", None, entry())
        seen.append(await state.decisions_dropped())
    assert sorted(set(seen)) == seen


async def test_more_decisions_than_one_look_at_the_server_finds_are_dropped(state: ControlState) -> None:
    writes = [keep_decision(state, decision_key(b"%d" % n, "alice" if n % 3 else "bob"), 60_000) for n in range(3_000)]
    await asyncio.gather(*writes)
    assert await state.drop_decisions("alice", None, entry()) == 2_000
    assert await state.drop_decisions("bob", None, entry()) == 1_000


async def test_the_sixth_failure_within_a_minute_is_refused_until_the_first_is_out(
    state: ControlState, time: Time
) -> None:
    for _ in range(AUTH_FAILURES_MAX):
        assert await state.auth_failure_wait("192.0.2.1") == 0
        assert await state.count_auth_failure("192.0.2.1") == 0
        time.pass_s(10)
    assert await state.auth_failure_wait("192.0.2.1") == 10
    assert await state.count_auth_failure("192.0.2.1") == 10
    assert await state.auth_failure_wait("2001:db8::1%eth0") == 0
    assert await state.count_auth_failure("2001:db8::1%eth0") == 0
    time.pass_s(9.999)
    assert math.isclose(await state.count_auth_failure("192.0.2.1"), 0.001)
    time.pass_s(0.001)
    # A refused one was not counted, so the second of the five is the oldest now.
    assert await state.auth_failure_wait("192.0.2.1") == 0
    assert await state.count_auth_failure("192.0.2.1") == 0
    assert await state.count_auth_failure("192.0.2.1") == 10


async def test_failures_are_counted_over_all_replicas_to_the_very_one(backend: Backend, time: Time) -> None:
    planes = [backend.open(time) for _ in range(4)]
    for plane in planes:
        await plane.start()
    for address in ("192.0.2.1", "192.0.2.2"):
        waits = await asyncio.gather(*(planes[n % 4].count_auth_failure(address) for n in range(100)))
        assert [waits.count(0), waits.count(60)] == [AUTH_FAILURES_MAX, 100 - AUTH_FAILURES_MAX]
        assert [await plane.auth_failure_wait(address) for plane in planes] == [60] * 4
    for plane in planes:
        await plane.close()


async def test_failures_long_ago_count_for_nothing(state: ControlState, time: Time) -> None:
    for number in range(50):
        assert await state.count_auth_failure(f"192.0.2.{number}") == 0
    time.pass_s(60)
    for _ in range(AUTH_FAILURES_MAX):
        assert await state.count_auth_failure("192.0.2.7") == 0
    assert await state.count_auth_failure("192.0.2.7") == 60


async def test_a_clock_that_was_set_back_keeps_nobody_out_for_long(state: ControlState, time: Time) -> None:
    for _ in range(AUTH_FAILURES_MAX):
        await state.count_auth_failure("192.0.2.1")
    time.pass_s(-30)
    assert 0 < await state.auth_failure_wait("192.0.2.1") <= 90
    time.pass_s(-3_600)
    assert await state.auth_failure_wait("192.0.2.1") == 0
    assert await state.count_auth_failure("192.0.2.1") == 0
