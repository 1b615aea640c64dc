"""Work under a lease: the lease is kept meanwhile, given up after it, and its loss ends the work."""

from __future__ import annotations

import asyncio

import pytest

from common.state.coordination import Lease
from common.state.memory import MemoryState
from common.state.ports import StateUnavailable
from dataplane.tls.acme.lease import LeaseLost, work_under
from tests.support.auth_harness import Time

DEADLINE_S = 15.0
KEEP_MS = 40


class Watched(MemoryState):
    """Counts renewals, and is away when it is told to be."""

    def __init__(self, time: Time) -> None:
        super().__init__(time.now_ms)
        self.renewals = 0
        self.away = False
        self.renewed = asyncio.Event()

    async def renew_lease(self, lease: Lease, keep_ms: int) -> Lease | None:
        self.renewals += 1
        if self.renewals >= 3:
            self.renewed.set()
        if self.away:
            raise StateUnavailable("away")
        return await super().renew_lease(lease, keep_ms)


class Case:
    def __init__(self) -> None:
        self.time = Time()
        self.state = Watched(self.time)
        self.ended = ""

    async def lease(self, owner: str = "a") -> Lease:
        lease = await self.state.take_lease("x", owner, KEEP_MS)
        assert lease is not None
        return lease

    async def free(self) -> bool:
        return await self.state.take_lease("x", "somebody else", 1) is not None

    async def endless(self) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.ended = "cancelled"
            raise


@pytest.fixture
def case() -> Case:
    return Case()


async def test_the_lease_is_given_up_when_the_work_is_done(case: Case) -> None:
    async def work() -> None:
        assert not await case.free()

    await work_under(case.state, await case.lease(), work, keep_ms=KEEP_MS)

    assert await case.free()


async def test_what_the_work_raises_comes_out_and_the_lease_is_given_up(case: Case) -> None:
    async def work() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await work_under(case.state, await case.lease(), work, keep_ms=KEEP_MS)
    assert await case.free()


async def test_the_lease_is_renewed_for_as_long_as_the_work_takes(case: Case) -> None:
    async def work() -> None:
        await asyncio.wait_for(case.state.renewed.wait(), DEADLINE_S)

    await work_under(case.state, await case.lease(), work, keep_ms=KEEP_MS)

    assert case.state.renewals >= 3


async def test_work_whose_lease_passed_on_is_cancelled_and_the_other_keeps_it(case: Case) -> None:
    lease = await case.lease()
    case.time.pass_s(1)
    others = await case.lease("b")

    with pytest.raises(LeaseLost):
        await asyncio.wait_for(work_under(case.state, lease, case.endless, keep_ms=KEEP_MS), DEADLINE_S)

    assert case.ended == "cancelled"
    assert await case.state.renew_lease(others, KEEP_MS) is not None


async def test_a_store_that_blinks_costs_nothing(case: Case) -> None:
    case.state.away = True

    async def work() -> None:
        await asyncio.wait_for(case.state.renewed.wait(), DEADLINE_S)

    await work_under(case.state, await case.lease(), work, keep_ms=KEEP_MS)


async def test_a_store_that_is_away_for_longer_than_the_lease_ends_the_work(case: Case) -> None:
    """Nobody can tell whether another replica has it by then."""
    case.state.away = True
    lease = await case.lease()

    async def work() -> None:
        await case.state.renewed.wait()
        case.time.pass_s(1)
        await case.endless()

    with pytest.raises(LeaseLost):
        await asyncio.wait_for(work_under(case.state, lease, work, keep_ms=KEEP_MS), DEADLINE_S)
    assert case.ended == "cancelled"


async def test_a_stop_lets_the_work_end_in_order_before_the_lease_is_given_up(case: Case) -> None:
    begun = asyncio.Event()
    order: list[str] = []

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            order.append("held" if not await case.free() else "free")

    task = asyncio.create_task(work_under(case.state, await case.lease(), work, keep_ms=KEEP_MS))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert order == ["held"]
    assert await case.free()
