"""Heartbeats, leases and challenges are alike on every backend (`common.state.coordination`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from common.state.coordination import Heartbeat, Lease
from common.state.ports import ControlState
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


async def test_a_replica_that_says_nothing_any_more_disappears(state: ControlState, time: Time) -> None:
    assert await state.list_heartbeats() == []
    await state.beat("b:1", 3, "", 5_000)
    time.pass_s(2)
    await state.beat("a 2", 4, "routes[0]: ünvalid", 5_000)
    began = time.now_ms()
    assert await state.list_heartbeats() == [
        Heartbeat("a 2", 4, "routes[0]: ünvalid", began),
        Heartbeat("b:1", 3, "", began - 2_000),
    ]
    time.pass_s(2.999)
    assert len(await state.list_heartbeats()) == 2
    time.pass_s(0.001)
    assert [each.replica for each in await state.list_heartbeats()] == ["a 2"]
    await state.beat("a 2", 5, "", 5_000)
    time.pass_s(4)
    assert [(each.revision, each.last_error) for each in await state.list_heartbeats()] == [(5, "")]


async def test_a_lease_has_one_owner_until_it_ends(state: ControlState, time: Time) -> None:
    lease = await state.take_lease("order", "a", 10_000)
    assert lease == Lease("order", "a", 1, time.now_ms() + 10_000)
    assert await state.take_lease("order", "b", 10_000) is None
    assert await state.take_lease("other", "b", 10_000) is not None
    time.pass_s(9.999)
    assert await state.take_lease("order", "b", 10_000) is None
    time.pass_s(0.001)
    taken = await state.take_lease("order", "b", 10_000)
    assert taken is not None
    assert taken.fence == 2


async def test_the_owner_extends_its_lease_and_keeps_its_fence(state: ControlState, time: Time) -> None:
    lease = await state.take_lease("order", "a", 10_000)
    assert lease is not None
    time.pass_s(9)
    renewed = await state.renew_lease(lease, 10_000)
    assert renewed == Lease("order", "a", 1, time.now_ms() + 10_000)
    time.pass_s(9)
    assert await state.take_lease("order", "a", 20_000) == Lease("order", "a", 1, time.now_ms() + 20_000)
    assert await state.take_lease("order", "b", 10_000) is None


async def test_a_lease_that_passed_on_cannot_be_renewed_or_released(state: ControlState, time: Time) -> None:
    late = await state.take_lease("order", "a", 10_000)
    assert late is not None
    time.pass_s(10)
    assert await state.renew_lease(late, 10_000) is None
    assert await state.release_lease(late) is False
    held = await state.take_lease("order", "b", 10_000)
    assert held is not None
    assert await state.renew_lease(late, 10_000) is None
    assert await state.release_lease(late) is False
    assert await state.renew_lease(held, 10_000) is not None


async def test_a_released_lease_is_free_and_its_fence_is_never_given_again(state: ControlState) -> None:
    fences = []
    for owner in ("a", "b", "a"):
        lease = await state.take_lease("order", owner, 10_000)
        assert lease is not None
        fences.append(lease.fence)
        assert await state.release_lease(lease) is True
        assert await state.release_lease(lease) is False
    assert fences == [1, 2, 3]


async def test_of_many_that_take_a_lease_one_has_it(state: ControlState) -> None:
    taken = await asyncio.gather(*(state.take_lease("order", f"replica-{n}", 10_000) for n in range(20)))
    assert len([lease for lease in taken if lease is not None]) == 1


async def test_a_challenge_is_answered_until_it_is_withdrawn_or_over(state: ControlState, time: Time) -> None:
    assert await state.read_challenge("t") is None
    await state.publish_challenge("t", "t.key authorization", 10_000)
    await state.publish_challenge("u", "", 10_000)
    assert await state.read_challenge("t") == "t.key authorization"
    assert await state.read_challenge("u") == ""
    assert await state.withdraw_challenge("t") is True
    assert await state.withdraw_challenge("t") is False
    assert await state.read_challenge("t") is None
    time.pass_s(10)
    assert await state.read_challenge("u") is None
    assert await state.withdraw_challenge("u") is False
