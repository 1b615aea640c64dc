"""Tasks whose commonest waits cost no future.

    socket --data_received--> wake -> Turns --next turn of the loop--> the steps of all that were woken, one by one
                              a future --> handed to the loop, as in any task

A plain request waits twice, for its head and for its answer. As futures these cost a future, a callback and a turn of
the loop each: more than most steps. So for what its own sockets bring a task waits with `parked`, and goes on when it
was woken, behind the reads of the same turn, as behind a future; and so it does where it only gives way for a turn, by
`asyncio.sleep(0)`. Whatever else it awaits, it awaits as the ordinary task that it also is: who cancels it, or asks for
the current task, sees no difference.
"""

from __future__ import annotations

import asyncio
from asyncio.tasks import _enter_task, _leave_task  # for implementers of tasks: "Extending" in asyncio's manual
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, Final, cast

PARKED: Final = object()
"""Yielded by an awaitable that waits for `wake`. It may be woken for nothing, and looks again whether it is time."""


@coroutine
def parked() -> Generator[object, None, None]:
    """Wait for the next `wake` of the `SteppedTask` that awaits this."""
    yield PARKED


@coroutine
def _given(waits_for: object) -> Generator[object, None, None]:
    """Wait for what an awaitable yielded to somebody else."""
    yield waits_for


class Turns:
    """The tasks that go on in the next turn of the loop: one callback for all of them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.woken: list[SteppedTask] = []
        """The first one of a turn calls `begin`."""

    def begin(self) -> None:
        self._loop.call_soon(self._run)

    def _run(self) -> None:
        woken, self.woken = self.woken, []
        for task in woken:
            task.step()


class SteppedTask:
    """Runs one coroutine. All calls come from its loop's thread."""

    __slots__ = ("_given", "_loop", "_over", "_own_task", "_parked", "_raised", "_served", "_turns", "_woken")

    def __init__(self, turns: Turns) -> None:
        self._loop = asyncio.get_running_loop()
        self._turns = turns
        self._parked = False
        self._own_task: asyncio.Task[None]
        self._served: Coroutine[Any, Any, None]
        self._woken: asyncio.Future[None]
        self._over = False
        # What a step gave, for the task to go on with. No frame holds the exception, which holds the frames.
        self._given: Any = None
        self._raised: BaseException | None = None

    def wake(self) -> None:
        """Run the coroutine on in the next turn, if it is parked then."""
        turns = self._turns
        if not turns.woken:
            turns.begin()
        turns.woken.append(self)

    def step(self) -> None:
        """Run the coroutine on, if it is parked, until it waits again.

        Not one that is cancelled and was not told yet: it could leave the budget that cancelled it, or send what nobody
        waits for any more.
        """
        if not self._parked or self._woken.done():
            return
        loop, task = self._loop, self._own_task
        self._parked = False
        _enter_task(loop, task)
        try:
            waits_for = self._served.send(None)
        except StopIteration:
            self._over = True
        except BaseException as raised:  # noqa: BLE001 (the task raises it)
            self._over = True
            self._raised = raised
        else:
            if waits_for is PARKED or waits_for is None:
                self._parked = True
                if waits_for is None:  # `asyncio.sleep(0)`: it only lets the others have their turn
                    self.wake()
                return
            self._given = waits_for
        finally:
            _leave_task(loop, task)
        if not self._woken.done():
            self._woken.set_result(None)

    async def run(self, serve: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `serve` to its end; this is what the task is made of.

        Its own steps are the first one, those behind a future, and those into which an exception is thrown.
        """
        self._own_task = cast("asyncio.Task[None]", asyncio.current_task())
        self._served = served = serve()
        try:
            while True:
                try:
                    waits_for = served.send(None) if self._raised is None else served.throw(self._take_raised())
                except StopIteration:
                    return
                try:
                    if waits_for is PARKED:
                        self._woken = self._loop.create_future()
                        self._parked = True
                        try:
                            await self._woken
                        except asyncio.CancelledError:
                            # As of any task that is cancelled: what it awaits is cancelled, and tells it.
                            if not self._over and (self._given is None or not self._given.cancel()):
                                raise
                        if self._over:
                            break
                        waits_for, self._given = self._given, None
                    await _given(waits_for)
                except BaseException as raised:  # noqa: BLE001 (it is the coroutine's)
                    self._parked = False
                    self._given = None
                    self._raised = raised
            if self._raised is not None:
                raise self._take_raised()
        finally:
            del self._own_task  # it holds the exception that ended it, and that holds this frame

    def _take_raised(self) -> BaseException:
        raised, self._raised = self._raised, None
        assert raised is not None  # noqa: S101 (asked for when there is one)
        try:
            return raised
        finally:
            del raised
