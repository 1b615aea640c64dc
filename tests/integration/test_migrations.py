"""Migrations on a real Postgres: there, back, and there again; and what a wrong URL, user or schema is told (§12.8)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from typer.testing import CliRunner

from common.state.ports import NewSession, StateMisconfigured
from common.state.postgres.connect import SCHEMA_NEEDED
from common.state.postgres.state import PostgresState
from common.state.table_store import NewAuditEntry
from common.state.watch import Unwatched
from controlplane.cli import build
from controlplane.migrate import known_migrations
from tests.support.ports import closed_port
from tests.support.postgres import OWNER_PASSWORD, PLANES_PASSWORD, Postgres, open_folder, start_postgres
from tests.support.processes import Children

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.real

ENTRY = NewAuditEntry("config.write", "routes", "someone", "config", "192.0.2.1", "r")


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with open_folder() as folder, Children() as children:
        yield start_postgres(children, folder / "postgres")


async def migrate(url: str, *options: str, schema: str = "gateway") -> tuple[int, str]:
    """Exit code and all output of `gateway-control migrate`."""
    environ = {
        "GATEWAY_CONTROL_STATE_URL": url,
        "GATEWAY_CONTROL_KEY_PREFIX": schema,
        "GATEWAY_CONTROL_SHARED_STATE_KEY_PREFIX": schema,
    }
    # It has a loop of its own.
    result = await asyncio.to_thread(
        lambda: CliRunner().invoke(build(), ["migrate", *options], env=environ, catch_exceptions=False)
    )
    return result.exit_code, result.output


def state_at(url: str, prefix: str = "gateway") -> PostgresState:
    return PostgresState(url, prefix=prefix, timeout_s=5.0, watch=Unwatched())


async def objects(server: Postgres, schema: str) -> list[str]:
    """Everything that a schema holds, and every right to it."""
    [tables, functions] = await server.run(
        f"SELECT relname, relkind::text, relacl::text FROM pg_class WHERE relnamespace = '{schema}'::regnamespace",
        f"SELECT proname, proacl::text, prosrc FROM pg_proc WHERE pronamespace = '{schema}'::regnamespace",
    )
    return sorted(map(repr, (*tables, *functions)))


async def test_there_and_back_and_there_again_gives_the_same_schema(server: Postgres) -> None:
    schema = "round"
    told = f"schema round: went from base to {known_migrations()[-1]}\n"
    assert await migrate(server.url, schema=schema) == (0, told)
    first = await objects(server, "round")
    assert len(first) > 30
    assert (await migrate(server.url, schema=schema))[1].endswith("nothing to do\n")
    code, told = await migrate(server.url, "--to", "base", "--json", schema=schema)
    assert (code, json.loads(told)["schemas"][0]["after"]) == (0, None)
    assert [each for each in await objects(server, "round") if "alembic_version" not in each] == []
    assert (await migrate(server.url, schema=schema))[0] == 0
    assert await objects(server, "round") == first


async def test_the_tables_are_those_of_the_models(server: Postgres) -> None:
    """Else write a migration: `alembic check` compares what is there with what the models say."""
    await server.migrate("drift")
    schema = "drift"
    assert await migrate(server.url, "--check", schema=schema) == (
        0,
        f"schema drift: at {known_migrations()[-1]}, nothing to do\n",
    )
    await server.run("ALTER TABLE drift.sessions ADD COLUMN stray text")
    code, told = await migrate(server.url, "--check", schema=schema)
    assert code == 1
    assert "stray" in told


async def test_a_check_of_an_empty_server_says_that_there_is_something_to_do(server: Postgres) -> None:
    schema = "never"
    code, told = await migrate(server.url, "--check", schema=schema)
    assert code == 1
    assert "must go from base" in told
    assert (await migrate(server.url, "--check", schema=schema))[0] == 1


async def test_two_migrations_at_once_do_it_once(server: Postgres) -> None:
    environ = {
        **os.environ,
        "GATEWAY_CONTROL_STATE_URL": server.url,
        "GATEWAY_CONTROL_KEY_PREFIX": "twice",
        "GATEWAY_CONTROL_SHARED_STATE_KEY_PREFIX": "twice",
    }
    program = [sys.executable, "-c", "from controlplane.cli import main; main()", "migrate"]
    started = [await asyncio.create_subprocess_exec(*program, env=environ, cwd=ROOT) for _ in range(3)]
    assert [await each.wait() for each in started] == [0, 0, 0]
    assert len(await objects(server, "twice")) > 30


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://127.0.0.1/0", "no tables to migrate"),
        ("mysql://x", "must begin with"),
        ("postgres://owner:{password}@127.0.0.1:{closed}/postgres", "the server says"),
        ("postgres://owner:wrong-word@127.0.0.1:{port}/postgres", "correct the user or password"),
        ("postgres://owner:{password}@127.0.0.1:{port}/nowhere", "create the database"),
    ],
)
async def test_a_wrong_url_is_answered_with_what_to_do(server: Postgres, url: str, said: str) -> None:
    password = OWNER_PASSWORD.replace(" ", "%20")
    code, told = await migrate(url.format(password=password, port=server.port, closed=closed_port()))
    assert code == 1
    assert re.search(said, told)
    assert "wrong-word" not in told
    assert password not in told
    assert OWNER_PASSWORD not in told
    assert len(told.splitlines()) == 1


async def test_a_user_without_the_rights_is_told_which_ones(server: Postgres) -> None:
    await server.run("CREATE USER nobody PASSWORD 'word of nobody'")
    code, told = await migrate(server.url_of("nobody", "word of nobody"), schema="nobody")
    assert code == 1
    assert "CREATEROLE" in told


async def test_an_unknown_migration_is_refused_with_those_that_are_known(server: Postgres) -> None:
    code, told = await migrate(server.url, "--to", "9999")
    assert code == 1
    assert SCHEMA_NEEDED in told


async def test_a_state_without_migrations_stops_the_start_and_says_how_to_run_them(server: Postgres) -> None:
    state = state_at(server.url, "absent")
    with pytest.raises(StateMisconfigured, match="gateway-control migrate"):
        await state.start()
    await state.close()


async def test_a_user_without_the_role_stops_the_start_and_is_told_which_role(server: Postgres) -> None:
    await server.migrate("roles")
    await server.run("DO $$ BEGIN CREATE USER stranger PASSWORD 'x'; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    state = state_at(server.url_of("stranger", "x"), "roles")
    with pytest.raises(StateMisconfigured, match="gateway_data"):
        await state.start()
    await state.close()


@pytest.mark.parametrize(
    ("user", "password", "database", "said"),
    [("data", "wrong", "postgres", "user or password"), ("owner", OWNER_PASSWORD, "nowhere", "no such database")],
)
async def test_a_wrong_password_or_database_stops_the_start(
    server: Postgres, user: str, password: str, database: str, said: str
) -> None:
    await server.migrate("roles")
    state = state_at(server.url_of(user, password, database), "roles")
    with pytest.raises(StateMisconfigured, match=said) as refused:
        await state.start()
    assert "wrong" not in str(refused.value)
    await state.close()


async def test_the_data_planes_role_cannot_write_the_table_the_pointer_or_the_audit_trail(server: Postgres) -> None:
    await server.migrate("roles")
    control, data = state_at(server.control_url, "roles"), state_at(server.data_url, "roles")
    await control.start()
    await data.start()
    assert (await control.move_pointer(0, b"one", ENTRY)).moved
    assert (await data.read_table()).document == b"one"
    await data.create_session(NewSession("a", "alice", "", (), 1000, 1000))
    await data.beat("r", 1, "", 1000)
    await control.close()
    await data.close()
    forbidden = [
        "SELECT * FROM move_pointer(1, '', '', '', '', '', '', '')",
        "SELECT * FROM append_audit('', '', '', '', '', '')",
        "INSERT INTO revisions VALUES (2, '', 0, '', '')",
        "UPDATE revisions SET document = ''",
        "DELETE FROM revisions",
        "TRUNCATE revisions CASCADE",
        "UPDATE pointer SET revision = 1",
        "DELETE FROM pointer",
        "INSERT INTO pointer VALUES (1, 1)",
        "INSERT INTO audit (time_ms, action, target, operator, scope, client, request_id) "
        "VALUES (0, '', '', '', '', '', '')",
        "SELECT * FROM audit",
        "DELETE FROM audit",
        "SELECT revoke_subject_sessions('alice', '', '', '', '', '', '')",
        "SELECT revoke_session('a', '', '', '', '', '', '')",
        "SELECT drop_decisions('', NULL, '', '', '', '', '', '')",
        "UPDATE decision_drops SET count = 0",
        "SELECT count_auth_failure('192.0.2.1', 5, 60000)",
        "SELECT auth_failure_wait('192.0.2.1', 5, 60000)",
        "SELECT * FROM auth_failures",
        "DELETE FROM auth_failures",
        "DELETE FROM sealed",
        "UPDATE alembic_version SET version_num = 'x'",
        "DROP TABLE sessions",
        "CREATE TABLE roles.mine (x int)",
        "ALTER TABLE sessions ADD COLUMN x int",
        "CREATE OR REPLACE FUNCTION roles.now_ms() RETURNS bigint LANGUAGE sql AS 'SELECT 1'",
    ]
    for statement in forbidden:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await server.run("SET search_path TO roles", statement, url=server.data_url)
    # Nor may the control plane rewrite history, or touch what replicas keep sealed.
    for statement in (
        "SELECT * FROM sealed",
        "UPDATE sealed SET fence = 9",
        "SELECT * FROM read_sealed('n')",
        "SELECT write_sealed('n', '', 9)",
        "DELETE FROM decision_drops",
        "TRUNCATE audit",
        "UPDATE revisions SET document = ''",
        "DELETE FROM revisions",
        "DELETE FROM audit",
        "UPDATE audit SET action = ''",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await server.run("SET search_path TO roles", statement, url=server.control_url)


async def test_a_migration_that_waits_for_a_lock_gives_up_and_changes_nothing(
    server: Postgres,
) -> None:
    await server.migrate("locked")
    # The way back begins with a migration that waits for nothing, and what it did stays.
    assert (await migrate(server.url, "--to", "0002", schema="locked"))[0] == 0
    before = await objects(server, "locked")
    holder = await asyncpg.connect(server.url)
    try:
        transaction = holder.transaction()
        await transaction.start()
        await holder.execute("LOCK TABLE locked.sessions IN ACCESS SHARE MODE")
        schema = "locked"
        code, told = await migrate(server.url, "--to", "base", schema=schema)
        assert code == 1
        assert "run it again" in told
        await transaction.rollback()
    finally:
        await holder.close()
    assert await objects(server, "locked") == before


CALLS_OF_0001 = {
    "control": [
        ("SELECT * FROM move_pointer($1, 'x', '', '', '', '', '', '')", "{n}"),
        ("SELECT * FROM append_audit($1, '', '', '', '', '')", "by the release before"),
    ],
    "data": [
        ("SELECT * FROM create_session($1, 'alice', '', '{r}', 3600000, 3600000, 5)", "old {n}"),
        ("SELECT * FROM create_session($1, 'bob', '', '{r}', 3600000, 3600000, 0)", "gone {n}"),
        ("SELECT * FROM read_sessions(ARRAY[$1])", "old {n}"),
        ("SELECT * FROM touch_session($1, 3600000)", "old {n}"),
        ("SELECT delete_session($1)", "gone {n}"),
        ("SELECT delete_subject_sessions($1)", "bob"),
        ("SELECT * FROM check_budgets(ARRAY[$1::bytea], '{9}', '{60000}', '{1000}', '{1}')", b"k"),
        ("SELECT write_decision($1, true, '', 3600000)", b"by the release before"),
        ("SELECT * FROM read_decision($1)", b"by the release before"),
        ("SELECT beat($1, 1, '', 3600000)", "r"),
        ("SELECT * FROM take_lease($1, 'r', 3600000)", "order"),
        ("SELECT publish_challenge($1, 'a', 3600000)", "t"),
        ("SELECT * FROM read_table($1)", 0),
        ("SELECT sweep($1)", 2_000),
    ],
}
"""What the programs of the release before ask for, with an argument each; `{n}` is the round."""


async def calls_of_0001(connections: dict[str, asyncpg.Connection], n: int) -> list[int]:
    """Make every call; how many rows each gave."""
    given = []
    for user, calls in CALLS_OF_0001.items():
        for statement, argument in calls:
            value = argument.format(n=n) if isinstance(argument, str) else argument
            value = int(value) if isinstance(value, str) and value.isdigit() else value
            given.append(len(await connections[user].fetch(statement, value)))
    return given


@asynccontextmanager
async def connected(server: Postgres, schema: str) -> AsyncIterator[dict[str, asyncpg.Connection]]:
    """A connection of each plane's user."""
    await server.make_users()
    async with AsyncExitStack() as stack:
        connections = {}
        for user, url in (("data", server.data_url), ("control", server.control_url)):
            connections[user] = await asyncpg.connect(url, server_settings={"search_path": schema})
            stack.push_async_callback(connections[user].close)
        yield connections


