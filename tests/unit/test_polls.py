"""When a watcher looks: at a hint, or when its time is over."""

from __future__ import annotations

import asyncio

from dataplane.polls import Polls

NEVER_S = 100_000.0


async def test_a_poll_is_due_when_its_time_is_over() -> None:
    async with asyncio.timeout(15):
        await Polls(0.001).due()


async def test_a_hint_makes_the_poll_due_that_waits() -> None:
    polls = Polls(NEVER_S)
    waiting = asyncio.ensure_future(polls.due())
    await asyncio.sleep(0)
    assert not waiting.done()
    polls.hint()
    polls.hint()
    async with asyncio.timeout(15):
        await waiting


async def test_a_hint_while_a_poll_runs_makes_another_one_due_and_only_one() -> None:
    polls = Polls(NEVER_S)
    polls.hint()
    async with asyncio.timeout(15):
        await polls.due()
    waiting = asyncio.ensure_future(polls.due())
    done, _ = await asyncio.wait((waiting,), timeout=0.1)
    assert not done
    waiting.cancel()
