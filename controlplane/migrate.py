"""Tables, functions and roles of the shared state as this release needs them, by Alembic."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, pool, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import create_async_engine

from alembic import command

CONNECT_TIMEOUT_S = 10.0


class MigrationFailed(Exception):
    """It was not done; the text says why and what to do, without a credential."""


@dataclass(frozen=True, slots=True)
class Migrated:
    """What was done to one schema. `before` and `after` are migrations, None for none."""

    schema: str
    before: str | None
    after: str | None
    differences: tuple[str, ...] = ()


def run_migrations(url: str, schema: str, *, to: str = "head", check: bool = False) -> Migrated:
    """Bring one schema to a migration, or with `check` say where it is and how its tables differ from the models."""
    if not url.startswith(("postgres://", "postgresql://")):
        raise MigrationFailed(
            "GATEWAY_CONTROL_STATE_URL names no Postgres: Redis has no tables to migrate; load deploy/redis/gateway.acl"
        )
    try:
        return asyncio.run(_run(url, schema, to, check))
    except MigrationFailed:
        raise
    except CommandError as error:
        raise MigrationFailed(f"{error}; name `head`, `base`, or one of {', '.join(known_migrations())}") from None
    except TimeoutError:
        raise MigrationFailed("the server does not answer; is the host of GATEWAY_CONTROL_STATE_URL right?") from None
    except (SQLAlchemyError, OSError) as error:
        raise MigrationFailed(_reason(error)) from None
    except Exception as error:
        # The driver's own, for a connection that was refused.
        if type(error).__module__.startswith("asyncpg"):
            raise MigrationFailed(_reason(error)) from None
        raise


def script_folder() -> Path:
    """Where the migrations are: inside the package once installed, else beside it."""
    installed = Path(__file__).parent / "migrations"
    return installed if installed.is_dir() else Path(__file__).parents[1] / "alembic"


def known_migrations() -> list[str]:
    """The migrations of this release, the oldest first."""
    scripts = ScriptDirectory(str(script_folder()))
    return [script.revision for script in reversed(list(scripts.walk_revisions()))]


async def _run(url: str, schema: str, to: str, check: bool) -> Migrated:
    parsed = make_url(url).set(drivername="postgresql+asyncpg")
    engine = create_async_engine(parsed, poolclass=pool.NullPool, connect_args={"timeout": CONNECT_TIMEOUT_S})
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(_check if check else _migrate, schema, to)
    finally:
        await engine.dispose()


def _migrate(connection: Connection, schema: str, to: str) -> Migrated:
    before = _current(connection, schema)
    config = _config(connection, schema)
    going_down = to == "base" or (before is not None and to in known_migrations() and to < before)
    step: Callable[[Config, str], None] = command.downgrade if going_down else command.upgrade
    step(config, to)
    connection.commit()
    return Migrated(schema, before, _current(connection, schema))


def _check(connection: Connection, schema: str, to: str) -> Migrated:
    before = _current(connection, schema)
    known = known_migrations()
    after = known[-1] if to == "head" else None if to == "base" else to
    if before != known[-1]:
        return Migrated(schema, before, after)
    try:
        command.check(_config(connection, schema))
    except CommandError as error:
        return Migrated(schema, before, after, (str(error),))
    return Migrated(schema, before, after)


def _config(connection: Connection, schema: str) -> Config:
    # What Alembic prints is for a terminal that runs it itself.
    config = Config(stdout=io.StringIO(), output_buffer=io.StringIO())
    config.set_main_option("script_location", str(script_folder()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes.update(connection=connection, schema=schema)
    return config


def _current(connection: Connection, schema: str) -> str | None:
    """The migration that a schema is at."""
    if connection.scalar(text("SELECT to_regclass(:name)"), {"name": f'"{schema}".alembic_version'}) is None:
        return None
    found: str | None = connection.scalar(text(f'SELECT version_num FROM "{schema}".alembic_version'))  # noqa: S608
    return found


def _reason(error: BaseException) -> str:
    """What the server said, and what to do."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    state = str(getattr(cause, "sqlstate", "") or getattr(cause.__cause__, "sqlstate", "") or "")
    said = str(cause.__cause__ or cause).splitlines()[0] if str(cause.__cause__ or cause) else type(cause).__name__
    advice = {
        "28P01": "correct the user or password in GATEWAY_CONTROL_STATE_URL",
        "28000": "correct the user or password in GATEWAY_CONTROL_STATE_URL",
        "3D000": "create the database, or correct GATEWAY_CONTROL_STATE_URL",
        "42501": "use a user that may create a schema and roles (CREATEROLE, and CREATE on the database)",
        "55P03": "a lock was not free within five seconds; nothing was changed: run it again",
        "57014": "a statement took too long; nothing was changed: run it again",
    }.get(state, "nothing was changed by the migration that failed")
    return f"the server says: {said}; {advice}"
