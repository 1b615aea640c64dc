"""Turns go to whoever may publish first, in order, and none is lost."""

from __future__ import annotations

import asyncio

from controlplane.config.turns import Turns


class Workshop:
    """One turn at a time, that each takes until it is told to go."""

    def __init__(self) -> None:
        self.turns = Turns(1)
        self.began: list[str] = []
        self.go_on: dict[str, asyncio.Event] = {}

    def comes(self, name: str, *, first: bool = False) -> asyncio.Task[None]:
        self.go_on[name] = asyncio.Event()
        return asyncio.create_task(self._work(name, first=first))

    async def _work(self, name: str, *, first: bool) -> None:
        async with self.turns.turn(first=first):
            self.began.append(name)
            await self.go_on[name].wait()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_whoever_is_first_goes_before_all_that_wait_and_each_in_order() -> None:
    shop = Workshop()
    tasks = []
    for name, first in (("a", False), ("b", False), ("c", False), ("W", True), ("X", True)):
        tasks.append(shop.comes(name, first=first))
        await settle()
    for event in shop.go_on.values():
        event.set()
    await asyncio.gather(*tasks)
    assert shop.began == ["a", "W", "X", "b", "c"]


async def test_whoever_stops_waiting_takes_no_turn() -> None:
    shop = Workshop()
    a, b, c = (shop.comes(name) for name in "abc")
    await settle()
    b.cancel()
    await settle()
    shop.go_on["a"].set()
    shop.go_on["c"].set()
    await asyncio.gather(a, c)
    assert shop.began == ["a", "c"]


async def test_a_turn_that_is_given_to_whoever_stops_waiting_is_the_next_one_s() -> None:
    """Else every such coincidence would cost a turn for ever, until there is none."""
    shop = Workshop()
    async with shop.turns.turn(first=False):
        b, c = shop.comes("b"), shop.comes("c")
        await settle()
    # The turn is b's now, who does not know it yet.
    b.cancel()
    shop.go_on["c"].set()
    async with asyncio.timeout(10):
        await c
    assert b.cancelled()
    assert shop.began == ["c"]


async def test_work_that_fails_gives_its_turn_back() -> None:
    turns = Turns(1)

    async def fail() -> None:
        async with turns.turn(first=False):
            raise ValueError

    assert [type(each) for each in await asyncio.gather(fail(), fail(), return_exceptions=True)] == [ValueError] * 2
    async with asyncio.timeout(10), turns.turn(first=False):
        pass
