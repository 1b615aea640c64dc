"""The file of the policy: what is invalid, gone or the same changes nothing."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from dataplane.accessservice import policy_file
from dataplane.accessservice.policy import PolicyInvalid
from dataplane.accessservice.policy_file import PolicyFile
from tests.support.access_transport import RecordedLog


def write(path: Path, subject: str) -> None:
    """Put a new file in the place of the old, as editors do."""
    grants = [{"workspace": "w", "route": "*", "subjects": [subject]}]
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(json.dumps({"version": 1, "grants": grants}))
    fresh.replace(path)


def subjects(file: PolicyFile) -> list[str]:
    return [subject for grant in file.current().grants for subject in grant.subjects]


class SignallingLog(RecordedLog):
    """Says when a policy was taken."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = asyncio.Event()

    def info(self, msg: str, **fields: object) -> None:
        super().info(msg, **fields)
        self.taken.set()

    async def next_taken(self) -> None:
        async with asyncio.timeout(30):
            await self.taken.wait()
        self.taken.clear()


@pytest.fixture
def log() -> SignallingLog:
    return SignallingLog()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "policy.json"
    write(path, "one")
    return path


@pytest.fixture
def file(path: Path, log: RecordedLog) -> PolicyFile:
    return PolicyFile(path, log)  # type: ignore[arg-type]


def test_a_first_policy_that_is_invalid_or_absent_is_an_error(tmp_path: Path, log: RecordedLog) -> None:
    with pytest.raises(OSError):
        PolicyFile(tmp_path / "absent.json", log)  # type: ignore[arg-type]
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(PolicyInvalid):
        PolicyFile(tmp_path / "bad.json", log)  # type: ignore[arg-type]


def test_a_valid_change_is_taken(file: PolicyFile, path: Path, log: RecordedLog) -> None:
    write(path, "two")
    assert file.reload()
    assert subjects(file) == ["two"]
    assert log.messages() == ["policy taken"]


def test_an_invalid_change_changes_nothing_and_is_logged_once_with_its_problems(
    file: PolicyFile, path: Path, log: RecordedLog
) -> None:
    path.write_text('{"version": 1, "grants": [{"route": 1}]}')
    assert not file.reload()
    assert not file.reload()
    assert subjects(file) == ["one"]
    ((level, _, fields),) = log.lines
    assert level == "error"
    assert fields["problems"] == ["grants[0].route: must be a string"]


def test_a_file_that_is_gone_changes_nothing_and_is_logged_once(file: PolicyFile, path: Path, log: RecordedLog) -> None:
    path.unlink()
    assert not file.reload()
    assert not file.reload()
    assert subjects(file) == ["one"]
    assert len(log.lines) == 1
    write(path, "two")
    assert file.reload()


def test_the_same_content_is_no_change(file: PolicyFile, path: Path, log: RecordedLog) -> None:
    write(path, "one")
    os.utime(path, (1, 1))
    assert not file.reload()
    assert log.lines == []


def test_the_last_valid_policy_comes_back_when_the_invalid_one_is_undone(file: PolicyFile, path: Path) -> None:
    path.write_text("{")
    file.reload()
    write(path, "one")
    assert file.reload()
    assert subjects(file) == ["one"]


async def test_a_watched_file_is_taken_when_it_changes_in_place_or_is_replaced(
    file: PolicyFile, path: Path, log: SignallingLog
) -> None:
    stop = asyncio.Event()
    watching = asyncio.create_task(file.watch(stop))
    try:
        for number in range(4):
            wanted = f"subject-{number}"
            if number % 2:
                write(path, wanted)
            else:
                path.write_text(path.read_text().replace(subjects(file)[0], wanted))
            await log.next_taken()
            assert subjects(file) == [wanted]
    finally:
        stop.set()
        await watching


async def test_a_mounted_config_map_is_taken_when_its_link_moves(tmp_path: Path, log: SignallingLog) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / f"..{name}").mkdir()
        write(tmp_path / f"..{name}/policy.json", name)
    (tmp_path / "..data").symlink_to("..one")
    (tmp_path / "policy.json").symlink_to("..data/policy.json")
    file = PolicyFile(tmp_path / "policy.json", log)  # type: ignore[arg-type]
    stop = asyncio.Event()
    watching = asyncio.create_task(file.watch(stop))
    try:
        for name in ("two", "three"):
            (tmp_path / "..new").symlink_to(f"..{name}")
            (tmp_path / "..new").replace(tmp_path / "..data")
            await log.next_taken()
            assert subjects(file) == [name]
    finally:
        stop.set()
        await watching


async def test_a_folder_that_gives_no_notice_is_polled(
    path: Path, log: SignallingLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the system's watches are used up, a change must still be taken."""
    file = PolicyFile(path, log, recheck_ms=100)  # type: ignore[arg-type]
    real = policy_file.awatch

    def awatch(*given: Any, force_polling: bool, **more: Any) -> Any:
        if not force_polling:
            raise OSError("no space left on device")
        return real(*given, force_polling=True, **more)

    monkeypatch.setattr(policy_file, "awatch", awatch)
    stop = asyncio.Event()
    watching = asyncio.create_task(file.watch(stop))
    try:
        for name in ("two", "three"):
            write(path, name)
            await log.next_taken()
            assert subjects(file) == [name]
    finally:
        stop.set()
        await watching
    assert "polled" in log.messages()[0] or "polled" in log.messages()[1]
