"""Child processes with a deadline on everything: started in a group of their own, output captured, never left behind.

A child's output is read by a thread from the moment it starts, so a full pipe never blocks it, and a failed wait shows
what the child said. `Children` stops whatever a test started, in reverse order, however the test ends.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

_T = TypeVar("_T")

_POLL_S = 0.02
_TAIL_CHARACTERS = 4_000


class ChildFailed(AssertionError):
    """A child ended, stayed silent or stayed alive when it should not have; the message holds its last output."""


class Child:
    """One running program and all that it starts."""

    def __init__(
        self,
        argv: Sequence[str | Path],
        *,
        name: str = "",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        """Start `argv`. `env` replaces the environment; None keeps this process's."""
        self.name = name or Path(argv[0]).name
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        self._process = subprocess.Popen(
            [str(part) for part in argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=None if env is None else dict(env),
            cwd=cwd,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, name=f"output of {self.name}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self._lines.append(line.rstrip("\r\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def pid(self) -> int:
        """The child's process id, which is also its group's."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, None while it runs, minus the signal's number when a signal ended it."""
        return self._process.poll()

    @property
    def lines(self) -> list[str]:
        """What it has printed so far, standard output and error together, line by line."""
        with self._changed:
            return list(self._lines)

    @property
    def output(self) -> str:
        """What it has printed so far, as one text."""
        return "\n".join(self.lines)

    def wait_for_line(self, pattern: str, *, within_s: float = 15.0) -> re.Match[str]:
        """The first match of `pattern` in a line of output, past or to come; `ChildFailed` when it does not come."""
        wanted = re.compile(pattern)
        deadline = time.monotonic() + within_s
        seen = 0
        with self._changed:
            while True:
                for line in self._lines[seen:]:
                    if (match := wanted.search(line)) is not None:
                        return match
                seen = len(self._lines)
                left = deadline - time.monotonic()
                if self._ended or left <= 0:
                    break
                self._changed.wait(left)
        raise self._failure(f"printed no line like {pattern!r} within {within_s:g} s")

    def wait_for_port(self, port: int, *, host: str = "127.0.0.1", within_s: float = 15.0) -> None:
        """Return once something accepts connections on the port; `ChildFailed` when nothing does in time."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1.0):
                return
            if self.returncode is not None:
                break
            with self._changed:
                self._changed.wait(_POLL_S)
        raise self._failure(f"accepted no connection on port {port} within {within_s:g} s")

    def wait(self, *, within_s: float = 15.0) -> int:
        """The exit code, once it ends by itself; `ChildFailed` when it does not in time."""
        try:
            code = self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise self._failure(f"did not end within {within_s:g} s") from None
        self._reader.join(within_s)
        return code

    def interrupt(self) -> None:
        """What Ctrl-C does: SIGINT to the whole group."""
        self._signal(signal.SIGINT)

    def send_group(self, number: signal.Signals) -> None:
        """Send a signal to the child and to all that it started."""
        self._signal(number)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the child alone, not to what it started."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def kill(self) -> None:
        """End the whole group at once, as a power cut would; returns when the child is gone."""
        self._signal(signal.SIGKILL)
        self._process.wait(5.0)
        self._close()

    def stop(self, *, within_s: float = 5.0) -> int:
        """SIGTERM, then SIGKILL for what is left when the time is over; the exit code."""
        if self._process.poll() is None:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(within_s)
        self._signal(signal.SIGKILL)
        code = self._process.wait(5.0)
        self._close()
        return code

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _close(self) -> None:
        self._reader.join(5.0)
        if self._process.stdout is not None and not self._reader.is_alive():
            self._process.stdout.close()

    def _failure(self, what: str) -> ChildFailed:
        if self._ended:
            # Its output is over, so it is ending: the exit code says more than "is running".
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)
        state = "is running" if self.returncode is None else f"ended with {self.returncode}"
        return ChildFailed(f"{self.name} {what}; it {state}. Its output:\n{self.output[-_TAIL_CHARACTERS:]}")


class Children:
    """The children of one test or fixture; leaving the context stops them all, the last started first."""

    def __init__(self) -> None:
        self._children: list[Child] = []

    def start(
        self,
        argv: Sequence[str | Path],
        *,
        name: str = "",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Child:
        """Start a program; see `Child`."""
        child = Child(argv, name=name, env=env, cwd=cwd)
        self._children.append(child)
        return child

    def start_python(
        self, *arguments: str | Path, name: str = "", env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Child:
        """Start this interpreter with `arguments`."""
        return self.start([sys.executable, *arguments], name=name or "python", env=env, cwd=cwd)

    def __enter__(self) -> Children:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop_all()

    def stop_all(self) -> None:
        """Stop every child; the first failure to stop is raised after all were tried."""
        failure: Exception | None = None
        while self._children:
            try:
                self._children.pop().stop()
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure


def eventually(check: Callable[[], _T], *, within_s: float = 15.0) -> _T:
    """The first true value of `check`, for what another process does in its own time; fails when there is none."""
    deadline = time.monotonic() + within_s
    pause = threading.Event()
    while not (value := check()):
        if time.monotonic() >= deadline:
            raise AssertionError(f"did not come true within {within_s:g} s")
        pause.wait(_POLL_S)
    return value


@contextlib.contextmanager
def running(
    argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Iterator[Child]:
    """One child for the length of a `with` block."""
    with Children() as children:
        yield children.start(argv, env=env, cwd=cwd)