async def test_the_release_before_works_on_while_and_after_this_one_migrates(server: Postgres) -> None:
    """With its open connections, and all that they have prepared."""
    schema = "beside"
    await migrate(server.url, "--to", "0001", schema=schema)
    async with connected(server, schema) as connections:
        at_0001 = await objects(server, "beside")
        first = await calls_of_0001(connections, 0)
        assert (await migrate(server.url, schema=schema))[0] == 0
        assert await calls_of_0001(connections, 1) == first

        state = state_at(server.planes_url, "beside")
        await state.start()
        assert [each.id_hash for each in (await state.list_sessions(None, None, 10)).sessions] == ["old 0", "old 1"]
        assert [each.action for each in (await state.list_audit(None, 10)).entries] == ["by the release before", ""] * 2
        # Nobody knows whose it is, so it goes whoever's are dropped.
        assert await state.drop_decisions("somebody", None, ENTRY) == 1
        await state.close()

        assert (await migrate(server.url, "--to", "0001", schema=schema))[0] == 0
        assert await calls_of_0001(connections, 2) == first
        assert await objects(server, "beside") == at_0001


async def test_the_language_of_a_database_changes_neither_order_nor_handles(server: Postgres) -> None:
    """In Danish `aa` is a letter that comes after `z`, so what begins alike does not stand together."""
    await server.run("CREATE DATABASE danish TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'da' LOCALE 'C'")
    assert (await migrate(server.url_of("owner", OWNER_PASSWORD, "danish")))[0] == 0
    await server.make_users()
    state = state_at(server.url_of("planes", PLANES_PASSWORD, "danish"))
    await state.start()
    hashes = [each + "0" * 48 for each in ("0aa0" * 4, "0aaa" * 4, "aaaa" * 4, "aab0" * 4, "ab00" * 4, "b000" * 4)]
    for id_hash in reversed(hashes):
        await state.create_session(NewSession(id_hash, "alice", "", (), 3_600_000, 3_600_000))
    assert [each.id_hash for each in (await state.list_sessions(None, None, 10)).sessions] == hashes
    assert [each.id_hash for each in (await state.list_sessions(None, hashes[1], 2)).sessions] == hashes[2:4]
    for id_hash in hashes:
        assert (await state.revoke_session(id_hash[:16], ENTRY)).matching == 1
    await state.close()


async def test_a_program_that_needs_more_than_the_schema_has_says_so(server: Postgres) -> None:
    await migrate(server.url, "--to", "0001", schema="behind")
    await server.make_users()
    state = state_at(server.data_url, "behind")
    with pytest.raises(StateMisconfigured, match=f"at migration 0001, and this release needs {SCHEMA_NEEDED}"):
        await state.start()
    await state.close()
