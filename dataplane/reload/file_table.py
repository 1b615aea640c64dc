"""The route table in a file: loaded at start, watched, and replaced whole when it changes (§12.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from watchfiles import awatch

from dataplane.net.tasks import TaskKeeper
from dataplane.reload.attempt import Loaded, Refused, attempt
from dataplane.reload.served import ServedTable
from dataplane.snapshot import Snapshot

if TYPE_CHECKING:
    from common.settings.gateway import GatewaySettings
    from common.telemetry.log import Log
    from dataplane.metrics import GatewayMetrics

POLL_S = 5.0
"""The truth: what notifications miss (a network file system, a link whose target lies elsewhere) is read then."""
SETTLE_MS = 400
"""Notifications closer together than this are one change."""
STEP_MS = 50


class FileTable:
    """A `TableSource` over `GATEWAY_CONFIG`. All its methods belong to one event loop.

    A change is seen by notifications on the file's directory, so that a file renamed into place and a link that is
    swapped (a mounted ConfigMap) count too, and by reading the file every `poll_s`. Reading and compiling happen in a
    thread; attempts never overlap. The same bytes again are no new generation.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        log: Log,
        metrics: GatewayMetrics,
        *,
        on_change: Callable[[Snapshot], None] | None = None,
        poll_s: float = POLL_S,
        served: ServedTable | None = None,
    ) -> None:
        """`served` is shared with another source that takes over; then `on_change` is its own."""
        self._settings = settings
        self._path = settings.config
        self._log = log
        self._served = served or ServedTable(settings, log, metrics, on_change=on_change)
        self._poll_s = poll_s
        self._running = ""
        self._seen = ""
        self._attempts = asyncio.Lock()
        self._stopping = asyncio.Event()
        self._tasks = TaskKeeper(self._watcher_died)
        self._watcher: asyncio.Task[None] | None = None

    @property
    def current(self) -> Snapshot | None:
        return self._served.current

    @property
    def last_error(self) -> str | None:
        return self._served.last_error

    @property
    def generation(self) -> int:
        return self._served.generation

    async def start(self) -> None:
        """Try to load the file, then watch it. A missing or invalid file is reported, and taken when it gets valid."""
        self._watcher = self._tasks.spawn(self._watch(), "route table watcher")
        # The watcher's first step asks for notifications: no change falls between the first reading and the watching.
        await asyncio.sleep(0)
        await self.reload_now()

    async def stop(self) -> None:
        """Stop watching; an attempt that runs is waited for. The running table stays."""
        self._stopping.set()
        if self._watcher is not None:
            await asyncio.wait((self._watcher,))

    async def reload_now(self) -> bool:
        """Read the file again, even when it did not change; whether what it holds is what runs now."""
        return await self._try(forced=True)

    async def _try(self, *, forced: bool = False) -> bool:
        async with self._attempts:
            seen = "" if forced else self._seen
            result = await asyncio.to_thread(attempt, self._path, self._settings, seen)
            if isinstance(result, Loaded):
                await self._take(result)
            elif isinstance(result, Refused):
                self._seen = result.token
                self._served.refuse(result)
            return self._served.last_error is None

    async def _take(self, loaded: Loaded) -> None:
        self._seen = loaded.token
        if loaded.token == self._running:
            self._served.recovered("configuration file is valid again")
            return
        self._running = loaded.token
        await self._served.take(loaded, source="file")

    async def _watch(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._follow_notifications()
            except (OSError, RuntimeError) as error:
                # The directory does not exist, or the system hands out no more watches: polling is enough.
                self._log.debug("no notifications of the configuration file", exc=error)
                await self._pause()
                await self._try()

    async def _follow_notifications(self) -> None:
        """Try at each change in the file's directory, and every `poll_s`; until stopped."""
        notifications = awatch(
            self._path.parent,
            watch_filter=None,
            debounce=SETTLE_MS,
            step=STEP_MS,
            stop_event=self._stopping,
            rust_timeout=round(self._poll_s * 1000),
            yield_on_timeout=True,
            recursive=False,
        )
        async for _ in notifications:
            await self._try()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._poll_s):
                await self._stopping.wait()
        except TimeoutError:
            return

    def _watcher_died(self, name: str, error: BaseException) -> None:
        self._served.last_error = f"the {name} ended: the file is not watched any more"
        self._log.error("a task died", task=name, exc=error)
