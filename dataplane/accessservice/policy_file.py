"""The policy's file on disk: read at the start, watched while the service runs. An invalid one changes nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from watchfiles import awatch

from dataplane.accessservice.policy import POLICY_MAX_BYTES, Policy, PolicyInvalid, read_policy

if TYPE_CHECKING:
    from common.telemetry.log import Log

RECHECK_MS = 5_000
"""The file is read again this often without a notice too: a network file system gives none."""

_SHOWN_PROBLEMS = 20
"""Problems a line of the log names; a log is not the place for a thousand."""


class PolicyFile:
    """The policy in force. `PolicyInvalid` or `OSError` when the first one cannot be used."""

    def __init__(self, path: Path, log: Log, *, recheck_ms: int = RECHECK_MS) -> None:
        self._path = path
        self._recheck_ms = recheck_ms
        self._log = log
        self._text = _read(path)
        self._policy = read_policy(self._text)
        self._unreadable = ""

    def current(self) -> Policy:
        """The last valid policy."""
        return self._policy

    def reload(self) -> bool:
        """Take the file's content if it changed and is valid; whether it was taken. Logs what became of a change."""
        try:
            text = _read(self._path)
        except OSError as error:
            reason = error.strerror or str(error)
            if reason != self._unreadable:
                self._unreadable = reason
                self._log.error("the policy cannot be read: the last one stays in force", error=reason)
            return False
        self._unreadable = ""
        if text == self._text:
            return False
        self._text = text
        try:
            self._policy = read_policy(text)
        except PolicyInvalid as invalid:
            problems = [str(problem) for problem in invalid.problems[:_SHOWN_PROBLEMS]]
            self._log.error(
                "the policy is invalid: the last one stays in force", problems=problems, count=len(invalid.problems)
            )
            return False
        self._log.info("policy taken", grants=len(self._policy.grants))
        return True

    async def watch(self, stop: asyncio.Event) -> None:
        """Reload whenever the file changes, until `stop` is set.

        Its folder is watched rather than the file: editors and ConfigMaps put a new file in the place of the old.
        """
        for polling in (False, True):
            self.reload()  # what changed before the watch began gives no notice
            try:
                async for _ in awatch(
                    self._path.absolute().parent,
                    watch_filter=None,
                    stop_event=stop,
                    recursive=False,
                    rust_timeout=self._recheck_ms,
                    yield_on_timeout=True,
                    force_polling=polling,
                ):
                    self.reload()
            except OSError as error:
                self._log.warning("the policy's folder gives no notice of changes: it is polled", exc=error)
            else:
                return


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(POLICY_MAX_BYTES + 1)
