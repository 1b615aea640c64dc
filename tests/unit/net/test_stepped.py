"""A stepped task goes on in the turn behind its `wake`, and is an ordinary task for everybody else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from dataplane.net.stepped import SteppedTask, Turns, parked

Serve = Callable[[], Coroutine[Any, Any, None]]


def in_loop(test: Callable[[], Coroutine[Any, Any, None]], loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asyncio.wait_for(test(), 10))


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> Any:
    return request.param


async def started(serve: Serve) -> tuple[SteppedTask, asyncio.Task[None]]:
    stepped = SteppedTask(Turns())
    task = asyncio.get_running_loop().create_task(stepped.run(serve))
    await asyncio.sleep(0)
    return stepped, task


async def woken(stepped: SteppedTask) -> None:
    stepped.wake()
    await asyncio.sleep(0)


def test_what_is_parked_goes_on_in_the_next_turn(loop: Any) -> None:
    async def main() -> None:
        seen: list[object] = []

        async def serve() -> None:
            for _ in range(2):
                await parked()
                seen.append(asyncio.current_task())

        stepped, task = await started(serve)
        stepped.wake()
        assert seen == []
        await asyncio.sleep(0)
        assert seen == [task]
        await asyncio.sleep(0)
        assert seen == [task]
        stepped.wake()
        await task
        assert seen == [task, task]

    in_loop(main, loop)


def test_all_that_were_woken_in_a_turn_go_on_in_their_order_and_one_that_fails_hinders_none(loop: Any) -> None:
    async def main() -> None:
        seen: list[int] = []
        turns = Turns()

        def serve(number: int) -> Serve:
            async def served() -> None:
                await parked()
                seen.append(number)
                if number == 1:
                    raise LookupError

            return served

        stepped = [SteppedTask(turns) for _ in range(3)]
        tasks = [asyncio.create_task(each.run(serve(number))) for number, each in enumerate(stepped)]
        await asyncio.sleep(0)
        for each in (stepped[2], stepped[1], stepped[0], stepped[1]):
            each.wake()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert seen == [2, 1, 0]
        assert [type(each) for each in ended] == [type(None), LookupError, type(None)]

    in_loop(main, loop)


def test_one_may_wake_itself_for_the_next_turn(loop: Any) -> None:
    async def main() -> None:
        seen: list[str] = []

        async def serve() -> None:
            await parked()
            stepped.wake()
            await parked()
            seen.append("again")

        stepped, task = await started(serve)
        stepped.wake()
        await asyncio.sleep(0)
        assert seen == []
        await task
        assert seen == ["again"]

    in_loop(main, loop)


def test_who_gives_way_for_a_turn_goes_on_in_the_next_one(loop: Any) -> None:
    async def main() -> None:
        seen: list[str] = []

        async def serve() -> None:
            await parked()
            seen.append("woken")
            await asyncio.sleep(0)
            seen.append("on")

        stepped, task = await started(serve)
        await woken(stepped)
        assert seen == ["woken"]
        await asyncio.sleep(0)
        assert seen == ["woken", "on"]
        await task

    in_loop(main, loop)


def test_who_is_cancelled_while_giving_way_goes_no_further(loop: Any) -> None:
    async def main() -> None:
        seen: list[str] = []

        async def serve() -> None:
            await parked()
            try:
                await asyncio.sleep(0)
                seen.append("on")
            except asyncio.CancelledError:
                seen.append("told")
                raise

        stepped, task = await started(serve)
        await woken(stepped)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == ["told"]

    in_loop(main, loop)


def test_what_is_not_parked_is_not_woken(loop: Any) -> None:
    async def main() -> None:
        gate: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        seen: list[str] = []

        async def serve() -> None:
            await parked()
            seen.append(await gate)
            await parked()
            seen.append("woken")

        stepped, task = await started(serve)
        await woken(stepped)
        await woken(stepped)
        assert seen == []
        gate.set_result("future")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert seen == ["future"]
        await woken(stepped)
        assert seen == ["future", "woken"]
        await task
        stepped.wake()

    in_loop(main, loop)


def test_budgets_and_turns_of_the_loop_work_behind_a_wake(loop: Any) -> None:
    async def main() -> None:
        seen: list[str] = []

        async def serve() -> None:
            await parked()
            await asyncio.sleep(0)
            try:
                async with asyncio.timeout(0.01):
                    await parked()
            except TimeoutError:
                seen.append("late")
            await asyncio.sleep(0.001)
            seen.append("slept")

        stepped, task = await started(serve)
        await woken(stepped)
        await task
        assert seen == ["late", "slept"]

    in_loop(main, loop)


@pytest.mark.parametrize("waiting", ["parked", "woken", "on a future", "on a future since a wake"])
def test_a_cancelled_one_is_told_where_it_waits(waiting: str, loop: Any) -> None:
    async def main() -> None:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        told: list[str] = []

        async def serve() -> None:
            try:
                if waiting != "on a future":
                    await parked()
                if waiting == "parked":
                    raise AssertionError
                await (parked() if waiting == "woken" else gate)
            except asyncio.CancelledError as cancelled:
                told.append(str(cancelled))
                raise

        stepped, task = await started(serve)

        if waiting == "woken":
            await woken(stepped)
        if waiting == "on a future since a wake":
            stepped.wake()
            asyncio.get_running_loop().call_soon(task.cancel, "bye")  # the step comes first, and the task's own later
        else:
            task.cancel("bye")
        with pytest.raises(asyncio.CancelledError):
            await task
        assert told in (["bye"], [""])
        assert gate.cancelled() is waiting.startswith("on")

    in_loop(main, loop)


@pytest.mark.parametrize("first", ["wake", "cancel"])
def test_one_that_is_cancelled_and_woken_in_the_same_turn_goes_no_further(first: str, loop: Any) -> None:
    """The caller left as the upstream failed: its request must not go on to the next one."""

    async def main() -> None:
        seen: list[str] = []

        async def serve() -> None:
            try:
                await parked()
                seen.append("went on")
                await parked()
            except asyncio.CancelledError:
                seen.append("told")
                raise

        stepped, task = await started(serve)
        for call in (stepped.wake, task.cancel) if first == "wake" else (task.cancel, stepped.wake):
            call()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == ["told"]

    in_loop(main, loop)


def test_a_budget_that_passes_as_it_is_woken_cancels_nothing_behind_it(loop: Any) -> None:
    async def main() -> None:
        seen: list[str] = []

        async def serve() -> None:
            try:
                async with asyncio.timeout(0.02):
                    await parked()
            except TimeoutError:
                seen.append("late")
            await parked()
            seen.append("woken")

        stepped, task = await started(serve)

        def wakes_late() -> None:
            time.sleep(0.03)  # the budget has passed when the loop looks at its timers
            stepped.wake()

        asyncio.get_running_loop().call_soon(wakes_late)
        await asyncio.sleep(0.05)
        await woken(stepped)
        await task
        assert seen in (["late", "woken"], ["woken"])  # which of both comes first is the loop's choice

    in_loop(main, loop)


@pytest.mark.parametrize("behind_a_wake", [False, True])
def test_what_it_raises_is_the_tasks(behind_a_wake: bool, loop: Any) -> None:
    async def main() -> None:
        async def serve() -> None:
            if behind_a_wake:
                await parked()
            raise LookupError

        stepped, task = await started(serve)
        await woken(stepped)
        with pytest.raises(LookupError):
            await task

    in_loop(main, loop)


def test_one_that_ends_at_once_is_done(loop: Any) -> None:
    async def main() -> None:
        async def serve() -> None: ...

        _, task = await started(serve)
        await task

    in_loop(main, loop)
