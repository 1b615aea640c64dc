"""Documents are worked on off the event loop, the large ones in a process that can be ended."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.routetable.problems import Problem
from common.settings.gateway import GatewaySettings
from controlplane.config.judge import Judged, Terms
from controlplane.config.workers import WorkEnded, Workers

SMALL, LARGE = 10, 11
DEADLINE_S = 60.0


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers(large_bytes=10)
    yield made
    made.close()


def where() -> tuple[int, int]:
    return os.getpid(), threading.get_ident()


def refuse() -> None:
    raise ValueError("no table")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang(started: str) -> None:
    Path(started).touch()
    threading.Event().wait()


async def test_what_is_small_is_done_in_a_thread_and_what_is_large_in_a_process(workers: Workers) -> None:
    pid, thread = await workers.run(SMALL, where)
    assert pid == os.getpid()
    assert thread != threading.get_ident()
    assert (await workers.run(LARGE, where))[0] != os.getpid()


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_a_failure_of_the_work_is_raised_where_it_is_waited_for(workers: Workers, size: int) -> None:
    with pytest.raises(ValueError, match="no table"):
        await workers.run(size, refuse)


async def test_a_process_that_is_killed_is_a_failure_and_the_next_one_works(workers: Workers) -> None:
    """The system kills what takes too much memory."""
    with pytest.raises(WorkEnded):
        await workers.run(LARGE, die)
    assert (await workers.run(LARGE, where))[0] != os.getpid()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
async def test_a_process_that_ends_before_it_has_read_its_work_is_a_failure(
    workers: Workers, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """More than a pipe holds is on its way then, and nobody is there to read it."""
    start = asyncio.create_subprocess_exec

    async def ended(*command: str, **options: Any) -> asyncio.subprocess.Process:
        process = await start(*command, **options)
        process.send_signal(number)
        return process

    async with asyncio.timeout(DEADLINE_S):
        with monkeypatch.context() as patch:
            patch.setattr(asyncio, "create_subprocess_exec", ended)
            with pytest.raises(WorkEnded):
                await workers.run(LARGE, len, bytes(1_000_000))
        assert await workers.run(LARGE, len, bytes(1_000_000)) == 1_000_000


async def test_whoever_is_cancelled_ends_the_process(workers: Workers, tmp_path: Path) -> None:
    started = tmp_path / "started"
    work = asyncio.ensure_future(workers.run(LARGE, hang, str(started)))
    async with asyncio.timeout(DEADLINE_S):
        while not started.exists():
            await asyncio.sleep(0.01)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert (await workers.run(LARGE, where))[0] != os.getpid()


async def test_closing_ends_what_is_being_done(tmp_path: Path) -> None:
    """Else the program would end when the work does."""
    workers = Workers(large_bytes=10)
    started = tmp_path / "started"
    work = asyncio.ensure_future(workers.run(LARGE, hang, str(started)))
    async with asyncio.timeout(DEADLINE_S):
        while not started.exists():
            await asyncio.sleep(0.01)
        workers.close()
        with pytest.raises(WorkEnded):
            await work


@pytest.mark.parametrize("sent", [b"", pickle.dumps((where, ()))[:-9]])
def test_a_process_whose_asker_ended_before_it_was_told_its_work_says_nothing(sent: bytes) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "controlplane.config.workers"], input=sent, capture_output=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, b"", b"")


def test_a_process_whose_asker_ended_before_the_answer_says_nothing() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "controlplane.config.workers"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    assert process.communicate(pickle.dumps((bytes, (1_000_000,))), timeout=60) == (None, b"")
    assert process.returncode == 1


def test_what_is_judged_can_be_given_to_a_process() -> None:
    settings = GatewaySettings()
    terms = Terms(settings.route_defaults, settings.surroundings, protected=frozenset({"a"}))
    assert pickle.loads(pickle.dumps(terms)) == terms
    judged = Judged(problems=(Problem("routes", "is required"),))
    assert pickle.loads(pickle.dumps(judged)) == judged
