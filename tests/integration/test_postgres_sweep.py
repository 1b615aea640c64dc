"""The sweep of a real Postgres removes all that is over and nothing else, in bounded steps (§12.5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from common.state.budgets import BudgetCheck
from common.state.ports import NewSession
from common.state.postgres import sweep
from common.state.postgres.state import PostgresState
from common.state.watch import Unwatched
from tests.support.postgres import Postgres, open_folder, start_postgres
from tests.support.processes import Children
from tests.support.state_values import decision_key, keep_decision

pytestmark = pytest.mark.real

KEYS = 20_000
STEP_MOST = sweep.PAGES * 70
"""Rows of budgets that the pages of one step can hold: none is smaller than 117 bytes."""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with open_folder() as folder, Children() as children:
        yield start_postgres(children, folder / "postgres")


@pytest.fixture
async def state(server: Postgres, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PostgresState]:
    # On a busy machine a test may last longer than until the state sweeps by itself.
    monkeypatch.setattr(sweep, "SWEEP_EVERY_S", 100_000.0)
    await server.run("DROP SCHEMA IF EXISTS gateway CASCADE")
    await server.migrate()
    state = PostgresState(server.data_url, prefix="gateway", timeout_s=10.0, watch=Unwatched())
    await state.start()
    yield state
    await state.close()


async def fill(server: Postgres, state: PostgresState) -> None:
    """Budgets of which every second is over."""
    checks = [BudgetCheck(f"app:{n}", 9, 3_600_000, 60_000) for n in range(KEYS)]
    for first in range(0, KEYS, 4_000):
        await asyncio.gather(*(state.check_budgets([check]) for check in checks[first : first + 4_000]))
    await server.run("UPDATE gateway.budgets SET end_ms = 1 WHERE get_byte(sha256(key), 0) % 2 = 0")


async def count(server: Postgres, table: str, where: str = "true") -> int:
    ((row,),) = await server.run(f"SELECT count(*) FROM gateway.{table} WHERE {where}")
    return int(row[0])


async def test_sessions_and_decisions_that_are_over_are_removed(server: Postgres, state: PostgresState) -> None:
    for number in range(20):
        await state.create_session(NewSession(f"s{number}", f"u{number}", "", (), 3_600_000, 3_600_000))
        await keep_decision(state, decision_key(b"%d" % number), 3_600_000)
    await server.run(
        "UPDATE gateway.sessions SET idle_end_ms = 1 WHERE place <= 15", "UPDATE gateway.decisions SET end_ms = 1"
    )
    assert await state.read_session("s3") is None
    assert await state.sweep.rows() == 35
    assert await state.sweep.rows() == 0
    assert await state.read_session("s17") is not None


async def test_more_rows_than_one_step_takes_are_removed_by_the_next(server: Postgres, state: PostgresState) -> None:
    rows = 2 * sweep.MOST_ROWS + 500
    await server.run(
        "INSERT INTO gateway.decisions (key, allow, reason_code, decided_ms, end_ms) "
        f"SELECT int4send(n), true, '', 1, 1 FROM generate_series(1, {rows}) n"
    )
    steps = [await state.sweep.rows() for _ in range(4)]
    assert steps == [sweep.MOST_ROWS, sweep.MOST_ROWS, 500, 0]


async def test_a_round_removes_every_budget_that_is_over_in_bounded_steps(
    server: Postgres, state: PostgresState
) -> None:
    await fill(server, state)
    over, lives = await count(server, "budgets", "end_ms = 1"), await count(server, "budgets", "end_ms > 1")
    assert over + lives == KEYS
    assert over > KEYS / 3
    steps = []
    goes_on = True
    while goes_on:
        removed, goes_on = await state.sweep.budgets()
        steps.append(removed)
    assert sum(steps) == over
    assert max(steps) <= STEP_MOST
    pages = (await server.run("SELECT pg_relation_size('gateway.budgets') / 8192"))[0][0][0]
    assert len(steps) == -(-pages // sweep.PAGES) > 3
    assert await count(server, "budgets") == lives


async def test_a_round_begins_once_in_its_time_however_many_replicas_sweep(
    server: Postgres, state: PostgresState
) -> None:
    other = PostgresState(server.data_url, prefix="gateway", timeout_s=10.0, watch=Unwatched())
    await other.start()
    await fill(server, state)
    # What one began, the other takes on.
    assert (await state.sweep.budgets())[1]
    goes_on, turn = True, 0
    while goes_on:
        _, goes_on = await (other, state)[turn % 2].sweep.budgets()
        turn += 1
    assert await count(server, "budgets", "end_ms = 1") == 0
    await server.run("UPDATE gateway.budgets SET end_ms = 1")
    left = await count(server, "budgets")
    for each in (state, other):
        assert await each.sweep.budgets() == (0, False)
    assert await count(server, "budgets") == left
    removed, goes_on = await other.sweep.budgets(every_s=0)
    assert removed > 0
    assert goes_on
    await other.close()


async def test_a_row_that_is_in_use_is_left_for_the_next_round(server: Postgres, state: PostgresState) -> None:
    await state.check_budgets([BudgetCheck("a", 9, 60_000, 1_000), BudgetCheck("b", 9, 60_000, 1_000)])
    await server.run("UPDATE gateway.budgets SET end_ms = 1")
    holder = await asyncpg.connect(server.url)
    async with holder.transaction():
        await holder.execute("SELECT * FROM gateway.budgets WHERE key = 'a' FOR UPDATE")
        async with asyncio.timeout(5):
            assert await state.sweep.budgets() == (1, False)
    await holder.close()
    assert await state.sweep.budgets(every_s=0) == (1, False)
    assert await count(server, "budgets") == 0


async def test_of_two_sweeps_at_once_one_works(server: Postgres, state: PostgresState) -> None:
    holder = await asyncpg.connect(server.url, server_settings={"search_path": "gateway"})
    async with holder.transaction():
        await holder.fetch("SELECT * FROM sweep_budgets(1, 0)")
        await holder.fetch("SELECT sweep(1)")
        assert await state.sweep.budgets(every_s=0) == (0, False)
        assert await state.sweep.rows() == 0
    await holder.close()


async def test_a_clock_that_was_set_back_does_not_stop_the_sweep(server: Postgres, state: PostgresState) -> None:
    await state.sweep.budgets()
    await server.run("UPDATE gateway.sweeps SET began_ms = began_ms + 86400000")
    await state.check_budgets([BudgetCheck("a", 9, 60_000, 1_000)])
    await server.run("UPDATE gateway.budgets SET end_ms = 1")
    assert (await state.sweep.budgets())[0] == 1


async def test_a_place_beyond_the_end_of_the_table_begins_anew(server: Postgres, state: PostgresState) -> None:
    """A vacuum may have cut the table since."""
    await state.sweep.budgets()
    await server.run("UPDATE gateway.sweeps SET place = 1000000")
    assert await state.sweep.budgets() == (0, False)
    await state.check_budgets([BudgetCheck("a", 9, 60_000, 1_000)])
    await server.run("UPDATE gateway.budgets SET end_ms = 1")
    assert (await state.sweep.budgets(every_s=0))[0] == 1
