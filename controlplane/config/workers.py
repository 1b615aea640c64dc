"""Where work on documents is done: never on the event loop, and what is large in a process of its own.

A thread shares the interpreter with the event loop; loading 8 MiB there would hold everybody up for seconds, a
collection of its garbage all of it at once. A process takes a second to start, and takes its memory along.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

LARGE_BYTES = 1_048_576
"""Documents that together have more are large: up to here the loop is held up for milliseconds at a time."""
THREADS = 4
AT_ONCE = 1
"""Processes; what is large waits for its turn."""

# Nothing of the parent's memory, such as its tokens, is in the child.
_SPAWN = multiprocessing.get_context("spawn")

Result = TypeVar("Result")


class WorkEnded(Exception):
    """The process that did the work ended without a result: it was killed, or the program ends."""


class Workers:
    """Belongs to one event loop."""

    def __init__(self, large_bytes: int = LARGE_BYTES) -> None:
        self._large_bytes = large_bytes
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="documents")
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._running: set[BaseProcess] = set()
        self._closed = False

    async def run(self, size: int, function: Callable[..., Result], *arguments: object) -> Result:
        """`function(*arguments)`, for documents of `size` bytes. Both must be such that a process can be given them.

        Raises what the function raises, and `WorkEnded` when its process dies.
        """
        loop = asyncio.get_running_loop()
        if size <= self._large_bytes:
            return await loop.run_in_executor(self._threads, function, *arguments)
        async with self._turn:
            return await loop.run_in_executor(self._threads, self._in_process, function, *arguments)

    def close(self) -> None:
        """End what is being done."""
        self._closed = True
        for process in tuple(self._running):
            process.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _in_process(self, function: Callable[..., Result], *arguments: object) -> Result:
        receiving, sending = _SPAWN.Pipe(duplex=False)
        process = _SPAWN.Process(target=_work, args=(sending, function, arguments), name="documents", daemon=True)
        process.start()
        sending.close()
        self._running.add(process)
        try:
            if self._closed:
                raise WorkEnded("the program ends")
            done, value = receiving.recv()
        except EOFError:
            raise WorkEnded("the process that worked on a large table ended before it was done") from None
        finally:
            self._running.discard(process)
            process.kill()
            process.join()
            receiving.close()
        if not done:
            raise value
        result: Result = value
        return result


def _work(answers: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    # What a terminal sends to all of its programs is for the parent, which ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # It ends with the answer: whatever would be collected goes then.
    gc.disable()
    try:
        answer = True, function(*arguments)
    except Exception as error:  # noqa: BLE001 - it is raised by whoever waits
        answer = False, error
    answers.send(answer)
