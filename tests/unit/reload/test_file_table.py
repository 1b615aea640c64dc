"""The file's table replaces the running one whole, or not at all (§12.3)."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from common.settings.gateway import GatewaySettings
from common.settings.secret import Secret
from common.telemetry.log import Log
from dataplane.metrics import GatewayMetrics
from dataplane.reload import file_table
from dataplane.reload.file_table import FileTable
from dataplane.snapshot import Snapshot
from tests.support.route_tables import document, route

DEADLINE_S = 20
NEVER_S = 3_600.0
"""A poll that does not come within a test."""

ONE = document(route("one", "/one"))
TWO = document(route("two", "/two"))
BROKEN = document(route("bad", "no-slash"), route("good", "/"))


class Harness:
    """A `FileTable` with what it told: its log lines, its metrics and the snapshots it handed out."""

    def __init__(self, path: Path, poll_s: float, **settings: Any) -> None:
        self.lines: list[dict[str, Any]] = []
        self.snapshots: list[Snapshot] = []
        self.told = asyncio.Event()
        self.metrics = GatewayMetrics()
        loop = asyncio.get_running_loop()

        def write(line: bytes) -> None:
            assert asyncio.get_running_loop() is loop, "log lines are written on the loop"
            self.lines.append(json.loads(line))
            self.told.set()

        self.table = FileTable(
            GatewaySettings(config=path, **settings),
            Log(write),
            self.metrics,
            on_change=self.snapshots.append,
            poll_s=poll_s,
        )

    @property
    def routes(self) -> list[str]:
        current = self.table.current
        return [] if current is None else [one.id for one in current.table.routes]

    def messages(self, level: str = "error") -> list[str]:
        return [line["msg"] for line in self.lines if line["level"] == level]

    def reloads(self) -> tuple[float, float]:
        return self.metrics.config_reloads.value("ok"), self.metrics.config_reloads.value("failed")

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds, woken by each log line."""
        async with asyncio.timeout(DEADLINE_S):
            while not holds():
                self.told.clear()
                if not holds():
                    await self.told.wait()


@asynccontextmanager
async def running(path: Path, *, poll_s: float = NEVER_S, **settings: Any) -> AsyncIterator[Harness]:
    harness = Harness(path, poll_s, **settings)
    await harness.table.start()
    try:
        yield harness
    finally:
        async with asyncio.timeout(DEADLINE_S):
            await harness.table.stop()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "routes.json"


