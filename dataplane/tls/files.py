"""Certificates and keys in files: read at the start, watched, and taken again when they change."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from watchfiles import awatch

from dataplane.net.tasks import TaskKeeper
from dataplane.reload.attempt import read_file
from dataplane.tls.certificate import CertificateRefused

if TYPE_CHECKING:
    from common.telemetry.log import Log

POLL_S = 5.0
"""What notifications miss (a network file system, a link whose target lies elsewhere) is read then."""
SETTLE_MS = 400
"""Notifications closer together than this are one change: a certificate and its key are two files."""
STEP_MS = 50
CONFIRM_S = 1.0
"""A refusal is reported when the files are still the same after this time, and not in the middle of their change."""

Take = Callable[[Sequence[bytes]], None]
"""Takes the contents of all files, in order; `CertificateRefused` when they cannot be used."""


@dataclass(frozen=True, slots=True)
class _Contents:
    """What was read; `token` stands for it."""

    files: tuple[bytes, ...]
    token: str


class WatchedFiles:
    """Files that are used together. All its methods belong to one event loop.

    `take` gets their contents whenever these change; when it refuses, what ran before runs on, `refused` hears why
    once, and they are tried again at each look until they are taken: a certificate may only have to come into its
    dates. Notifications come from the directories, so files that are renamed into place and links that are swapped (a
    mounted secret) count too.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        take: Take,
        log: Log,
        *,
        taken: Callable[[], None],
        refused: Callable[[str], None],
        poll_s: float = POLL_S,
        confirm_s: float = CONFIRM_S,
    ) -> None:
        """`taken` hears of each change that was taken, and of the end of a refusal."""
        self._paths = tuple(paths)
        self._take = take
        self._log = log
        self._on_taken = taken
        self._on_refused = refused
        self._poll_s = poll_s
        self._confirm_s = confirm_s
        self._running = ""
        self._suspected = ""
        self._reported = ""
        self._stopping = asyncio.Event()
        self._tasks = TaskKeeper(self._watcher_died)
        self._watcher: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take the files, then watch them. `CertificateRefused` when they cannot be used as they are."""
        self._watcher = self._tasks.spawn(self._watch(), "certificate watcher")
        # The watcher's first step asks for notifications: no change falls between the first reading and the watching.
        await asyncio.sleep(0)
        try:
            await self._read_and_take()
        except CertificateRefused:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop watching. What was taken stays."""
        self._stopping.set()
        if self._watcher is not None:
            await asyncio.wait((self._watcher,))

    async def look(self) -> None:
        """Read the files now, and take them if they changed."""
        try:
            changed = await self._read_and_take()
        except CertificateRefused as refused:
            self._refuse(str(refused))
            return
        recovered = bool(self._reported)
        self._suspected = self._reported = ""
        if changed or recovered:
            self._on_taken()

    async def look_twice(self) -> None:
        """Look now, and once more where the files cannot be taken; what they still cannot be then is reported."""
        await self.look()
        if self._suspected != self._reported:
            await self._pause(self._confirm_s)
            await self.look()

    async def _read_and_take(self) -> bool:
        """Whether they are others than those that run."""
        contents = await asyncio.to_thread(_read, self._paths)
        if contents.token == self._running:
            return False
        self._take(contents.files)
        self._running = contents.token
        return True

    def _refuse(self, reason: str) -> None:
        if reason == self._reported:
            return
        if reason != self._suspected:
            self._suspected = reason
            return
        self._reported = reason
        self._on_refused(reason)

    async def _watch(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._follow_notifications()
            except (OSError, RuntimeError) as error:
                # A directory does not exist, or the system hands out no more watches: polling is enough.
                self._log.debug("no notifications of the certificate files", exc=error)
                await self._pause(self._poll_s)
                await self.look_twice()

    async def _follow_notifications(self) -> None:
        notifications = awatch(
            *dict.fromkeys(path.parent for path in self._paths),
            watch_filter=None,
            debounce=SETTLE_MS,
            step=STEP_MS,
            stop_event=self._stopping,
            rust_timeout=round(self._poll_s * 1000),
            yield_on_timeout=True,
            recursive=False,
        )
        async for _ in notifications:
            await self.look_twice()

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    def _watcher_died(self, name: str, error: BaseException) -> None:
        self._log.error("a task died", task=name, exc=error)
        self._on_refused(f"the {name} ended: the files are not watched any more")


def _read(paths: Sequence[Path]) -> _Contents:
    """All of them; for a thread."""
    files = []
    digest = hashlib.sha256()
    for path in paths:
        try:
            content = read_file(path)
        except OSError as error:
            raise CertificateRefused(f"{path}: cannot be read: {error.strerror or error}") from None
        files.append(content)
        digest.update(hashlib.sha256(content).digest())
    return _Contents(tuple(files), digest.hexdigest())
