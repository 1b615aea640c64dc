"""The route table in the shared state: the revision that the pointer names, watched, and replaced whole (§3.4)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING

from common.state.ports import StateUnavailable
from dataplane.net.tasks import TaskKeeper
from dataplane.polls import POLL_S, Polls
from dataplane.reload.attempt import Loaded, Refused, attempt_text
from dataplane.reload.file_table import FileTable
from dataplane.reload.served import ServedTable

if TYPE_CHECKING:
    from common.settings.gateway import GatewaySettings
    from common.state.ports import State
    from common.telemetry.log import Log
    from dataplane.metrics import GatewayMetrics
    from dataplane.snapshot import Snapshot

BEAT_S = 5.0
HEARTBEAT_KEPT_MS = 20_000
"""A replica that says nothing for so long is gone: three heartbeats may be lost."""


class StoreTable:
    """A `TableSource` over the shared state. All its methods belong to one event loop.

    While the store holds no table, the file serves, and is watched like one. From the first revision on the store is
    the truth: a store that is away or empty again, or a revision that is not valid, leaves the last table as it is and
    is reported like a failed reload. A store that is away at the start is not an empty one: the file may allow what
    the newest revision does not, so nothing is served until the store answers. Each replica tells what it serves.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        state: State,
        log: Log,
        metrics: GatewayMetrics,
        *,
        replica: str,
        on_change: Callable[[Snapshot], None] | None = None,
        poll_s: float = POLL_S,
    ) -> None:
        self._settings = settings
        self._state = state
        self._log = log
        self._metrics = metrics
        self._served = ServedTable(settings, log, metrics, on_change=on_change)
        self._file = FileTable(settings, log, metrics, served=self._served)
        self._replica = replica
        self._polls = Polls(poll_s)
        self._seen = 0
        """The newest revision that was read. 0: there was none yet, and the file may serve."""
        self._known = 0
        """The revision whose document need not be sent again."""
        self._digest = b""
        """Of the document that was read with `_seen`."""
        self._file_runs = False
        self._trouble = ""
        self._reading = asyncio.Lock()
        self._tasks = TaskKeeper(self._died)

    @property
    def current(self) -> Snapshot | None:
        return self._served.current

    @property
    def last_error(self) -> str | None:
        return self._trouble or self._served.last_error

    @property
    def generation(self) -> int:
        return self._served.generation

    async def start(self) -> None:
        """Read the store; where it holds no table, the file. Then watch."""
        self._state.on_hint(self._polls.hint)
        await self.reload_now()
        self._tasks.spawn(self._watch(), "route table watcher")
        self._tasks.spawn(self._beat_on(), "heartbeat")

    async def stop(self) -> None:
        """Stop watching. The running configuration stays."""
        await self._tasks.cancel_all()
        await self._leave_file()

    async def reload_now(self) -> bool:
        """Read the store now; whether the newest table runs."""
        async with self._reading:
            try:
                active = await self._state.read_table(self._known)
            except StateUnavailable as failure:
                # It may come back as an earlier copy, where a number that was seen stands for another table by now.
                self._known = 0
                self._troubled(f"the route table in the shared state cannot be read: {failure}")
                return False
            if active.document is not None:
                self._untroubled()
                self._known = active.revision
                digest = sha256(active.document).digest()
                if (active.revision, digest) != (self._seen, self._digest):
                    self._digest = digest
                    await self._take(active.revision, active.document)
            elif active.revision == 0 and self._seen:
                # Numbers begin anew: the next 1 is not the one that was seen.
                self._known = 0
                self._troubled("the shared state holds no route table any more")
            else:
                self._untroubled()
                if active.revision == 0 and not self._file_runs:
                    self._file_runs = True
                    await self._file.start()
            return self.last_error is None

    def _troubled(self, trouble: str) -> None:
        """The store is of no use: said once, however often it is asked meanwhile."""
        if not self._trouble:
            self._metrics.config_reloads.inc("failed")
            self._log.error("the route table cannot be read, the last valid one serves on", error=trouble)
        self._trouble = trouble

    def _untroubled(self) -> None:
        if self._trouble:
            self._trouble = ""
            self._log.info("the route table in the shared state can be read again")

    async def _take(self, revision: int, document: bytes) -> None:
        """Validate a revision whole and let it run; one that is refused changes nothing."""
        # Seen either way: a revision never changes, so one that is refused is refused once.
        self._seen = revision
        name = f"revision {revision} of the shared state"
        result = await asyncio.to_thread(attempt_text, document, name, self._settings)
        if isinstance(result, Loaded):
            # From now on a change of the file may not replace the store's.
            await self._leave_file()
            await self._served.take(result, source="store", revision=revision)
        elif isinstance(result, Refused):
            self._served.refuse(result)
        await self._beat()

    async def _leave_file(self) -> None:
        if self._file_runs:
            self._file_runs = False
            await self._file.stop()

    async def _watch(self) -> None:
        while True:
            await self._polls.due()
            await self.reload_now()

    async def _beat_on(self) -> None:
        while True:
            await self._beat()
            await asyncio.sleep(BEAT_S)

    async def _beat(self) -> None:
        snapshot = self.current
        revision = 0 if snapshot is None else snapshot.revision
        with contextlib.suppress(StateUnavailable):
            await self._state.beat(self._replica, revision, (self.last_error or "")[:1_024], HEARTBEAT_KEPT_MS)

    def _died(self, name: str, error: BaseException) -> None:
        self._trouble = f"the {name} ended: the shared state is not watched any more"
        self._log.error("a task died", task=name, exc=error)
