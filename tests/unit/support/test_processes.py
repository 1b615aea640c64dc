"""The fixtures' own promises: nothing is left running, and no wait is for ever."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.support import counterparts
from tests.support.nginx import Nginx
from tests.support.ports import bound_socket, free_port, port_of
from tests.support.processes import Child, ChildFailed, Children, eventually

_STUBBORN = (
    "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('ready', flush=True)\ntime.sleep(60)"
)
_PARENT = (
    "import subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    "print('child', child.pid, flush=True)\ntime.sleep(60)"
)


def _ended_within(pid: int, seconds: float) -> bool:
    """The kernel ends a killed process in its own time; a zombie that waits for its parent has ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        os.sched_yield()
    return False


def test_a_child_that_ignores_sigterm_is_killed_within_its_deadline() -> None:
    with Children() as children:
        child = children.start_python("-c", _STUBBORN)
        child.wait_for_line("ready")
        assert child.stop(within_s=0.2) == -9


def test_leaving_the_context_ends_what_a_child_started_too() -> None:
    with Children() as children:
        grandchild = int(children.start_python("-c", _PARENT).wait_for_line(r"child (\d+)")[1])
        os.kill(grandchild, 0)
    assert _ended_within(grandchild, 5.0)


def test_a_failed_wait_shows_what_the_child_said() -> None:
    with Children() as children:
        child = children.start_python("-c", "print('no such table'); raise SystemExit(3)")
        with pytest.raises(ChildFailed, match=r"(?s)ended with 3.*no such table"):
            child.wait_for_line("ready", within_s=10)


def test_a_child_that_ends_is_not_waited_for_on_its_port() -> None:
    with Children() as children:
        child = children.start_python("-c", "pass")
        with pytest.raises(ChildFailed):
            child.wait_for_port(free_port(), within_s=10)


def test_output_larger_than_a_pipe_does_not_block_the_child() -> None:
    with Children() as children:
        child: Child = children.start_python("-c", "print('x' * 1_000_000); print('end')")
        assert child.wait() == 0
        assert child.lines[-1] == "end"


def test_a_bound_socket_holds_its_port_until_it_is_closed() -> None:
    with bound_socket() as held, socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port_of(held)))


@pytest.mark.real
def test_nginx_serves_its_own_folder_on_loopback(nginx: Callable[..., Nginx]) -> None:
    server = nginx(server="location = /hello { return 200 'hello'; }")
    (server.www / "page.html").write_text("a page")
    with httpx.Client(base_url=server.origin) as client:
        assert client.get("/hello").text == "hello"
        assert client.get("/page.html").text == "a page"
    assert eventually(lambda: len(server.access_log()) == 2)  # nginx writes the line behind the answer


@pytest.mark.parametrize(("in_ci", "outcome"), [(True, pytest.fail.Exception), (False, pytest.skip.Exception)])
def test_a_missing_counterpart_fails_in_ci_and_skips_elsewhere(
    in_ci: bool, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counterparts, "IN_CI", in_ci)
    with pytest.raises(outcome, match="no-such-program"):
        counterparts.require_program("no-such-program")
