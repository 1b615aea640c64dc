"""Lines leave in batches; a reader that is slow or gone costs lines, never the loop (§12.2, batched writes)."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.telemetry.line_writer import BATCH_BYTES, LineWriter
from common.telemetry.turn import Turn


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 65_536)
    yield reader, writer
    for fd in (reader, writer):
        with contextlib.suppress(OSError):
            os.close(fd)


def read_all(fd: int) -> bytes:
    data = b""
    while True:
        try:
            piece = os.read(fd, 1_048_576)
        except BlockingIOError:
            return data
        if not piece:
            return data
        data += piece


async def until_read(fd: int, count: int) -> bytes:
    """Read until so many lines have come, as a log reader would."""
    data = b""
    async with asyncio.timeout(5):
        while data.count(b"\n") < count:
            await asyncio.sleep(0)
            data += read_all(fd)
    return data


async def test_lines_are_held_until_the_loop_turns_and_then_leave_in_order(pipe: tuple[int, int]) -> None:
    reader, fd = pipe
    writer = LineWriter(fd)
    writer.attach(asyncio.get_running_loop())
    for number in range(10):
        writer.write(b"%d\n" % number)
    assert read_all(reader) == b""
    assert await until_read(reader, 10) == b"".join(b"%d\n" % number for number in range(10))
    writer.close()


async def test_a_full_batch_leaves_in_the_next_turn_of_the_loop(pipe: tuple[int, int]) -> None:
    reader, fd = pipe
    writer = LineWriter(fd)
    writer.attach(asyncio.get_running_loop())
    line = b"x" * 1_023 + b"\n"
    for _ in range(BATCH_BYTES // len(line) + 1):
        writer.write(line)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(read_all(reader)) > BATCH_BYTES // 2
    writer.close()


async def test_a_reader_that_stopped_never_blocks_the_loop_and_costs_counted_lines(pipe: tuple[int, int]) -> None:
    reader, fd = pipe
    writer = LineWriter(fd, max_bytes=100_000)
    writer.attach(asyncio.get_running_loop())
    kept = 0
    for number in range(1_000):
        writer.write(b"%-999d\n" % number)
        kept = number + 1 - writer.dropped
        if number % 100 == 0:
            await asyncio.sleep(0)
    assert 0 < writer.dropped < 1_000
    dropped = writer.dropped
    lines = (await until_read(reader, kept + 1)).splitlines()
    numbers = [int(line) for line in lines[:kept]]
    assert numbers == sorted(set(numbers))
    assert numbers[:50] == list(range(50))
    told = json.loads(lines[kept])
    assert (told["level"], told["dropped"]) == ("warning", dropped)
    writer.write(b"after\n")
    assert await until_read(reader, 1) == b"after\n"
    assert writer.dropped == dropped
    writer.close()


async def test_a_reader_that_left_costs_lines_and_nothing_else(pipe: tuple[int, int]) -> None:
    reader, fd = pipe
    writer = LineWriter(fd)
    os.close(reader)
    writer.write(b"before the loop\n")
    writer.attach(asyncio.get_running_loop())
    writer.write(b"one\n")
    writer.write(b"two\n")
    writer.close()
    assert writer.dropped == 3


async def test_closing_writes_what_is_left(pipe: tuple[int, int]) -> None:
    reader, fd = pipe
    writer = LineWriter(fd)
    writer.attach(asyncio.get_running_loop())
    writer.write(b"last\n")
    writer.close()
    assert read_all(reader) == b"last\n"
    writer.write(b"later still\n")
    assert read_all(reader) == b"later still\n"


def test_closing_with_a_reader_that_stopped_ends(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("common.telemetry.line_writer.CLOSE_WAIT_S", 0.01)
    _, fd = pipe
    writer = LineWriter(fd, max_bytes=1_000_000)
    for _ in range(70):
        writer.write(b"x" * 999 + b"\n")
    writer.close()


async def test_lines_of_other_threads_join_those_of_the_loop(pipe: tuple[int, int]) -> None:
    reader, fd = pipe
    writer = LineWriter(fd)
    writer.attach(asyncio.get_running_loop())
    threads = [threading.Thread(target=writer.write, args=(b"%d\n" % number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted((await until_read(reader, 8)).split()) == [b"%d" % number for number in range(8)]
    writer.close()


async def test_a_file_takes_everything_at_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    writer = LineWriter(fd)
    writer.attach(asyncio.get_running_loop())
    for _ in range(1_000):
        writer.write(b"x" * 999 + b"\n")
    writer.close()
    os.close(fd)
    assert path.stat().st_size == 1_000_000


async def test_a_socket_is_written_without_blocking() -> None:
    left, right = socket.socketpair()
    with left, right:
        writer = LineWriter(left.fileno(), max_bytes=2_000_000)
        writer.attach(asyncio.get_running_loop())
        for _ in range(1_000):
            writer.write(b"x" * 999 + b"\n")
        right.setblocking(False)
        assert (await until_read(right.fileno(), 1_000)).count(b"\n") == 1_000
        writer.close()


async def test_a_reader_that_keeps_up_gets_more_than_a_pipe_holds_without_waiting_for_the_timer(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe holds 64 KiB: with one pipeful a timer, a busy process would lose most of its lines."""
    monkeypatch.setattr("common.telemetry.line_writer.FLUSH_DELAY_S", 3_600)
    reader, fd = pipe
    writer = LineWriter(fd)
    writer.attach(asyncio.get_running_loop())
    for _ in range(1_000):
        writer.write(b"x" * 999 + b"\n")
    assert (await until_read(reader, 1_000)).count(b"\n") == 1_000
    assert writer.dropped == 0
    writer.close()


