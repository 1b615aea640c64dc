"""Log lines to a file descriptor in batches, without ever blocking the loop.

    write(line) -> buffer (bounded) -> one timer for all of them -> as much as the descriptor takes now
                                                                 -> the rest when the loop sees it writable again

A reader that is slow, or stopped, makes the buffer grow to its bound; further lines are dropped and counted, and the
count is written once there is room. Before `attach` and after `close` every line is written at once.

Where several processes share the descriptor, each writes whole lines in its turn (`turn`).
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
import time
from collections import deque
from threading import get_ident

from common.telemetry.log import Clock, event_line
from common.telemetry.turn import Turn

FLUSH_DELAY_S = 0.05
"""A line waits at most this long on a loop that is not busy."""
BATCH_BYTES = 65_536
"""So many bytes are flushed in the next turn of the loop, not at the timer."""
BUFFER_MAX_BYTES = 4 * 1_048_576
"""Some seconds of a busy process; beyond it a line more is memory that a stopped reader would hold."""
JOIN_BYTES = 262_144
"""Joined at a time: more than a pipe or socket takes at once, so that little is joined again."""
# A descriptor that polls writable takes this much without blocking, whatever it is (POSIX: PIPE_BUF is atomic).
SAFE_BYTES = 4_096
CLOSE_WAIT_S = 1.0
TURN_DELAY_S = 0.005
"""Until a turn is asked for again: the other process writes a batch, which takes microseconds."""


class LineWriter:
    """Takes whole lines (bytes with their line feed), keeps their order, and never raises for a broken descriptor."""

    def __init__(self, fd: int, *, max_bytes: int = BUFFER_MAX_BYTES, turn: Turn | None = None) -> None:
        """`turn` is shared with the other processes that write to `fd`; None where there are none."""
        self._fd = fd
        self._turn = turn
        self._waits_turn = False
        self._in_line = False
        self._max_bytes = max_bytes
        self._pending: deque[bytes] = deque()
        self._size = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._timer: asyncio.Handle | None = None
        self._hurried = False
        self._watching = False
        self._unreported = 0
        self.dropped = 0
        """Lines lost since the start: the buffer was full, or the descriptor was closed."""

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Batch from now on. Call it on the loop's own thread."""
        self._loop = loop
        self._thread = get_ident()

    def write(self, line: bytes) -> None:
        """Take a line; from another thread than the loop's it is handed over first."""
        loop = self._loop
        if loop is None:
            self._append(line)
            self._flush(wait_s=CLOSE_WAIT_S)
        elif get_ident() == self._thread:
            self._append(line)
            if self._timer is None or self._size >= BATCH_BYTES or loop.is_closed():
                self._schedule(loop)
        else:
            try:
                loop.call_soon_threadsafe(self.write, line)
            except RuntimeError:  # the loop was closed, and this thread went on
                self._lose(1)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._watching:
            return
        if loop.is_closed():
            # What is still said between the end of the loop and `close` is said at once.
            self.close()
        elif self._timer is None:
            self._timer = loop.call_later(FLUSH_DELAY_S, self._on_timer)
        elif self._size >= BATCH_BYTES and not self._hurried:
            self._hurried = True
            self._timer.cancel()
            self._timer = loop.call_soon(self._on_timer)

    def close(self) -> None:
        """Write what is left, waiting a bounded time for the descriptor; what it does not take is dropped."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._watch(False)
        self._loop = None
        self._flush(wait_s=CLOSE_WAIT_S)

    def _append(self, line: bytes) -> None:
        size = self._size + len(line)
        if size > self._max_bytes:
            self._lose(1)
            return
        self._pending.append(line)
        self._size = size

    def _lose(self, lines: int) -> None:
        self.dropped += lines
        self._unreported += lines

    def _on_timer(self) -> None:
        self._timer = None
        self._hurried = False
        self._flush()
        self._await_room()

    def _on_writable(self) -> None:
        self._flush()
        self._await_room()

    def _await_room(self) -> None:
        if not self._waits_turn:
            self._watch(bool(self._pending))
            return
        self._watch(False)
        if self._timer is None and self._loop is not None:
            self._timer = self._loop.call_later(TURN_DELAY_S, self._on_timer)

    def _watch(self, on: bool) -> None:
        """Have the loop say when the descriptor takes more; one that cannot be watched is tried again by the timer."""
        loop = self._loop
        if loop is None or on is self._watching:
            return
        if not on:
            self._watching = False
            if not loop.is_closed():
                loop.remove_writer(self._fd)
            return
        try:
            loop.add_writer(self._fd, self._on_writable)
            self._watching = True
        except OSError:
            if self._timer is None:
                self._timer = loop.call_later(FLUSH_DELAY_S, self._on_timer)

    def _flush(self, wait_s: float = 0.0) -> None:
        if self._send(wait_s) and self._unreported:
            # Once everything that was kept has left: while the reader is stopped, such lines would pile up too.
            line = _dropped_line(self._unreported)
            self._unreported = 0
            self._append(line)
            self._send(0.0)
        if wait_s and self._in_line and self._turn is not None:
            self._abandon_line(self._turn)

    def _abandon_line(self, turn: Turn) -> None:
        """Nothing will say when there is room for the rest of it, and the others wait."""
        _, _, following = self._pending.popleft().partition(b"\n")
        self._pending.appendleft(following)
        self._size = sum(map(len, self._pending))
        self._lose(1)
        self._in_line = False
        turn.give()

    def _send(self, wait_s: float) -> bool:
        """Whether all that was pending has left. The turn is kept only within a line that is longer than a pipe takes
        at once.
        """
        turn = self._turn
        if turn is None or not self._pending:
            return self._send_pending(wait_s)
        self._waits_turn = not turn.take(wait_s)
        if self._waits_turn:
            return False
        if turn.unfinished and not self._in_line:
            self._pending.appendleft(b"\n")  # another process ended within its line
            self._size += 1
        everything = self._send_pending(wait_s)
        turn.unfinished = self._in_line
        if not self._in_line:
            turn.give()
        return everything

    def _send_pending(self, wait_s: float) -> bool:
        while self._pending:
            batch = self._take_batch()
            try:
                written = _write_some(self._fd, batch, wait_s)
            except OSError:
                # Closed by its reader, or the disk is full: nothing that a log line could be written about.
                self._lose(batch.count(b"\n"))
                self._in_line = False
                return False
            if written:
                self._in_line = not batch.endswith(b"\n", 0, written)
            if written < len(batch):
                self._pending.appendleft(batch[written:])
                self._size += len(batch) - written
                return False
        return True

    def _take_batch(self) -> bytes:
        if self._size <= JOIN_BYTES:
            batch = b"".join(self._pending)
            self._pending.clear()
            self._size = 0
            return batch
        lines: list[bytes] = []
        size = 0
        while self._pending and size < JOIN_BYTES:
            line = self._pending.popleft()
            lines.append(line)
            size += len(line)
        self._size -= size
        return b"".join(lines)


def _dropped_line(lines: int) -> bytes:
    return event_line(Clock().text(), "warning", "Log lines were dropped: their reader is too slow", {"dropped": lines})


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
            sent += os.write(fd, view[sent : _piece_end(data, sent)])
        except BlockingIOError:
            if left_ms == 0:
                break
    return sent


def _piece_end(data: bytes, start: int) -> int:
    """Where the piece that begins at `start` ends: behind its last whole line, or within the first where that is longer
    than a piece.
    """
    end = start + SAFE_BYTES
    if end >= len(data):
        return len(data)
    return data.rfind(b"\n", start, end) + 1 or end
