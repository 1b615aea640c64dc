"""The route table in the state is read when a hint says so, and from time to time without one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from common.settings.gateway import GatewaySettings
from common.state.memory import MemoryState
from common.state.ports import StateUnavailable
from common.state.table_store import ActiveTable
from common.telemetry.log import Log
from dataplane.metrics import GatewayMetrics
from dataplane.reload.store_table import StoreTable
from tests.support.gateway import route, table
from tests.support.shared_store import ENTRY

NEVER_S = 100_000.0
DOCUMENT = json.dumps(table(route("http://app.internal:3000"))).encode()


@asynccontextmanager
async def watched(state: MemoryState, folder: Path, poll_s: float) -> AsyncIterator[StoreTable]:
    (folder / "routes.json").write_bytes(DOCUMENT)
    settings = GatewaySettings(host="127.0.0.1", port=0, config=folder / "routes.json", public_url="http://app.test")
    source = StoreTable(settings, state, Log(lambda line: None), GatewayMetrics(), replica="a", poll_s=poll_s)
    await source.start()
    yield source
    await source.stop()


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(15):
        while not check():
            await asyncio.sleep(0.005)


def serves(source: StoreTable, revision: int) -> bool:
    return source.current is not None and source.current.revision == revision


async def test_a_hint_is_followed_at_once(tmp_path: Path) -> None:
    state = MemoryState(lambda: 0)
    async with watched(state, tmp_path, NEVER_S) as source:
        assert serves(source, 0)
        for revision in (1, 2):
            await state.move_pointer(revision - 1, DOCUMENT, ENTRY)
            await until(lambda revision=revision: serves(source, revision))  # type: ignore[misc]


async def test_without_a_hint_the_poll_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = MemoryState(lambda: 0)
    monkeypatch.setattr(state, "on_hint", lambda wake: None)
    async with watched(state, tmp_path, 0.01) as source:
        await state.move_pointer(0, DOCUMENT, ENTRY)
        await until(lambda: serves(source, 1))


async def test_a_number_that_stands_for_another_table_after_an_outage_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier copy of the state was restored, and published over, while this gateway did not reach it."""
    state = MemoryState(lambda: 0)
    other = MemoryState(lambda: 0)
    changed = json.dumps(table(route("http://other.internal:3000"))).encode()
    for each, document in ((state, DOCUMENT), (other, changed)):
        await each.move_pointer(0, document, ENTRY)
    async with watched(state, tmp_path, 0.005) as source:
        await until(lambda: serves(source, 1))
        first = source.generation

        async def away(known_revision: int = 0) -> ActiveTable:
            raise StateUnavailable("away")

        # The same table after an outage is no reload.
        monkeypatch.setattr(state, "read_table", away)
        await until(lambda: source.last_error is not None)
        monkeypatch.undo()
        await until(lambda: source.last_error is None)
        assert source.generation == first

        monkeypatch.setattr(state, "read_table", away)
        await until(lambda: source.last_error is not None)
        monkeypatch.setattr(state, "read_table", other.read_table)
        await until(lambda: source.generation > first)
        assert source.current is not None
        assert source.current.table.routes[0].upstreams[0].host == "other.internal"
