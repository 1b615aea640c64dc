"""Whoever may only look holds up nobody who publishes, and fills no memory."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from controlplane.config import rooms, service
from controlplane.config.judge import Judged, judge
from controlplane.config.workers import WorkEnded, Workers
from tests.support.control import Control, control_settings, error_of, route_table

DEADLINE_S = 30.0


class Bench:
    """Stands in for judging: each document waits until it is told to go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began: list[str] = []
        self._go_on = threading.Semaphore(0)
        monkeypatch.setattr(service, "judge", self._judge)

    def _judge(self, document: bytes, *others: Any) -> Judged:
        self.began.append(json.loads(document)["routes"][0]["id"])
        self._go_on.acquire()
        return judge(document, *others)

    def let_go(self, count: int) -> None:
        self._go_on.release(count)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.001)


def validation(control: Control, name: str, scope: str = "read") -> asyncio.Task[httpx.Response]:
    return asyncio.ensure_future(control.send("POST", "/v1/config/validate", route_table(name), token=scope))


async def test_a_writer_waits_for_no_reader_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    control = Control()
    bench = Bench(monkeypatch)
    readers = [validation(control, f"r{number}") for number in range(12)]
    await until(lambda: len(bench.began) == 2)
    writer = asyncio.ensure_future(control.put(route_table("w"), 0))
    await until(lambda: control.plane.config._writing.locked())
    bench.let_go(1)
    await until(lambda: len(bench.began) == 3)
    assert bench.began[2] == "w"
    bench.let_go(12)
    assert (await writer).status_code == 201
    assert {answer.json()["valid"] for answer in await asyncio.gather(*readers)} == {True}
    control.plane.close()


async def test_a_reader_has_so_many_requests_and_others_have_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(rooms.SHARES, "read", rooms.Share(2, 2, 2))
    control = Control(control_settings(CONTROL_TOKENS=json.dumps(TWO_READERS)))
    bench = Bench(monkeypatch)
    open_ones = [validation(control, f"r{number}", ADA) for number in range(2)]
    await until(lambda: len(bench.began) == 2)
    refused = await control.send("POST", "/v1/config/validate", route_table(), token=ADA)
    assert error_of(refused) == (503, "overloaded")
    assert int(refused.headers["retry-after"]) > 0
    assert error_of(await control.send("GET", "/v1/config", token=ADA)) == (503, "overloaded")
    assert error_of(await control.send("GET", "/v1/config", token=BOB)) == (404, "not_found")
    bench.let_go(2)
    assert [answer.status_code for answer in await asyncio.gather(*open_ones)] == [200, 200]
    assert error_of(await control.send("GET", "/v1/config", token=ADA)) == (404, "not_found")
    control.plane.close()


ADA, BOB = "ada-token-0123456789abcdefghijklmn", "bob-token-0123456789abcdefghijklmn"
TWO_READERS = {ADA: {"operator": "ada", "scope": "read"}, BOB: {"operator": "bob", "scope": "read"}}


async def test_large_tables_of_readers_leave_room_for_those_of_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table is 8 MiB of memory while it is received, judged and sent."""
    monkeypatch.setattr(rooms, "LARGE_BYTES", 10)
    control = Control()
    bench = Bench(monkeypatch)
    readers = [validation(control, f"r{number}") for number in range(3)]
    await until(lambda: len(bench.began) == 2)
    refused = await control.send("POST", "/v1/config/validate", route_table(), token="read")
    assert error_of(refused) == (503, "overloaded")
    assert control.events()[-1]["bytesIn"] == 0
    writer = asyncio.ensure_future(control.put(route_table("w"), 0))
    bench.let_go(4)
    assert (await writer).status_code == 201
    assert [answer.status_code for answer in await asyncio.gather(*readers)] == [200] * 3
    control.plane.close()


async def test_room_is_left_with_every_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "LARGE_BYTES", 10)
    for scope in ("read", "config"):
        monkeypatch.setitem(rooms.SHARES, scope, rooms.Share(1, 1, 1))
    control = Control()
    assert (await control.put(route_table(), 0)).status_code == 201
    for _ in range(2):
        assert error_of(await control.put(route_table(), 0)) == (409, "revision_conflict")
        assert error_of(await control.put({"version": 9}, 1)) == (400, "invalid_config")
        assert error_of(await control.put(b"x" * 100, 1, client=None)) == (400, "invalid_config")
        for path in ("/v1/config", "/v1/config/revisions/1", "/v1/config/diff?from=0&to=1"):
            assert (await control.send("GET", path, token="read")).status_code == 200
            assert (await control.send("HEAD", path, token="read")).status_code == 200
        assert error_of(await control.send("GET", "/v1/config/revisions/9", token="read")) == (404, "not_found")
        media = await control.send("POST", "/v1/config/validate", b"{}", headers={"content-type": "text/plain"})
        assert error_of(media) == (415, "unsupported_media_type")
        back = await control.send("POST", "/v1/config/rollback", {"revision": 1}, headers={"if-match": '"7"'})
        assert error_of(back) == (409, "revision_conflict")
    control.plane.close()


async def test_of_many_writers_with_one_revision_one_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are told that they were late, which costs nothing."""
    control = Control()
    bench = Bench(monkeypatch)
    bench.let_go(100)
    answers = await asyncio.gather(*(control.put(route_table(f"w{number}"), 0) for number in range(20)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 19
    assert len(bench.began) == 1
    control.plane.close()


async def test_work_that_was_ended_is_503_and_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system kills a process that takes too much memory; the next table may take less."""

    async def killed(*_: object, **__: object) -> None:
        raise WorkEnded("the process ended")

    control = Control()
    with monkeypatch.context() as patch:
        patch.setattr(Workers, "run", killed)
        assert error_of(await control.put(route_table(), 0)) == (503, "overloaded")
    assert (await control.put(route_table(), 0)).status_code == 201
    control.plane.close()
