"""Files of an operator, looked at whenever they may have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from watchfiles import awatch

from dataplane.net.tasks import TaskKeeper

if TYPE_CHECKING:
    from common.telemetry.log import Log

POLL_S = 5.0
"""The truth: what notifications miss (a network file system, a link whose target lies elsewhere) is read then."""
SETTLE_MS = 400
"""Notifications closer together than this are one change: a certificate and its key are two files."""
STEP_MS = 50


class FileWatch:
    """Calls `look` at each change in the folders of some files, and every `poll_s`; belongs to one event loop.

    Notifications come from the folders, so files that are renamed into place and links that are swapped (a mounted
    secret or ConfigMap) count too. Looks never overlap. `died` hears of an end that nobody asked for.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        look: Callable[[], Awaitable[object]],
        log: Log,
        *,
        name: str,
        died: Callable[[str], None],
        poll_s: float = POLL_S,
    ) -> None:
        self._folders = tuple(dict.fromkeys(path.parent for path in paths))
        self._look = look
        self._log = log
        self._name = name
        self._on_death = died
        self._poll_s = poll_s
        self._stopping = asyncio.Event()
        self._tasks = TaskKeeper(self._died)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Watch from now on: what changes after this is seen."""
        self._task = self._tasks.spawn(self._watch(), f"{self._name} watcher")
        # The task's first step asks for notifications.
        await asyncio.sleep(0)

    async def stop(self) -> None:
        """Watch no more; a look under way is waited for."""
        self._stopping.set()
        if self._task is not None:
            await asyncio.wait((self._task,))

    async def pause(self, seconds: float) -> None:
        """Wait, but not beyond the stop."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    async def _watch(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._follow_notifications()
            except (OSError, RuntimeError) as error:
                # A folder does not exist, or the system hands out no more watches: polling is enough.
                self._log.debug(f"no notifications of the {self._name}", exc=error)
                await self.pause(self._poll_s)
                await self._look()

    async def _follow_notifications(self) -> None:
        notifications = awatch(
            *self._folders,
            watch_filter=None,
            debounce=SETTLE_MS,
            step=STEP_MS,
            stop_event=self._stopping,
            rust_timeout=round(self._poll_s * 1000),
            yield_on_timeout=True,
            recursive=False,
        )
        async for _ in notifications:
            await self._look()

    def _died(self, name: str, error: BaseException) -> None:
        self._log.error("a task died", task=name, exc=error)
        self._on_death(f"the {name} ended: changes are not noticed any more")
