"""Tasks are kept: one without a reference may be collected while it runs, and one that dies unseen is a silent bug."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine


class TaskKeeper:
    """Holds tasks until they end and reports the death of one."""

    def __init__(self, on_death: Callable[[str, BaseException], None]) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._on_death = on_death

    def spawn(self, coroutine: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_death(task.get_name(), error)

    async def cancel_all(self) -> None:
        """Cancel what still runs and wait for it."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def __len__(self) -> int:
        return len(self._tasks)
