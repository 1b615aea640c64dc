"""A program on a terminal of its own: what it shows there, and what a person types."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

DEADLINE_S = 60.0


class Terminal:
    """A program that believes to talk to a person. Blocking, with a deadline on everything."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self._master = master
        self._process = process
        self.shown = ""

    def expect(self, text: str) -> None:
        """Return once the program has shown a text."""
        deadline = time.monotonic() + DEADLINE_S
        while text not in self.shown:
            assert time.monotonic() < deadline, f"never shown: {text!r} in {self.shown!r}"
            assert self._read(), f"ended without {text!r}: {self.shown!r}"

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    def wait(self) -> int:
        """The exit code, once it has ended and all that it showed was read."""
        while self._read():
            pass
        return self._process.wait(DEADLINE_S)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], DEADLINE_S)
        assert ready, f"silent: {self.shown!r}"
        try:
            piece = os.read(self._master, 65_536)
        except OSError:  # Linux says EIO when the other side is closed
            return False
        self.shown += piece.decode()
        return bool(piece)


@contextmanager
def on_terminal(argv: Sequence[str], *, env: Mapping[str, str], columns: int = 80) -> Iterator[Terminal]:
    """Run a Python program (its arguments behind the interpreter's name) on a terminal of this width."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    # The terminal must be the program's own, or ^C would be a character like any other.
    own = ["setsid", "--ctty", "--wait", sys.executable, *argv]
    process = subprocess.Popen(own, stdin=slave, stdout=slave, stderr=slave, env=dict(env))
    os.close(slave)
    try:
        yield Terminal(master, process)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait(DEADLINE_S)
        os.close(master)
