"""Files of certificates: watched, taken whole, and reported when they cannot be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from common.telemetry.log import Log
from dataplane.tls.certificate import CertificateRefused
from dataplane.tls.files import WatchedFiles
from tests.support.certificates import replace

DEADLINE_S = 15.0


class Recorder:
    """Takes what has as much of both files, as a certificate fits its key."""

    def __init__(self, *paths: Path, confirm_s: float = 0.0) -> None:
        self.taken: list[tuple[bytes, ...]] = []
        self.changes = 0
        self.refusals: list[str] = []
        self.looks = 0
        log = Log(lambda _: None)
        self.files = WatchedFiles(
            paths, self.take, log, taken=self.changed, refused=self.refusals.append, poll_s=0.2, confirm_s=confirm_s
        )

    def take(self, contents: Sequence[bytes]) -> None:
        self.looks += 1
        if len(set(contents)) > 1:
            raise CertificateRefused("they do not fit")
        if b"bad" in contents:
            raise CertificateRefused("bad")
        self.taken.append(tuple(contents))

    def changed(self) -> None:
        self.changes += 1

    async def until(self, condition: object) -> None:
        assert callable(condition)
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                await asyncio.sleep(0.01)


@asynccontextmanager
async def watched(recorder: Recorder) -> AsyncIterator[Recorder]:
    await recorder.files.start()
    try:
        yield recorder
    finally:
        await recorder.files.stop()


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "one.crt", tmp_path / "two" / "one.key"
    paths[1].parent.mkdir()
    for path in paths:
        path.write_bytes(b"1")
    return paths


async def test_what_is_there_at_the_start_is_taken_and_is_no_change(pair: tuple[Path, Path]) -> None:
    async with watched(Recorder(*pair)) as recorder:
        assert recorder.taken == [(b"1", b"1")]
        assert recorder.changes == 0


@pytest.mark.parametrize("missing", [0, 1])
async def test_a_missing_file_stops_the_start_and_is_named(pair: tuple[Path, Path], missing: int) -> None:
    pair[missing].unlink()
    with pytest.raises(CertificateRefused, match=f"^{pair[missing]}: cannot be read: No such file or directory$"):
        await Recorder(*pair).files.start()


async def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo"):
        with pytest.raises(CertificateRefused, match="cannot be read"):
            await asyncio.wait_for(Recorder(path).files.start(), DEADLINE_S)


async def test_a_change_of_both_is_taken_once(pair: tuple[Path, Path]) -> None:
    async with watched(Recorder(*pair)) as recorder:
        for path in pair:
            replace(path, b"2")
        await recorder.until(lambda: recorder.changes)
        assert recorder.taken == [(b"1", b"1"), (b"2", b"2")]
        assert recorder.refusals == []


async def test_between_the_two_changes_nothing_is_taken_and_nothing_reported(pair: tuple[Path, Path]) -> None:
    recorder = Recorder(*pair, confirm_s=60.0)
    async with watched(recorder):
        replace(pair[0], b"2")
        await recorder.until(lambda: recorder.looks > 1)
        assert recorder.refusals == []
        replace(pair[1], b"2")
        recorder.files._confirm_s = 0.0
        await recorder.files.look()
        assert recorder.taken[-1] == (b"2", b"2")
        assert recorder.refusals == []
        assert recorder.changes == 1


async def test_what_stays_bad_is_reported_once_and_its_end_too(pair: tuple[Path, Path]) -> None:
    async with watched(Recorder(*pair)) as recorder:
        replace(pair[0], b"2")
        await recorder.until(lambda: recorder.refusals)
        looks = recorder.looks
        await recorder.until(lambda: recorder.looks > looks + 2)
        assert recorder.refusals == ["they do not fit"]
        assert recorder.taken == [(b"1", b"1")]
        replace(pair[0], b"1")
        await recorder.until(lambda: recorder.changes)
        assert recorder.taken == [(b"1", b"1")], "what runs was not taken again"


async def test_another_reason_is_reported_too(pair: tuple[Path, Path]) -> None:
    async with watched(Recorder(*pair)) as recorder:
        replace(pair[0], b"2")
        await recorder.until(lambda: recorder.refusals)
        pair[1].unlink()
        await recorder.until(lambda: len(recorder.refusals) > 1)
        assert recorder.refusals[1].startswith(f"{pair[1]}: cannot be read")


async def test_a_swapped_link_is_seen(tmp_path: Path) -> None:
    """A mounted Kubernetes secret: the files are links into a folder that a link names, which is replaced."""
    for version in ("1", "2"):
        (tmp_path / f"v{version}").mkdir()
        (tmp_path / f"v{version}" / "tls.crt").write_bytes(version.encode())
    (tmp_path / "..data").symlink_to("v1")
    (tmp_path / "tls.crt").symlink_to("..data/tls.crt")
    async with watched(Recorder(tmp_path / "tls.crt")) as recorder:
        (tmp_path / "..new").symlink_to("v2")
        (tmp_path / "..new").replace(tmp_path / "..data")
        await recorder.until(lambda: recorder.changes)
        assert recorder.taken[-1] == (b"2",)


async def test_a_folder_that_disappears_is_looked_for_again(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    folder.mkdir()
    (folder / "tls.crt").write_bytes(b"1")
    async with watched(Recorder(folder / "tls.crt")) as recorder:
        folder.rename(tmp_path / "gone")
        await recorder.until(lambda: recorder.refusals)
        folder.mkdir()
        (folder / "tls.crt").write_bytes(b"2")
        await recorder.until(lambda: recorder.changes)
        assert recorder.taken[-1] == (b"2",)
