"""A page costs the same wherever it lies in a long history: what the servers read is counted, not how long it took."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from common.state.administration import looked_at_most
from common.state.postgres.administration import LIST_ALL, LIST_SUBJECT
from common.state.postgres.table import LIST_REVISIONS, audit_statement
from common.state.redis.state import RedisState
from common.state.table_store import AuditFilter
from common.state.watch import Unwatched
from tests.support.postgres import Postgres, open_folder, start_postgres
from tests.support.processes import Children
from tests.support.redis import Redis, start_redis
from tests.support.state_backends import in_its_own_loop
from tests.support.state_values import hashed

pytestmark = pytest.mark.real

LIMIT = 50
SESSIONS, REVISIONS = 100_000, 10_000
ENTRIES = 1_000_000
"""Of the trail. Entry n is of second n; the third is the only one of its action, every fifth is of another operator."""

FILL_POSTGRES = (
    "SET search_path TO gateway",
    "SET synchronous_commit TO off",
    "INSERT INTO audit (time_ms, action, target, operator, scope, client, request_id) "
    "SELECT n * 1000, CASE WHEN n = 3 THEN 'rare' ELSE 'config.write' END, 't', "
    f"CASE WHEN n % 5 = 0 THEN 'bob' ELSE 'olga' END, 's', 'c', 'r' FROM generate_series(1, {ENTRIES}) n",
    "INSERT INTO revisions (revision, document, time_ms, operator, action) "
    f"SELECT n, '{{}}', n * 1000, 'olga', 'config.write' FROM generate_series(1, {REVISIONS}) n",
    f"INSERT INTO pointer (id, revision) VALUES (1, {REVISIONS})",
    "INSERT INTO sessions (id_hash, subject, email, roles, created_ms, touched_ms, idle_end_ms, end_ms) "
    "SELECT encode(sha256(n::text::bytea), 'hex'), 's' || n % 20000, '', '{}', 0, 0, 9e15, 9e15 "
    f"FROM generate_series(0, {SESSIONS - 1}) n",
    "INSERT INTO decisions (key, subject, workspace, allow, reason_code, decided_ms, end_ms) "
    "SELECT n::text::bytea, substr(sha256((n % 2000)::text::bytea), 1, 8), ''::bytea, true, '', 0, 9e15 "
    "FROM generate_series(1, 20000) n",
    "ANALYZE",
)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with open_folder() as folder, Children() as children:
        server = start_postgres(children, folder / "postgres")
        in_its_own_loop(server.migrate())
        in_its_own_loop(server.run(*FILL_POSTGRES))
        yield server


@pytest.fixture(params=["force_custom_plan", "force_generic_plan"])
async def connection(request: pytest.FixtureRequest, postgres: Postgres) -> AsyncIterator[asyncpg.Connection]:
    """A connection on which nothing is kept. A statement that is used often is planned for any arguments."""
    connection = await asyncpg.connect(postgres.planes_url)
    await connection.execute(f"SET search_path TO gateway; SET plan_cache_mode TO {request.param}; SET jit TO off")
    transaction = connection.transaction()
    await transaction.start()
    yield connection
    await transaction.rollback()
    await connection.close()


async def rows_read(connection: asyncpg.Connection, statement: str, *args: object) -> tuple[int, int]:
    """How many rows a statement gives, and how many it read for that."""
    await connection.execute("DEALLOCATE ALL")
    await connection.execute(f"PREPARE p AS {statement}")
    literals = ", ".join("NULL" if each is None else f"'{each}'" for each in args)
    [told] = json.loads(await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE p({literals})"))
    return round(told["Plan"]["Actual Rows"]), sum(map(read_by, nodes(told["Plan"])))


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for each in plan.get("Plans", ()):
        yield from nodes(each)


def read_by(node: dict[str, Any]) -> int:
    if "Relation Name" not in node and "Index Name" not in node:
        return 0
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return round((node["Actual Rows"] + removed) * node["Actual Loops"])


MIDDLE, NEWEST = ENTRIES // 2, 2**63 - 1


@pytest.mark.parametrize(
    ("columns", "values", "before", "span", "given"),
    [
        ((), (), NEWEST, (None, None), LIMIT + 1),
        ((), (), MIDDLE, (None, None), LIMIT + 1),
        ((), (), 10, (None, None), 10),
        (("action",), ("rare",), NEWEST, (None, None), 1),
        (("action",), ("config.write",), NEWEST, (None, None), LIMIT + 1),
        (("action",), ("config.write",), 10, (None, None), 9),
        (("action",), ("none",), NEWEST, (None, None), 0),
        (("operator",), ("bob",), MIDDLE, (None, None), LIMIT + 1),
        (("action", "operator"), ("rare", "olga"), NEWEST, (None, None), 1),
        (("action", "operator"), ("rare", "bob"), NEWEST, (None, None), 0),
        (("action", "operator"), ("config.write", "bob"), NEWEST, (None, None), LIMIT + 1),
        ((), (), NEWEST, (5_000, 8_000), 3),
        ((), (), NEWEST, (None, 20_000), 19),
        ((), (), MIDDLE, (MIDDLE * 1000 - 9_000, None), 10),
        (("action",), ("rare",), NEWEST, (MIDDLE * 1000, None), 0),
        (("operator",), ("bob",), NEWEST, (1_000, 21_000), 4),
        (
            ("action", "operator"),
            ("config.write", "bob"),
            NEWEST,
            (MIDDLE * 1000, MIDDLE * 1000 + 1_000_000),
            LIMIT + 1,
        ),
    ],
)
async def test_a_page_of_a_long_trail_reads_what_it_gives(
    connection: asyncpg.Connection,
    columns: tuple[str, ...],
    values: tuple[str, ...],
    before: int,
    span: tuple[int | None, int | None],
    given: int,
) -> None:
    rows, read = await rows_read(connection, audit_statement(*columns), LIMIT + 1, before, *span, *values)
    assert rows == given
    # One more for each end of the span, whose number is looked for.
    assert read <= given + 2


@pytest.mark.parametrize(("before", "given"), [(NEWEST, LIMIT), (REVISIONS // 2, LIMIT), (11, 10)])
async def test_a_page_of_ten_thousand_revisions_reads_what_it_gives(
    connection: asyncpg.Connection, before: int, given: int
) -> None:
    assert await rows_read(connection, LIST_REVISIONS, before, LIMIT) == (given, given)


async def test_a_page_of_a_hundred_thousand_sessions_reads_what_it_gives(connection: asyncpg.Connection) -> None:
    for after in ("", "8" + "0" * 63):
        assert await rows_read(connection, LIST_ALL, after, LIMIT) == (LIMIT, LIMIT)
    rows, read = await rows_read(connection, LIST_SUBJECT, "", LIMIT, "s7")
    # As many as the subject has, and once more as they are put in order.
    assert rows == 5
    assert read <= 10


@pytest.mark.parametrize(
    ("statement", "table", "most"),
    [
        (f"SELECT revoke_session('{hashed(7)[:16]}', '', '', '', '', '', '')", "sessions", 2),
        ("SELECT revoke_session('0000000000000000', '', '', '', '', '', '')", "sessions", 0),
        ("SELECT revoke_subject_sessions('s9', '', '', '', '', '', '')", "sessions", 5),
        ("SELECT drop_decisions(substr(sha256('7'), 1, 8), NULL, '', '', '', '', '', '')", "decisions", 10),
        ("SELECT drop_decisions(substr(sha256('7'), 1, 8), 'w', '', '', '', '', '', '')", "decisions", 10),
        ("SELECT append_audit('', '', '', '', '', '')", "audit", 1),
    ],
)
async def test_a_change_reads_what_it_changes(
    connection: asyncpg.Connection, statement: str, table: str, most: int
) -> None:
    await connection.execute(statement)
    [(read,)] = await connection.fetch(
        "SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables "
        "WHERE schemaname = 'gateway' AND relname = $1",
        table,
    )
    # The planner looks at both ends of an index by itself.
    assert read <= most + 2


FILL_REDIS = """
for n = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  local action, operator = n == 3 and 'rare' or 'config.write', n % 5 == 0 and 'bob' or 'olga'
  local body = cjson.encode({action, 't', operator, 's', 'c', 'r'})
  redis.call('RPUSH', KEYS[1], string.format('a1 %.0f %.0f %s', n, n * 1000, body))
