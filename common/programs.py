"""What every program does before and behind its commands, whatever it was started with and writes to."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Callable

# Of a write, on a full or broken disk, a terminal that is gone, or an output that was closed before the start. A reader
# that went away (EPIPE) wants to hear nothing.
_NOT_WRITTEN = frozenset({errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC})


def run_program(app: Callable[..., object], name: str) -> None:
    """Run a program to its end. Output that cannot be written ends it with 1 and a line that says why."""
    hold_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A locale that lacks a character is no reason to say nothing.
            stream.reconfigure(errors="backslashreplace")
    try:
        app(prog_name=name)
    except OSError as error:
        if error.errno not in _NOT_WRITTEN or error.filename is not None:
            raise
        give_up_stdout()
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{name}: The output cannot be written: {error.strerror}.\n")
        sys.exit(1)


def hold_standard_streams() -> None:
    """Open those of the three that were closed before the start, in the form of an empty input, an output that fails,
    and a place for errors that keeps none.

    Otherwise the next files and sockets would get their numbers: what is meant for a person would go to a caller, and
    the event loop ends the process when it closes one.
    """
    if _hold(0, os.O_RDONLY):
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (as long as the process lives)
    if _hold(1, os.O_RDONLY):
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if _hold(2, os.O_WRONLY):
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def give_up_stdout() -> None:
    """Throw away what is left to be written: at the end of the program it would fail once more."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())


def _hold(number: int, flags: int) -> bool:
    """Whether the stream was closed, and is open now: the lowest free number is the one that is given."""
    try:
        os.fstat(number)
    except OSError:
        opened = os.open(os.devnull, flags)
        os.set_inheritable(opened, True)  # for the programs that this one starts
        return opened == number
    return False
