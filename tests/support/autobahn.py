"""The Autobahn test suite, in the Python 2.7 that it needs: its fuzzing client and server as child processes."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.ports import free_port
from tests.support.processes import Child, Children

PACKAGES = Path(sys.prefix) / "autobahn"
"""Where `deploy/run test` installs the suite."""

ALL_BUT_THE_LONG_ONES = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "10.*"]
"""Framing, pings, reserved bits, opcodes, fragmentation, UTF-8, closing."""
SAMPLE_OF_THE_LONG_ONES = [
    *("9.1.1", "9.1.3", "9.2.3", "9.3.5", "9.5.4", "9.7.2"),
    *("12.1.3", "12.2.3", "12.5.5", "13.3.4", "13.7.2"),
]
"""Of large messages (9) and of compression (12, 13), which make hundreds of cases over minutes."""

# Its packages stand in a folder of their own, whose .pth files (a namespace package needs one) only `site` reads.
_RUN = """
import site, sys
site.addsitedir({packages!r})
sys.path.insert(0, {packages!r})
from autobahntestsuite import wstest
wstest.run()
"""

Verdicts = dict[str, tuple[str, str]]
"""Behaviour and behaviour when closing, by case."""


@functools.cache
def find_python27() -> str | None:
    """A Python 2.7 that has the suite: that of `PYTHON27`, on `PATH`, or of pyenv; None without one."""
    pyenv = sorted(Path.home().glob(".pyenv/versions/2.7*/bin/python2.7"))
    for candidate in (os.environ.get("PYTHON27"), shutil.which("python2.7"), *map(str, pyenv)):
        if candidate is None:
            continue
        probe = f"import site; site.addsitedir({str(PACKAGES)!r}); import zope.interface, autobahn"
        environment = {**_environment(), "PYTHONPATH": str(PACKAGES)}
        try:
            told = subprocess.run(
                [candidate, "-c", probe], env=environment, capture_output=True, timeout=30, check=False
            )
        except OSError:
            continue
        if told.returncode == 0:
            return candidate
    return None


def require_python27() -> str:
    """The Python 2.7; without one the test is skipped, in CI too: few machines have it."""
    found = find_python27()
    if found is None:
        pytest.skip(
            "NOT RUN: the WebSocket conformance suite needs a Python 2.7 (PYTHON27, PATH or pyenv) with the packages "
            "of tests/support/autobahn.lock, which `deploy/run test` installs where it finds one"
        )
    return found


def fuzz_servers(children: Children, folder: Path, urls: Mapping[str, str], cases: list[str]) -> Child:
    """The suite's client, which tests one server after the other, by name and URL; it ends when it is done."""
    servers = [{"agent": name, "url": url, "options": {"version": 18}} for name, url in urls.items()]
    return _start(children, folder, "fuzzingclient", {"servers": servers, "cases": cases})


@asynccontextmanager
async def fuzzing_server(children: Children, folder: Path, cases: list[str]) -> AsyncIterator[int]:
    """The port of the suite's server, which tests the clients that connect to it."""
    port = free_port()
    child = _start(children, folder, "fuzzingserver", {"url": f"ws://127.0.0.1:{port}", "cases": cases}, "--webport=0")
    await asyncio.to_thread(child.wait_for_port, port, within_s=60)
    yield port
    child.stop()


def verdicts(folder: Path, agent: str) -> Verdicts:
    """What the suite found of an agent."""
    report = json.loads((folder / "index.json").read_text())[agent]
    return {case: (found["behavior"], found["behaviorClose"]) for case, found in report.items()}


def differences(one: Verdicts, other: Verdicts) -> dict[str, tuple[tuple[str, str], tuple[str, str]]]:
    """The cases that were judged differently.

    `NON-STRICT` passes: it says that an echo had not come before a connection failed, which is a matter of time.
    """
    assert set(one) == set(other)
    return {case: (one[case], other[case]) for case in one if _passed(one[case]) != _passed(other[case])}


def _passed(verdict: tuple[str, str]) -> tuple[str, str]:
    behavior, when_closing = verdict
    return "OK" if behavior == "NON-STRICT" else behavior, when_closing


def _start(children: Children, folder: Path, mode: str, spec: dict[str, Any], *more: str) -> Child:
    file = folder / f"{mode}.json"
    file.write_text(json.dumps({"outdir": str(folder), "exclude-cases": [], "exclude-agent-cases": {}, **spec}))
    program = _RUN.format(packages=str(PACKAGES))
    argv = [require_python27(), "-c", program, "-m", mode, "-s", file, *more]
    return children.start(argv, name=f"autobahn {mode}", env=_environment(), cwd=folder)


def _environment() -> dict[str, str]:
    """Nothing of the tests' own Python leaks in."""
    keep = ("PATH", "HOME", "TMPDIR", "LANG")
    return {name: os.environ[name] for name in keep if name in os.environ}
