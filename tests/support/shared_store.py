"""A store that replicas share, Redis and Postgres in turn: each with a server of the test's own."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from common.state.open import open_state
from common.state.ports import ControlState, NewSession
from common.state.table_store import NewAuditEntry
from tests.support.postgres import Postgres, open_folder, start_postgres
from tests.support.processes import Children
from tests.support.redis import Redis, start_redis

ENTRY = NewAuditEntry("config.write", "routes", "someone", "config", "192.0.2.1", "r")


@dataclass
class Store:
    """A server, with the addresses that the two planes know it by."""

    server: Redis | Postgres
    data_url: str
    control_url: str

    async def control(self) -> ControlState:
        """The state as the control plane opens it; whoever asks closes it."""
        state = open_state(self.control_url)
        await state.start()
        return state


@pytest.fixture(params=["redis", "postgres"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """An empty store, and the server behind it to stop or to look into."""
    with open_folder() as folder, Children() as children:
        if request.param == "redis":
            redis = start_redis(children, folder / "redis")
            yield Store(redis, redis.url, redis.url)
        else:
            postgres = start_postgres(children, folder / "postgres")
            await postgres.migrate()
            yield Store(postgres, postgres.data_url, postgres.control_url)


async def log_in(store: Store, subject: str) -> str:
    """Log a subject in behind the login's back; the `cookie` header line of its browser."""
    session_id = secrets.token_urlsafe(32)
    control = await store.control()
    hashed = hashlib.sha256(session_id.encode()).hexdigest()
    await control.create_session(NewSession(hashed, subject, "", (), 3_600_000, 3_600_000))
    await control.close()
    return f"cookie: gateway_session={session_id}"
