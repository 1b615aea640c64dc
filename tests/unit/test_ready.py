"""An answer that is there already behaves like one that has to be waited for."""

from __future__ import annotations

import asyncio

from common.ready import DONE, Ready


async def test_it_is_awaited_like_any_other_and_more_than_once() -> None:
    answer: Ready[list[int]] = Ready(([1],))
    assert await answer == [1]
    assert await answer is answer[0]
    assert await DONE is None


async def test_equal_answers_are_gathered_one_by_one() -> None:
    assert await asyncio.gather(Ready(([],)), Ready(([],)), Ready((1,)), Ready((1,))) == [[], [], 1, 1]
