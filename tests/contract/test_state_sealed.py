"""Sealed values are alike on every backend (`common.state.sealed`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from common.state.coordination import Lease
from common.state.ports import ControlState
from common.state.sealed import Sealed
from tests.support.auth_harness import Time
from tests.support.state_backends import Backend


@pytest.fixture
def time(backend: Backend) -> Time:
    return backend.fresh()


@pytest.fixture
async def state(backend: Backend, time: Time) -> AsyncIterator[ControlState]:
    state = backend.open(time)
    await state.start()
    yield state
    await state.close()


async def take(state: ControlState, owner: str) -> Lease:
    lease = await state.take_lease("order", owner, 10_000)
    assert lease is not None
    return lease


async def test_a_sealed_value_is_read_byte_for_byte_and_does_not_expire(state: ControlState, time: Time) -> None:
    lease = await take(state, "a")
    blob = bytes(range(256)) * 64
    assert await state.read_sealed("key of é:{x}") is None
    assert await state.write_sealed("key of é:{x}", blob, lease)
    assert await state.write_sealed("empty", b"", lease)
    time.pass_s(400 * 86_400)
    assert await state.read_sealed("key of é:{x}") == Sealed(blob, lease.fence)
    assert await state.read_sealed("empty") == Sealed(b"", lease.fence)
    assert await state.read_sealed("key of é") is None


async def test_the_holder_of_the_lease_writes_as_often_as_it_likes(state: ControlState) -> None:
    lease = await take(state, "a")
    for blob in (b"one", b"two"):
        assert await state.write_sealed("n", blob, lease)
    assert await state.read_sealed("n") == Sealed(b"two", lease.fence)


async def test_whoever_slept_past_its_lease_writes_nothing_over_the_next_holders(
    state: ControlState, time: Time
) -> None:
    late = await take(state, "a")
    await state.write_sealed("n", b"first", late)
    time.pass_s(10)
    held = await take(state, "b")
    # Until the new holder has written, the old one's is no worse than what is there.
    assert await state.write_sealed("n", b"late", late)
    assert await state.write_sealed("n", b"new", held)
    assert not await state.write_sealed("n", b"too late", late)
    assert await state.read_sealed("n") == Sealed(b"new", held.fence)
    assert await state.write_sealed("other", b"x", late)


async def test_of_writers_at_once_the_one_with_the_highest_fence_stays(backend: Backend, time: Time) -> None:
    planes = [backend.open(time) for _ in range(3)]
    for plane in planes:
        await plane.start()
    fences = [n * 7 % 40 + 1 for n in range(40)]
    writes = (
        planes[n % 3].write_sealed("n", b"%d" % fence, Lease("order", "o", fence, 0)) for n, fence in enumerate(fences)
    )
    await asyncio.gather(*writes)
    assert await planes[0].read_sealed("n") == Sealed(b"40", 40)
    for plane in planes:
        await plane.close()
