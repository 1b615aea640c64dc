"""The table that is served, whatever its source: swapped whole, counted, and told (§12.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from dataplane.reload.attempt import Loaded, Refused, trusted_proxies_of
from dataplane.reload.policy import policy_lines
from dataplane.snapshot import Snapshot

if TYPE_CHECKING:
    from common.settings.gateway import GatewaySettings
    from common.telemetry.log import Log
    from dataplane.metrics import GatewayMetrics

LINES_AT_ONCE = 100
"""Log lines of a large table written before other work gets its turn."""


class ServedTable:
    """The running snapshot and why the newest table is not it. Belongs to one event loop."""

    def __init__(
        self,
        settings: GatewaySettings,
        log: Log,
        metrics: GatewayMetrics,
        *,
        on_change: Callable[[Snapshot], None] | None = None,
    ) -> None:
        self._settings = settings
        self._log = log
        self._metrics = metrics
        self._on_change = on_change
        self.current: Snapshot | None = None
        self.last_error: str | None = None

    @property
    def generation(self) -> int:
        return 0 if self.current is None else self.current.generation

    async def take(self, loaded: Loaded, *, source: Literal["file", "store"], revision: int = 0) -> None:
        """Let a valid table run from now on, and tell what it says."""
        snapshot = Snapshot(
            table=loaded.table,
            generation=self.generation + 1,
            revision=revision,
            source=source,
            trusted_proxies=trusted_proxies_of(loaded.table, self._settings),
        )
        self.current = snapshot
        self.last_error = None
        self._metrics.config_reloads.inc("ok")
        self._metrics.config_revision.set(snapshot.revision)
        self._metrics.trusted_proxies.set(len(snapshot.trusted_proxies))
        self._tell(snapshot)
        await self._announce(snapshot)

    def recovered(self, msg: str) -> None:
        """The table that runs is the newest again."""
        if self.last_error is not None:
            self.last_error = None
            self._metrics.config_reloads.inc("ok")
            self._log.info(msg, generation=self.generation)

    def refuse(self, refused: Refused) -> None:
        """A table cannot be taken; what runs stays."""
        self.last_error = refused.reason
        self._metrics.config_reloads.inc("failed")
        self._log.error(
            "configuration refused" if self.current is None else "configuration refused, the last valid one serves on",
            error=refused.reason,
            problems=[str(problem) for problem in refused.problems],
            generation=self.generation,
        )

    def _tell(self, snapshot: Snapshot) -> None:
        if self._on_change is None:
            return
        try:
            self._on_change(snapshot)
        except Exception as error:  # noqa: BLE001 (what listens may not end the reloading)
            self._log.error("a listener of the configuration failed", exc=error, generation=snapshot.generation)

    async def _announce(self, snapshot: Snapshot) -> None:
        lines = await asyncio.to_thread(lambda: tuple(policy_lines(snapshot, self._settings.surroundings)))
        for number, line in enumerate(lines, start=1):
            write = self._log.warning if line.level == "warning" else self._log.info
            write(line.msg, **line.fields)
            if number % LINES_AT_ONCE == 0:
                await asyncio.sleep(0)