async def test_a_reader_that_leaves_while_the_loop_waits_for_it_is_noticed(pipe: tuple[int, int]) -> None:
    reader, fd = pipe
    writer = LineWriter(fd)
    writer.attach(asyncio.get_running_loop())
    for _ in range(100):
        writer.write(b"x" * 999 + b"\n")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    os.close(reader)
    async with asyncio.timeout(5):
        while not writer.dropped:
            await asyncio.sleep(0)
    writer.close()


def test_what_is_said_after_the_loop_was_closed_is_still_written(pipe: tuple[int, int]) -> None:
    reader, fd = pipe
    loop = asyncio.new_event_loop()
    writer = LineWriter(fd)
    writer.attach(loop)
    writer.write(b"before\n")
    loop.close()
    writer.write(b"after\n")
    thread = threading.Thread(target=writer.write, args=(b"of a thread\n",))
    thread.start()
    thread.join()
    writer.write(b"later\n")
    writer.close()
    assert read_all(reader) == b"before\nafter\nof a thread\nlater\n"


def test_closing_after_the_loop_was_closed_while_it_waited_for_a_reader_ends(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("common.telemetry.line_writer.CLOSE_WAIT_S", 0.01)
    _, fd = pipe
    writer = LineWriter(fd)

    async def fill() -> None:
        writer.attach(asyncio.get_running_loop())
        for _ in range(100):
            writer.write(b"x" * 999 + b"\n")
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(fill())
    writer.close()


async def test_a_disk_that_was_full_for_a_while_is_told_of_once_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    writer = LineWriter(fd)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        writer.write(b"one\n")
        writer.write(b"two\n")
    writer.write(b"three\n")
    writer.close()
    os.close(fd)
    three, report = path.read_bytes().splitlines()
    assert three == b"three"
    assert json.loads(report)["dropped"] == writer.dropped == 2
    assert json.loads(report)["level"] == "warning"


SHARING = """
import asyncio, os, sys
from common.telemetry.line_writer import LineWriter
from common.telemetry.turn import Turn

turn, lines = Turn(), int(sys.argv[1])

async def work(number):
    writer = LineWriter(1, turn=turn)
    writer.attach(asyncio.get_running_loop())
    for count in range(lines):
        filling = b"%d" % number * (20_000 if count % 10 == 0 else 100)
        writer.write(b"%d %d %s\\n" % (number, count, filling))
        await asyncio.sleep(0)
    while writer._pending:
        await asyncio.sleep(0.001)
    writer.close()

for number in range(4):
    if os.fork() == 0:
        asyncio.run(work(number))
        os._exit(0)
for number in range(4):
    os.wait()
"""


@pytest.mark.parametrize("kind", ["pipe", "socket", "file"])
def test_lines_of_four_processes_on_one_descriptor_stay_whole(kind: str, tmp_path: Path) -> None:
    """A line longer than a pipe takes at once would be cut by another process's, and look like one that it wrote."""
    argv = [sys.executable, "-c", SHARING, "60"]
    if kind == "file":
        with (tmp_path / "log").open("wb") as file:
            subprocess.run(argv, stdout=file, timeout=60, check=True)
        data = (tmp_path / "log").read_bytes()
    elif kind == "socket":
        near, far = socket.socketpair()
        with near, far, subprocess.Popen(argv, stdout=far.fileno()) as process:
            far.close()
            data = b"".join(iter(lambda: near.recv(3_000), b""))
            assert process.wait(60) == 0
    else:
        data = subprocess.run(argv, stdout=subprocess.PIPE, timeout=60, check=True).stdout
    seen: dict[str, list[int]] = {str(number): [] for number in range(4)}
    for line in data.decode().splitlines():
        number, count, filling = line.split(" ")
        assert filling == number * (20_000 if int(count) % 10 == 0 else 100)
        seen[number].append(int(count))
    assert all(counts == list(range(60)) for counts in seen.values())


def test_a_line_that_another_process_left_unfinished_does_not_spoil_the_next(pipe: tuple[int, int]) -> None:
    reader, fd = pipe
    turn = Turn()
    assert turn.take()
    os.write(fd, b"the beginning of")
    turn.unfinished = True
    turn.give()
    writer = LineWriter(fd, turn=turn)
    writer.write(b"one\n")
    writer.write(b"two\n")
    assert read_all(reader) == b"the beginning of\none\ntwo\n"


def test_a_long_line_that_finds_no_room_at_the_end_is_given_up_and_the_turn_with_it(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("common.telemetry.line_writer.CLOSE_WAIT_S", 0.01)
    reader, fd = pipe
    turn = Turn()
    writer = LineWriter(fd, turn=turn)
    writer.write(b"x" * 70_000 + b"\n")
    assert turn.unfinished
    assert writer.dropped == 1
    begun = read_all(reader)
    assert begun == b"x" * 65_536
    LineWriter(fd, turn=turn).write(b"of another\n")
    assert read_all(reader) == b"\nof another\n"


HOLDING = """
import sys
from common.telemetry.turn import Turn
import os
turn = Turn()
read, write = os.pipe()
if os.fork() == 0:
    assert turn.take()
    os.write(write, b"x")
    sys.stdin.readline()
    os._exit(0)
os.read(read, 1)
print(turn.take(), turn.take(0.01), flush=True)
print(turn.take(10), flush=True)
"""


def test_a_turn_is_one_processs_alone_and_ends_with_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "False False\n"
        process.stdin.write("end\n")
        process.stdin.flush()
        assert process.stdout.readline() == "True\n"