def replace_file(path: Path, text: bytes) -> None:
    """As careful tools write: beside it, then renamed into its place."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(text)
    beside.replace(path)


async def test_the_table_is_there_when_start_returns(path: Path) -> None:
    path.write_bytes(ONE)
    async with running(path, trusted_proxies=(ip_network("10.0.0.1/32"),)) as harness:
        snapshot = harness.table.current
        assert snapshot is not None
        assert harness.routes == ["one"]
        assert (snapshot.generation, snapshot.revision, snapshot.source) == (1, 0, "file")
        assert harness.snapshots == [snapshot]
        assert harness.table.generation == 1
        assert harness.table.last_error is None
        assert harness.reloads() == (1, 0)


@pytest.mark.parametrize("text", [None, b"", BROKEN])
async def test_without_a_valid_file_it_starts_and_takes_the_file_when_it_gets_valid(
    path: Path, text: bytes | None
) -> None:
    if text is not None:
        path.write_bytes(text)
    async with running(path) as harness:
        assert harness.table.current is None
        assert harness.table.generation == 0
        assert harness.table.last_error is not None
        assert str(path) in harness.table.last_error
        assert harness.messages() == ["configuration refused"]
        replace_file(path, ONE)
        await harness.until(lambda: harness.routes == ["one"])
        assert harness.table.last_error is None
        assert harness.table.generation == 1


async def test_a_missing_directory_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "later" / "routes.json"
    async with running(path, poll_s=0.05) as harness:
        assert harness.table.current is None
        path.parent.mkdir()
        path.write_bytes(ONE)
        await harness.until(lambda: harness.routes == ["one"])
        replace_file(path, TWO)
        await harness.until(lambda: harness.routes == ["two"])


class TestChanges:
    async def test_a_file_written_in_place_is_seen(self, path: Path) -> None:
        path.write_bytes(ONE)
        async with running(path) as harness:
            path.write_bytes(TWO)
            await harness.until(lambda: harness.routes == ["two"])
            assert harness.table.generation == 2

    async def test_a_file_renamed_into_place_is_seen(self, path: Path) -> None:
        path.write_bytes(ONE)
        async with running(path) as harness:
            replace_file(path, TWO)
            await harness.until(lambda: harness.routes == ["two"])

    async def test_a_swapped_link_to_the_directory_behind_is_seen(self, tmp_path: Path) -> None:
        # As the kubelet mounts a ConfigMap: file -> ..data/file, and ..data is renamed over.
        for name, text in (("v1", ONE), ("v2", TWO)):
            (tmp_path / name).mkdir()
            (tmp_path / name / "routes.json").write_bytes(text)
        (tmp_path / "..data").symlink_to("v1")
        path = tmp_path / "routes.json"
        path.symlink_to("..data/routes.json")
        async with running(path) as harness:
            (tmp_path / "..data_tmp").symlink_to("v2")
            (tmp_path / "..data_tmp").replace(tmp_path / "..data")
            await harness.until(lambda: harness.routes == ["two"])

    async def test_a_link_whose_target_lies_elsewhere_is_seen_by_the_poll(self, tmp_path: Path) -> None:
        target = tmp_path / "elsewhere" / "routes.json"
        target.parent.mkdir()
        target.write_bytes(ONE)
        path = tmp_path / "config" / "routes.json"
        path.parent.mkdir()
        path.symlink_to(target)
        async with running(path, poll_s=0.05) as harness:
            replace_file(target, TWO)
            await harness.until(lambda: harness.routes == ["two"])

    async def test_the_same_bytes_again_are_no_new_generation(self, path: Path) -> None:
        path.write_bytes(ONE)
        async with running(path) as harness:
            first = harness.table.current
            replace_file(path, ONE)
            assert await harness.table.reload_now()
            assert harness.table.current is first
            assert harness.reloads() == (1, 0)


class TestRefusals:
    async def test_a_refused_table_changes_nothing_and_is_reported(self, path: Path) -> None:
        path.write_bytes(ONE)
        async with running(path) as harness:
            first = harness.table.current
            replace_file(path, BROKEN)
            await harness.until(lambda: harness.table.last_error is not None)
            assert harness.table.current is first
            assert harness.table.generation == 1
            assert "routes[0].match.path" in (harness.table.last_error or "")
            assert harness.reloads() == (1, 1)
            (line,) = [line for line in harness.lines if line["level"] == "error"]
            assert line["problems"] == ["routes[0].match.path: must start with a slash"]
            assert len(harness.snapshots) == 1

    async def test_a_deleted_file_changes_nothing_and_its_return_clears_the_error(self, path: Path) -> None:
        path.write_bytes(ONE)
        async with running(path) as harness:
            path.unlink()
            await harness.until(lambda: harness.table.last_error is not None)
            assert "cannot be read" in (harness.table.last_error or "")
            assert harness.routes == ["one"]
            replace_file(path, ONE)
            await harness.until(lambda: harness.table.last_error is None)
            assert harness.table.generation == 1
            assert harness.messages("info")[-1] == "configuration file is valid again"
            assert harness.reloads() == (2, 1)

    async def test_a_standing_error_is_reported_once_however_often_the_file_is_polled(self, path: Path) -> None:
        path.write_bytes(BROKEN)
        async with running(path, poll_s=0.05) as harness:
            # Two changes that are seen show that polls came in between, and none of them reported anything.
            for text in (TWO, ONE):
                replace_file(path, text)
                await harness.until(lambda: harness.table.last_error is None)
                replace_file(path, BROKEN)
                await harness.until(lambda: harness.table.last_error is not None)
            assert harness.reloads() == (2, 3)

    async def test_reload_now_tries_again_and_says_what_came_of_it(self, path: Path) -> None:
        path.write_bytes(BROKEN)
        async with running(path) as harness:
            assert not await harness.table.reload_now()
            assert harness.reloads() == (0, 2)
            path.write_bytes(ONE)
            assert await harness.table.reload_now()
            assert harness.routes == ["one"]

    @pytest.mark.parametrize("kind", ["directory", "fifo", "huge", "unreadable"])
    async def test_what_is_no_table_file_is_an_error_and_blocks_nothing(self, path: Path, kind: str) -> None:
        if kind == "directory":
            path.mkdir()
        elif kind == "fifo":
            os.mkfifo(path)
        elif kind == "huge":
            with path.open("wb") as stream:
                stream.truncate(9 * 1024 * 1024)
        else:
            path.symlink_to(path)
        async with asyncio.timeout(DEADLINE_S), running(path) as harness:
            assert harness.table.current is None
            assert str(path) in (harness.table.last_error or "")

    async def test_a_bug_in_compiling_is_a_failed_reload(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path.write_bytes(ONE)
        async with running(path) as harness:
            monkeypatch.setattr("dataplane.reload.attempt.load_route_table", lambda *_: 1 / 0)
            replace_file(path, TWO)
            assert not await harness.table.reload_now()
            assert harness.routes == ["one"]
            assert "ZeroDivisionError" in (harness.table.last_error or "")

    async def test_a_listener_that_fails_does_not_end_the_reloading(self, path: Path) -> None:
        path.write_bytes(ONE)
        harness = Harness(path, NEVER_S)

        def fail(_: Snapshot) -> None:
            raise ValueError

        table = FileTable(
            harness.table._settings, harness.table._watch._log, harness.metrics, on_change=fail, poll_s=NEVER_S
        )
        await table.start()
        try:
            replace_file(path, TWO)
            await harness.until(lambda: table.generation == 2 and "two" in [x.get("route") for x in harness.lines])
            assert harness.messages() == ["a listener of the configuration failed"] * 2
        finally:
            await table.stop()


class TestProduction:
    async def test_wide_trusted_ranges_of_the_table_are_refused(self, path: Path) -> None:
        path.write_bytes(document(route("x", "/"), trustedProxies=["10.0.0.0/28", "10.0.1.0/27"]))
        async with running(path, production=True) as harness:
            assert harness.table.current is None
            assert "trustedProxies[1]" in (harness.table.last_error or "")
            assert "trustedProxies[0]" not in (harness.table.last_error or "")

    async def test_the_environments_ranges_replace_the_tables(self, path: Path) -> None:
        path.write_bytes(document(route("x", "/"), trustedProxies=["10.0.0.0/8"]))
        own = (ip_network("192.0.2.1/32"),)
        async with running(path, production=True, trusted_proxies=own) as harness:
            assert harness.table.current is not None
            assert harness.table.current.trusted_proxies == own
        async with running(path) as harness:
            assert harness.table.current is not None
            assert harness.table.current.trusted_proxies == (ip_network("10.0.0.0/8"),)
            assert harness.metrics.trusted_proxies.value() == 1

    async def test_a_route_that_asks_access_needs_an_access_service(self, path: Path) -> None:
        path.write_bytes(document(route("x", "/x"), route("y", "/y", auth={"mode": "any"}, accessCheck=True)))
        async with running(path, production=True) as harness:
            assert harness.table.current is None
            assert "routes[1]" in (harness.table.last_error or "")
        named = {"access_url": "http://access:8090", "access_token": Secret("x" * 32)}
        async with running(path, production=True, **named) as harness:
            assert harness.table.current is not None
        async with running(path) as harness:
            assert harness.table.current is not None


async def test_the_deployments_defaults_fill_the_tables_gaps(path: Path) -> None:
    path.write_bytes(ONE)
    async with running(path, max_body_bytes=77, upstream_attempt_timeout_s=0.5) as harness:
        assert harness.table.current is not None
        (one,) = harness.table.current.table.routes
        assert (one.max_body_bytes, one.upstream_attempt_s) == (77, 0.5)


async def test_compiling_does_not_hold_the_loop(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(ONE)
    loop_turned, compiled = threading.Event(), file_table.attempt

    def slow_attempt(*arguments: Any) -> Any:
        assert loop_turned.wait(DEADLINE_S), "the loop stood still while the table was compiled"
        return compiled(*arguments)

    monkeypatch.setattr(file_table, "attempt", slow_attempt)
    harness = Harness(path, NEVER_S)
    loading = asyncio.ensure_future(harness.table.reload_now())
    await asyncio.sleep(0)
    loop_turned.set()
    assert await loading


async def test_attempts_never_overlap(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(ONE)
    under_way, compiled = threading.Semaphore(1), file_table.attempt

    def exclusive(*arguments: Any) -> Any:
        assert under_way.acquire(blocking=False)
        try:
            return compiled(*arguments)
        finally:
            under_way.release()

    monkeypatch.setattr(file_table, "attempt", exclusive)
    harness = Harness(path, NEVER_S)
    results: list[Awaitable[bool]] = [harness.table.reload_now() for _ in range(8)]
    assert await asyncio.gather(*results) == [True] * 8
    assert harness.table.generation == 1


async def test_a_request_keeps_the_snapshot_it_began_with(path: Path) -> None:
    path.write_bytes(ONE)
    harness = Harness(path, NEVER_S)
    await harness.table.reload_now()
    kept = harness.table.current
    path.write_bytes(TWO)
    await harness.table.reload_now()
    assert kept is not None
    assert [one.id for one in kept.table.routes] == ["one"]
    assert harness.routes == ["two"]
    assert replace(kept, generation=2) != harness.table.current


async def test_stop_ends_the_watching_and_keeps_the_table(path: Path) -> None:
    path.write_bytes(ONE)
    async with running(path) as harness:
        pass
    assert harness.routes == ["one"]
    before = asyncio.all_tasks()
    assert {task.get_name() for task in before}.isdisjoint({"configuration file watcher"})


async def test_stop_without_start_is_no_error(path: Path) -> None:
    await Harness(path, NEVER_S).table.stop()
