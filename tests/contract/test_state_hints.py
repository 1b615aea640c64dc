"""Hints, one suite for every backend: whoever listens is woken soon after a change (`common.state.hints`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from common.state.ports import ControlState
from tests.support.auth_harness import Time
from tests.support.shared_store import ENTRY
from tests.support.state_backends import Backend

DEADLINE_S = 20.0


@pytest.fixture
def time(backend: Backend) -> Time:
    return backend.fresh()


@pytest.fixture
async def writer(backend: Backend, time: Time) -> AsyncIterator[ControlState]:
    state = backend.open(time)
    await state.start()
    yield state
    await state.close()


@pytest.fixture
async def listener(backend: Backend, time: Time) -> AsyncIterator[ControlState]:
    state = backend.open(time)
    await state.start()
    yield state
    await state.close()


async def woken(event: asyncio.Event) -> None:
    async with asyncio.timeout(DEADLINE_S):
        await event.wait()
    event.clear()


async def begun(state: ControlState, event: asyncio.Event) -> None:
    """Wait until it listens, of which a server's state tells like of a hint."""
    if state.shared:
        await woken(event)


async def test_a_moved_pointer_wakes_everybody_who_listens(writer: ControlState, listener: ControlState) -> None:
    first, second = asyncio.Event(), asyncio.Event()
    listener.on_hint(first.set)
    await begun(listener, first)
    listener.on_hint(second.set)
    for revision in range(2):
        assert (await writer.move_pointer(revision, b"{}", ENTRY)).moved
        await woken(first)
        await woken(second)


async def test_a_state_that_starts_with_somebody_who_waits_listens_too(
    backend: Backend, time: Time, writer: ControlState
) -> None:
    state = backend.open(time)
    event = asyncio.Event()
    state.on_hint(event.set)
    await state.start()
    await begun(state, event)
    await writer.move_pointer(0, b"{}", ENTRY)
    await woken(event)
    await state.close()


async def test_dropped_decisions_wake_everybody_who_listens(writer: ControlState, listener: ControlState) -> None:
    event = asyncio.Event()
    listener.on_hint(event.set)
    await begun(listener, event)
    before = await listener.decisions_dropped()
    await writer.drop_decisions("alice", None, ENTRY)
    await woken(event)
    assert await listener.decisions_dropped() > before
