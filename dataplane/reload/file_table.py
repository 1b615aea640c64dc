"""The route table in a file: loaded at start, watched, and replaced whole when it changes (§12.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from dataplane.reload.attempt import Loaded, Refused, attempt
from dataplane.reload.served import ServedTable
from dataplane.reload.watch import POLL_S, FileWatch
from dataplane.snapshot import Snapshot

if TYPE_CHECKING:
    from common.settings.gateway import GatewaySettings
    from common.telemetry.log import Log
    from dataplane.metrics import GatewayMetrics


class FileTable:
    """A `TableSource` over `GATEWAY_CONFIG`. All its methods belong to one event loop.

    Reading and compiling happen in a thread; attempts never overlap. The same bytes again are no new generation.
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
        self._served = served or ServedTable(settings, log, metrics, on_change=on_change)
        self._running = ""
        self._seen = ""
        self._attempts = asyncio.Lock()
        self._watch = FileWatch(
            (self._path,), self._try, log, name="configuration file", died=self._watcher_died, poll_s=poll_s
        )

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
        await self._watch.start()
        await self.reload_now()

    async def stop(self) -> None:
        """Stop watching; an attempt that runs is waited for. The running table stays."""
        await self._watch.stop()

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

    def _watcher_died(self, reason: str) -> None:
        self._served.last_error = reason