end
redis.call('SET', KEYS[2], ARGV[2])
"""
FILL_REVISIONS = """
for n = 1, tonumber(ARGV[1]) do
  redis.call('HSET', ARGV[2] .. n, 'document', '{}', 'time', n * 1000, 'operator', 'olga', 'action', 'config.write')
  redis.call('RPUSH', KEYS[2], n)
end
redis.call('HSET', KEYS[1], 'revision', ARGV[1])
"""
FILL_SESSIONS = """
for n = 1, tonumber(ARGV[1]) do
  local hash = redis.sha1hex(n) .. string.sub(redis.sha1hex('x' .. n), 1, 24)
  redis.call('SET', ARGV[2] .. hash, 's1 1 1 9 9 ' .. string.rep('a', 32) .. ' ["alice","",[]]')
  redis.call('ZADD', KEYS[1], 0, hash)
end
"""


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    with Children() as children:
        server = start_redis(children, tmp_path_factory.mktemp("redis"))
        trail = ("gateway:{t}:audit:trail", "gateway:{t}:audit:count")
        for first in range(1, ENTRIES, 50_000):
            server.cli("EVAL", FILL_REDIS, "2", *trail, str(first), str(first + 49_999))
        table = ("gateway:{t}:active", "gateway:{t}:history")
        server.cli("EVAL", FILL_REVISIONS, "2", *table, str(REVISIONS), "gateway:{t}:revision:")
        server.cli("EVAL", FILL_SESSIONS, "1", "gateway:{s}:all", "20000", "gateway:{s}:i:")
        yield server


@pytest.fixture
async def state(redis: Redis) -> AsyncIterator[RedisState]:
    state = RedisState(redis.url, prefix="gateway", timeout_s=5.0, watch=Unwatched())
    await state.start()
    yield state
    await state.close()


def calls(server: Redis, *names: str) -> int:
    """How often the server has run these commands."""
    told = dict(line.split(":", 1) for line in server.cli("INFO", "commandstats").splitlines() if ":" in line)
    return sum(int(told.get(f"cmdstat_{name}", "calls=0,").split(",")[0].removeprefix("calls=")) for name in names)


@pytest.mark.parametrize(
    ("before", "only", "found"),
    [
        (None, AuditFilter(), LIMIT),
        (ENTRIES // 2, AuditFilter(), LIMIT),
        (20, AuditFilter(), 19),
        (None, AuditFilter(action="rare"), 0),
        (None, AuditFilter(operator="bob"), LIMIT),
        (None, AuditFilter(from_ms=5_000, to_ms=8_000), 3),
        (None, AuditFilter(action="rare", to_ms=8_000), 1),
        (None, AuditFilter(from_ms=ENTRIES * 1000 - 4_000), 5),
        (None, AuditFilter(to_ms=ENTRIES * 500), LIMIT),
    ],
)
async def test_a_page_of_the_trail_on_redis_looks_at_a_bounded_part(
    redis: Redis, state: RedisState, before: int | None, only: AuditFilter, found: int
) -> None:
    looked_at = calls(redis, "lrange", "lindex")
    page = await state.list_audit(before, LIMIT, only)
    # A hundred entries a command, two thousand at most; and a search for the end of the span among all of them.
    assert calls(redis, "lrange", "lindex") - looked_at <= 20 + 20
    assert len(page.entries) == found
    if only == AuditFilter(action="rare"):
        assert page.next_before == ENTRIES - 1_999
    elif found < LIMIT:
        assert page.next_before is None


async def test_the_only_entry_of_its_kind_is_found_page_by_page(state: RedisState) -> None:
    pages, before = 0, None
    while True:
        page = await state.list_audit(before, LIMIT, AuditFilter(action="rare"))
        pages, before = pages + 1, page.next_before
        if before is None:
            break
    assert [each.id for each in page.entries] == [3]
    assert pages == ENTRIES // 2_000


async def test_a_page_of_revisions_on_redis_reads_what_it_gives(redis: Redis, state: RedisState) -> None:
    for before in (None, REVISIONS // 2, LIMIT + 1):
        read = calls(redis, "hmget", "lrange", "llen")
        assert len(await state.list_revisions(before, LIMIT)) == LIMIT
        assert calls(redis, "hmget", "lrange", "llen") - read == LIMIT + 1


async def test_a_page_of_sessions_on_redis_reads_no_more_than_twice_what_it_gives(
    redis: Redis, state: RedisState
) -> None:
    for after in (None, "8"):
        read = calls(redis, "get", "zrange")
        assert len((await state.list_sessions(None, after, LIMIT)).sessions) == LIMIT
        assert calls(redis, "get", "zrange") - read == looked_at_most(LIMIT) + 1
