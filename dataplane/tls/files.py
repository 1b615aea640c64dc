"""Certificates and keys in files: read at the start, watched, and taken again when they change."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dataplane.reload.attempt import read_file
from dataplane.reload.watch import POLL_S, FileWatch
from dataplane.tls.certificate import CertificateRefused

if TYPE_CHECKING:
    from common.telemetry.log import Log

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
    dates.
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
        self._on_taken = taken
        self._on_refused = refused
        self._confirm_s = confirm_s
        self._running = ""
        self._suspected = ""
        self._reported = ""
        self._watch = FileWatch(
            self._paths, self.look_twice, log, name="certificate files", died=refused, poll_s=poll_s
        )

    async def start(self) -> None:
        """Take the files, then watch them. `CertificateRefused` when they cannot be used as they are."""
        await self._watch.start()
        try:
            await self._read_and_take()
        except CertificateRefused:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop watching. What was taken stays."""
        await self._watch.stop()

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
            await self._watch.pause(self._confirm_s)
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
