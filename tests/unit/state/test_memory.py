"""What the state in memory promises beyond the contract: bounded memory, given back without anybody's help."""

from __future__ import annotations

import gc
import hashlib
import tracemalloc

import pytest

from common.state.memory import MemoryState
from common.state.open import open_state
from common.state.ports import NewSession
from tests.support.auth_harness import Time
from tests.support.state_values import decision_key, keep_decision


def new(number: int, *, idle_ms: int = 10_000) -> NewSession:
    hashed = hashlib.sha256(str(number).encode()).hexdigest()
    return NewSession(
        hashed, f"auth0|{number:024d}", f"somebody-{number}@example.test", ("reader",), idle_ms, 86_400_000
    )


async def test_a_session_takes_at_most_a_kibibyte() -> None:
    count = 1_250
    time = Time()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        state = MemoryState(time.now_ms)
        for number in range(count):
            await state.create_session(new(number))
            time.pass_s(0.001)
        taken = (tracemalloc.get_traced_memory()[0] - before) / count
    finally:
        tracemalloc.stop()
    assert taken <= 1024, f"{taken:.0f} bytes a session"


async def test_a_cached_decision_takes_at_most_500_bytes() -> None:
    count = 1_250
    time = Time()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        state = MemoryState(time.now_ms)
        for number in range(count):
            key = hashlib.sha256(str(number).encode()).digest()
            await keep_decision(state, decision_key(key), 5_000)
            time.pass_s(0.0001)
        taken = (tracemalloc.get_traced_memory()[0] - before) / count
    finally:
        tracemalloc.stop()
    assert taken <= 500, f"{taken:.0f} bytes a decision"


async def test_expired_sessions_give_their_memory_back_while_new_ones_come() -> None:
    time = Time()
    state = MemoryState(time.now_ms)
    for number in range(1_000):
        await state.create_session(new(number))
    time.pass_s(11)
    for number in range(1_000, 1_500):
        await state.create_session(new(number))
    held = state._sessions
    assert len(held._by_id) == len(held._by_subject) == len(held._round) == 500


async def test_sessions_in_use_are_not_swept() -> None:
    time = Time()
    state = MemoryState(time.now_ms)
    kept = [(await state.create_session(new(number))).id_hash for number in range(10)]
    for number in range(10, 200):
        time.pass_s(1)
        for id_hash in kept:
            assert await state.touch_session(id_hash, 10_000) is not None
        await state.create_session(new(number))
    assert len(state._sessions._by_id) < 10 + 30


async def test_deleted_sessions_leave_nothing_behind() -> None:
    time = Time()
    state = MemoryState(time.now_ms)
    for number in range(2_000):
        session = await state.create_session(new(number))
        await state.delete_session(session.id_hash)
    held = state._sessions
    assert not held._by_id
    assert not held._by_subject
    assert len(held._round) <= 2


async def test_decisions_are_bounded() -> None:
    time = Time()
    state = MemoryState(time.now_ms, max_decisions=10)
    for number in range(100):
        await keep_decision(state, decision_key(str(number).encode()), 60_000)
    assert len(state._decisions._by_key) == len(state._decisions._round) == 10
    assert await state.read_decision(decision_key(b"99")) is not None


async def test_a_bound_of_no_decisions_keeps_none() -> None:
    state = MemoryState(Time().now_ms, max_decisions=0)
    await keep_decision(state, decision_key(b"k"), 60_000)
    assert await state.read_decision(decision_key(b"k")) is None


async def test_expired_decisions_give_their_memory_back_while_new_ones_come() -> None:
    time = Time()
    state = MemoryState(time.now_ms)
    for number in range(300):
        await keep_decision(state, decision_key(str(number).encode()), 1_000)
    time.pass_s(2)
    for _ in range(300):
        await keep_decision(state, decision_key(b"one"), 1_000)
    assert len(state._decisions._by_key) == 1


def test_the_memory_url_opens_state_in_memory() -> None:
    assert open_state("memory://local").backend == "memory"


def test_an_unknown_scheme_is_refused_without_telling_the_password() -> None:
    with pytest.raises(ValueError, match="mysql") as refused:
        open_state("mysql://user:hunter2@db/x")
    assert "hunter2" not in str(refused.value)
