"""How Alembic runs the migrations: on the connection and schema that `controlplane.migrate` hands over.

A migration is one transaction. It waits a bounded time for a lock and runs a bounded time, so that on a running
deployment it fails and changes nothing rather than stop everybody else.
"""

from __future__ import annotations

from sqlalchemy import Connection, text

from alembic import context
from common.state.postgres.models import Base

LOCK_TIMEOUT = "5s"
STATEMENT_TIMEOUT = "60s"
# Two migrations at once wait for each other here: the number is this product's alone, whatever the schema.
MIGRATION_LOCK = 7_706_172_021


def run(connection: Connection, schema: str) -> None:
    """Bring `schema` to where the command asks."""
    connection.execute(text("SELECT set_config('lock_timeout', :time, false)"), {"time": LOCK_TIMEOUT})
    connection.execute(text("SELECT set_config('statement_timeout', :time, false)"), {"time": STATEMENT_TIMEOUT})
    connection.execute(text("SELECT pg_advisory_lock(:number)"), {"number": MIGRATION_LOCK})
    connection.execute(text(f'CREATE SCHEMA IF NOT EXISTS "{schema}"'))
    connection.execute(text("SELECT set_config('search_path', :schema, false)"), {"schema": schema})
    connection.commit()
    connection.dialect.default_schema_name = schema
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        transaction_per_migration=True,
        compare_server_default=True,
    )
    with context.begin_transaction():
        context.run_migrations(schema=schema)


run(context.config.attributes["connection"], context.config.attributes["schema"])
