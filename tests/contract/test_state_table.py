"""Revisions, the pointer and the audit trail are alike on every backend (`common.state.table_store`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from common.state.ports import ControlState
from common.state.table_store import (
    ALL_ENTRIES,
    ActiveTable,
    AuditEntry,
    AuditFilter,
    AuditPage,
    NewAuditEntry,
    PointerMove,
    Revision,
)
from tests.support.auth_harness import Time
from tests.support.state_backends import Backend

WRITE = NewAuditEntry("config.write", "routes", "öperator", "config", "192.0.2.1", "request 1")


def ids(page: AuditPage) -> tuple[list[int], int | None]:
    return [entry.id for entry in page.entries], page.next_before


@pytest.fixture
def time(backend: Backend) -> Time:
    return backend.fresh()


@pytest.fixture
async def state(backend: Backend, time: Time) -> AsyncIterator[ControlState]:
    state = backend.open(time)
    await state.start()
    yield state
    await state.close()


async def test_an_empty_store_has_no_table(state: ControlState) -> None:
    assert await state.read_table() == ActiveTable(0, None)
    assert await state.read_revision(1) is None
    assert await state.list_revisions(None, 10) == []
    assert await state.list_audit(None, 10) == AuditPage((), None)


async def test_what_is_written_is_active_and_read_byte_for_byte(state: ControlState, time: Time) -> None:
    document = b'{"version": 2, "routes": []} \xc3\xa9 \x00 end'
    assert await state.move_pointer(0, document, WRITE) == PointerMove(True, 1)
    assert await state.read_table() == ActiveTable(1, document)
    assert await state.read_table(1) == ActiveTable(1, None)
    assert await state.read_table(7) == ActiveTable(1, document)
    assert await state.read_revision(1) == (Revision(1, time.now_ms(), "öperator", "config.write"), document)
    [entry] = (await state.list_audit(None, 10)).entries
    assert entry == AuditEntry(
        1, time.now_ms(), "config.write", "routes", "öperator", "config", "192.0.2.1", "request 1"
    )


async def test_a_write_on_another_revision_changes_nothing(state: ControlState) -> None:
    await state.move_pointer(0, b"one", WRITE)
    for stale in (0, 2, 5):
        assert await state.move_pointer(stale, b"two", WRITE) == PointerMove(False, 1)
    assert await state.read_table() == ActiveTable(1, b"one")
    assert await state.read_revision(2) is None
    assert len((await state.list_audit(None, 10)).entries) == 1


async def test_of_a_hundred_writers_on_one_revision_one_wins(backend: Backend, time: Time) -> None:
    planes = [backend.open(time) for _ in range(4)]
    for plane in planes:
        await plane.start()
    moves = await asyncio.gather(*(planes[n % 4].move_pointer(0, b"%d" % n, WRITE) for n in range(100)))
    [winner] = [n for n, move in enumerate(moves) if move.moved]
    assert {move.revision for move in moves} == {1}
    assert await planes[0].read_table() == ActiveTable(1, b"%d" % winner)
    assert len((await planes[0].list_audit(None, 10)).entries) == 1
    for plane in planes:
        await plane.close()


async def test_lists_are_read_page_by_page_newest_first(state: ControlState, time: Time) -> None:
    for number in range(7):
        await state.move_pointer(number, b"%d" % number, WRITE)
        time.pass_s(1)
    await state.append_audit(NewAuditEntry("sessions.revoke", "alice", "bob", "operate", "192.0.2.2", "r"))
    assert [each.revision for each in await state.list_revisions(None, 3)] == [7, 6, 5]
    assert [each.revision for each in await state.list_revisions(5, 3)] == [4, 3, 2]
    assert [each.revision for each in await state.list_revisions(2, 3)] == [1]
    assert await state.list_revisions(1, 3) == []
    assert ids(await state.list_audit(None, 3)) == ([8, 7, 6], 6)
    assert ids(await state.list_audit(6, 3)) == ([5, 4, 3], 3)
    assert ids(await state.list_audit(3, 3)) == ([2, 1], None)
    assert ids(await state.list_audit(1, 3)) == ([], None)
    assert ids(await state.list_audit(100, 8)) == ([8, 7, 6, 5, 4, 3, 2, 1], None)
    assert (await state.list_audit(None, 1)).entries[0].target == "alice"
    assert [each.time_ms for each in await state.list_revisions(3, 2)] == [
        time.now_ms() - 6_000,
        time.now_ms() - 7_000,
    ]


ACTIONS = ("config.write", "config.rollback", "sessions.revoke")
OPERATORS = ("olga", 'öl"ga', "bob")


@pytest.mark.parametrize("limit", [1, 3, 50])
async def test_filtered_entries_are_those_that_were_asked_for_page_by_page(
    state: ControlState, time: Time, limit: int
) -> None:
    began = time.now_ms()
    for number in range(30):
        entry = NewAuditEntry(ACTIONS[number * 7 % 3], "t", OPERATORS[number * 5 % 4 % 3], "operate", "c", str(number))
        await state.append_audit(entry)
        time.pass_s(0.5 if number % 2 else 0)
    everything = (await state.list_audit(None, 100)).entries
    assert [each.id for each in everything] == list(range(30, 0, -1))
    spans = (None, began - 1, began, began + 500, began + 501, began + 6_000, began + 99_000)
    for action in ("", *ACTIONS, "decisions.drop"):
        for operator in ("", *OPERATORS):
            for from_ms, to_ms in zip(spans, (*spans[3:], *spans[:3]), strict=True):
                only = AuditFilter(action, operator, from_ms, to_ms)
                wanted = [
                    each
                    for each in everything
                    if action in ("", each.action)
                    and operator in ("", each.operator)
                    and (from_ms is None or each.time_ms >= from_ms)
                    and (to_ms is None or each.time_ms < to_ms)
                ]
                assert await all_pages(state, limit, only) == wanted, only


async def all_pages(state: ControlState, limit: int, only: AuditFilter = ALL_ENTRIES) -> list[AuditEntry]:
    found: list[AuditEntry] = []
    before = None
    while True:
        page = await state.list_audit(before, limit, only)
        assert len(page.entries) <= limit
        found += page.entries
        if page.next_before is None:
            return found
        assert before is None or page.next_before < before
        before = page.next_before


async def test_the_time_of_an_entry_never_falls_when_the_clock_is_set_back(state: ControlState, time: Time) -> None:
    began = time.now_ms()
    for seconds in (0, 10, -5, 1, 5):
        time.pass_s(seconds)
        await state.append_audit(WRITE)
    assert [each.time_ms - began for each in await all_pages(state, 2)] == [11_000, 10_000, 10_000, 10_000, 0]
    assert len(await all_pages(state, 2, AuditFilter(from_ms=began + 10_000))) == 4
    assert len(await all_pages(state, 2, AuditFilter(to_ms=began + 11_000))) == 4
