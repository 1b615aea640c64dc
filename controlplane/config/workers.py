"""Where work on documents is done: never on the event loop, and what is large in a process of its own.

A thread shares the interpreter with the event loop; loading 8 MiB there would hold everybody up for seconds, a
collection of its garbage all of it at once. A process takes half a second to start, and takes its memory along.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import pickle
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from controlplane.config.turns import Turns

LARGE_BYTES = 131_072
"""Documents that together have more are large. The costliest up to here take half a second, and the loop waits for the
interpreter for some ten milliseconds at a time; with eight times as much, for a third of a second.
"""
THREADS = 2
AT_ONCE = 1
"""Processes: one may take a gigabyte."""

Result = TypeVar("Result")


class WorkEnded(Exception):
    """The process that did the work ended without a result: it was killed, or the program ends."""


class Workers:
    """Belongs to one event loop."""

    def __init__(self, large_bytes: int = LARGE_BYTES) -> None:
        self._large_bytes = large_bytes
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="documents")
        self._small = Turns(THREADS)
        self._large = Turns(AT_ONCE)
        self._running: set[Process] = set()
        self._closed = False

    async def run(self, size: int, function: Callable[..., Result], *arguments: object, first: bool = False) -> Result:
        """`function(*arguments)`, for documents of `size` bytes. Both must be such that a process can be given them.
        What is `first` waits for what is being done, and for nothing else that is not.

        Raises what the function raises, and `WorkEnded` when its process dies. Whoever is cancelled ends the process.
        """
        if size <= self._large_bytes:
            async with self._small.turn(first=first):
                return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)
        async with self._large.turn(first=first):
            answer = await self._in_process(pickle.dumps((function, arguments)))
        done, value = pickle.loads(answer)  # noqa: S301 - it is this program's own
        if not done:
            raise value
        result: Result = value
        return result

    def close(self) -> None:
        """End what is being done."""
        self._closed = True
        for process in self._running:
            _kill(process)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _in_process(self, work: bytes) -> bytes:
        # Nothing of this program's memory, such as its tokens, is in the other; and what a terminal sends to all of
        # its programs is for this one, which ends the other.
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", __name__),
            stdin=PIPE,
            stdout=PIPE,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._running.add(process)
        try:
            if self._closed:
                raise WorkEnded("the program ends")
            answer, _ = await process.communicate(work)
        except (OSError, RuntimeError) as error:
            # It ended before it was given anything: its pipe is closed, which uvloop says by a RuntimeError.
            raise WorkEnded("the process that works on large tables ended before it began") from error
        finally:
            self._running.discard(process)
            _kill(process)
            await process.wait()
        if process.returncode != 0:
            raise WorkEnded("the process that worked on a large table ended before it was done")
        return answer


def _kill(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()


def _work() -> None:
    # What would print, prints elsewhere than into the answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # It ends with the answer: whatever would be collected goes then.
    gc.disable()
    try:
        function, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301 - it is this program's own
        try:
            answer = True, function(*arguments)
        except Exception as error:  # noqa: BLE001 - it is raised by whoever waits
            answer = False, error
        with answers:
            pickle.dump(answer, answers)
    except (EOFError, pickle.UnpicklingError, BrokenPipeError):
        sys.exit(1)  # whoever asked has ended, and wants to hear nothing


if __name__ == "__main__":
    _work()
