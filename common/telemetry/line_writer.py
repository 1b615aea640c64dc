"""Log lines to a file descriptor in batches, without ever blocking the loop.

    write(line) -> buffer (bounded) -> one timer for all of them -> as much as the descriptor takes now

A reader that is slow, or stopped, makes the buffer grow to its bound; further lines are dropped and counted, and the
count is written once there is room. Before `attach` and after `close` every line is written at once.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
import threading
import time
from collections import deque
from collections.abc import Callable

FLUSH_DELAY_S = 0.05
"""A line waits at most this long on a loop that is not busy."""
BATCH_BYTES = 65_536
"""So many bytes are flushed in the next turn of the loop, not at the timer."""
BUFFER_MAX_BYTES = 4 * 1_048_576
"""Some seconds of a busy process; beyond it a line more is memory that a stopped reader would hold."""
# A descriptor that polls writable takes this much without blocking, whatever it is (POSIX: PIPE_BUF is atomic).
SAFE_BYTES = 4_096
CLOSE_WAIT_S = 1.0


class LineWriter:
    """Takes whole lines (bytes with their line feed), keeps their order, and never raises for a broken descriptor."""

    def __init__(
        self, fd: int, *, max_bytes: int = BUFFER_MAX_BYTES, dropped_line: Callable[[int], bytes] | None = None
    ) -> None:
        self._fd = fd
        self._max_bytes = max_bytes
        self._dropped_line = dropped_line
        self._pending: deque[bytes] = deque()
        self._size = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._timer: asyncio.Handle | None = None
        self._hurried = False
        self._unreported = 0
        self.dropped = 0
        """Lines lost since the start: the buffer was full, or the descriptor was closed."""

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Batch from now on. Call it on the loop's own thread."""
        self._loop = loop
        self._thread = threading.get_ident()

    def report_dropped(self, dropped_line: Callable[[int], bytes]) -> None:
        """How the line is made that says how many lines were lost."""
        self._dropped_line = dropped_line

    def write(self, line: bytes) -> None:
        """Take a line; from another thread than the loop's it is handed over first."""
        loop = self._loop
        if loop is None:
            self._append(line)
            self._flush(wait_s=CLOSE_WAIT_S)
        elif threading.get_ident() != self._thread:
            try:
                loop.call_soon_threadsafe(self.write, line)
            except RuntimeError:  # the loop was closed in between
                self._lose(1)
        else:
            self._append(line)
            if self._timer is None:
                self._timer = loop.call_later(FLUSH_DELAY_S, self._on_timer)
            elif self._size >= BATCH_BYTES and not self._hurried:
                self._hurried = True
                self._timer.cancel()
                self._timer = loop.call_soon(self._on_timer)

    def close(self) -> None:
        """Write what is left, waiting a bounded time for the descriptor; what it does not take is dropped."""
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._flush(wait_s=CLOSE_WAIT_S)

    def _append(self, line: bytes) -> None:
        if self._size + len(line) > self._max_bytes:
            self._lose(1)
            return
        self._pending.append(line)
        self._size += len(line)

    def _lose(self, lines: int) -> None:
        self.dropped += lines
        self._unreported += lines

    def _on_timer(self) -> None:
        self._timer = None
        self._flush()
        self._hurried = bool(self._pending)
        if self._pending and self._loop is not None:
            self._timer = self._loop.call_later(FLUSH_DELAY_S, self._on_timer)

    def _flush(self, wait_s: float = 0.0) -> None:
        if not self._pending and not self._unreported:
            return
        if self._unreported and self._dropped_line is not None:
            # Behind the lines that were kept, before those to come: where the gap is.
            self._pending.append(self._dropped_line(self._unreported))
            self._unreported = 0
        data = b"".join(self._pending)
        try:
            written = _write_some(self._fd, data, wait_s)
        except OSError:
            # Closed by its reader, or the disk is full: nothing that a log line could be written about.
            self._lose(len(self._pending))
            self._pending.clear()
            self._size = 0
            return
        self._pending.clear()
        rest = data[written:]
        self._size = len(rest)
        if rest:
            self._pending.append(rest)


def _write_some(fd: int, data: bytes, wait_s: float) -> int:
    """Write as much as the descriptor takes without blocking, waiting up to `wait_s` in all; how many bytes went."""
    view = memoryview(data)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        # A regular file never makes a writer wait for a reader.
        sent = 0
        while sent < len(view):
            sent += os.write(fd, view[sent:])
        return sent
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    deadline = time.monotonic() + wait_s
    sent = 0
    while sent < len(view):
        left_ms = max(0, round((deadline - time.monotonic()) * 1000))
        if not poll.poll(left_ms):
            break
        try:
            sent += os.write(fd, view[sent : sent + SAFE_BYTES])
        except BlockingIOError:
            if left_ms == 0:
                break
    return sent
