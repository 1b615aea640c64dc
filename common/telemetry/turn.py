"""Whose turn it is to write to a descriptor that several processes share.

    take -> whole lines, or the beginning of one -> give, or keep the turn until the line is whole

A pipe takes up to `PIPE_BUF` bytes at once without mixing them with those of others (POSIX). A longer line, whose
length may be a caller's doing, would be cut by the lines of another process, and so could be made to look like them.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile
import time

POLL_S = 0.001


class Turn:
    """Made once, before the processes that share it are forked. Each process has one writer that takes it.

    It is a lock of the system, which gives it back when the process that holds it dies. What such a process leaves
    behind in the middle of a line is told by `unfinished`, which all of them see.
    """

    def __init__(self) -> None:
        self._fd = _nameless_file()
        self._shared = mmap.mmap(-1, 1)

    def take(self, wait_s: float = 0.0) -> bool:
        """Whether it is this process's turn now, after a wait of at most `wait_s`. Taken twice it is still one turn."""
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(POLL_S)
            else:
                return True

    def give(self) -> None:
        """Let the others write."""
        fcntl.lockf(self._fd, fcntl.LOCK_UN)

    @property
    def unfinished(self) -> bool:
        """The last thing written was no whole line. Read and set it during a turn."""
        return self._shared[0] != 0

    @unfinished.setter
    def unfinished(self, unfinished: bool) -> None:
        self._shared[0] = int(unfinished)


def _nameless_file() -> int:
    """A file of no folder: the root may be read-only."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("turn")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
