"""Signals as something to read, for a program that waits in `select` and not in an event loop."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterable

READ_BYTES = 1_024


class Signals:
    """From its creation on the numbers of these signals are read from `socket`."""

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        self._numbers = tuple(numbers)
        self.socket, self._told = socket.socketpair()
        self.socket.setblocking(False)
        self._told.setblocking(False)
        signal.set_wakeup_fd(self._told.fileno(), warn_on_full_buffer=False)
        for number in self._numbers:
            signal.signal(number, _noted)

    def read(self) -> list[int]:
        """Those that came since; several of one number may be one."""
        try:
            return list(self.socket.recv(READ_BYTES))
        except BlockingIOError:
            return []

    def leave_to_child(self) -> None:
        """In a process just forked: its signals are its own from now on.

        SIGINT and SIGHUP do nothing until its event loop takes them, SIGTERM ends it.
        """
        signal.set_wakeup_fd(-1)
        for number in self._numbers:
            ignored = number in (signal.SIGINT, signal.SIGHUP)
            signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
        self.socket.close()
        self._told.close()


def _noted(*_: object) -> None:
    """Python writes the number to the wakeup descriptor only where a signal has a handler of its own."""
