"""One connection to Postgres, checked: it may do what this release does, on tables that this release knows."""

from __future__ import annotations

import asyncpg

from common.state.ports import StateMisconfigured

SCHEMA_NEEDED = "0004"
"""The oldest migration whose tables and functions this release works on. Identifiers rise as texts do."""

MIGRATE = "run `gateway-control migrate` with GATEWAY_CONTROL_STATE_URL at this database"


async def open_connection(
    url: str, *, schema: str, timeout_s: float, synchronous_commit: bool, check: bool = True
) -> asyncpg.Connection:
    """A connection that sees `schema`. Raises `StateMisconfigured` when the migrations have not been run."""
    settings = {
        "application_name": "wicketgate",
        "search_path": schema,
        # The server ends what takes too long by itself, a little before nobody waits for it any more.
        "statement_timeout": str(max(round(timeout_s * 900), 1)),
        "lock_timeout": str(max(round(timeout_s * 900), 1)),
        "idle_in_transaction_session_timeout": "10000",
        "synchronous_commit": "on" if synchronous_commit else "off",
        "jit": "off",
    }
    connection = await asyncpg.connect(url, server_settings=settings)
    try:
        if check:
            await _check(connection, schema)
    except BaseException:
        connection.terminate()
        raise
    return connection


async def _check(connection: asyncpg.Connection, schema: str) -> None:
    if await connection.fetchval("SELECT pg_is_in_recovery()"):
        raise ConnectionError("the server is a standby; it takes no writes")
    try:
        found = await connection.fetchval("SELECT version_num FROM alembic_version")
    except asyncpg.UndefinedTableError:
        exists = await connection.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname = $1", schema)
        if exists and not await connection.fetchval("SELECT has_schema_privilege($1, 'USAGE')", schema):
            raise StateMisconfigured(
                f"Postgres does not let this user into the schema {schema}; grant it the role gateway_data (the "
                "gateway) or gateway_control (the control plane)"
            ) from None
        raise StateMisconfigured(f"the schema {schema} has no tables of this program yet; {MIGRATE}") from None
    if found is None or found < SCHEMA_NEEDED:
        raise StateMisconfigured(
            f"the schema {schema} is at migration {found or 'none'}, and this release needs {SCHEMA_NEEDED}; {MIGRATE}"
        )
