"""Sessions on Postgres (`common.state.ports.SessionStore`)."""

from __future__ import annotations

import asyncio

import asyncpg

from common.state.ports import NewSession, Session
from common.state.postgres.asking import Asking
from common.state.postgres.lane import Lane, fail_all

MOST_READ = 128
"""Sessions read by one statement."""

_Read = tuple[str, asyncio.Future[Session | None]]


class PostgresSessions:
    """Implements `SessionStore`. Reads of one turn are one statement."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._reads: Lane[_Read] = Lane(
            asking.pool, self._read, fail_all, name="read_session", watch=asking.watch, most=MOST_READ, at_once=2
        )

    async def create_session(self, new: NewSession) -> Session:
        """See `SessionStore.create_session`."""
        asking = self._asking
        with asking.measure("create_session"):
            rows = await asking.rows(
                "SELECT * FROM create_session($1, $2, $3, $4, $5, $6, $7)",
                new.id_hash,
                new.subject,
                new.email,
                new.roles,
                new.idle_ms,
                new.max_age_ms,
                new.max_per_subject,
            )
            if not rows:
                raise ValueError("a session with this id exists")
            created, idle_end, end = rows[0]
            asking.clock.heard(created)
            return Session(new.id_hash, new.subject, new.email, new.roles, created, created, idle_end, end)

    def read_session(self, id_hash: str) -> asyncio.Future[Session | None]:
        """See `SessionStore.read_session`. It is on its way when this returns, awaited or not."""
        future: asyncio.Future[Session | None] = asyncio.get_running_loop().create_future()
        try:
            self._reads.add((id_hash, future))
        except Exception as error:  # noqa: BLE001 (told to whoever awaits it)
            fail_all([(id_hash, future)], error)
        return future

    async def _read(self, connection: asyncpg.Connection, reads: list[_Read]) -> None:
        hashes = list(dict.fromkeys(id_hash for id_hash, _ in reads))
        rows = await connection.fetch("SELECT * FROM read_sessions($1)", hashes)
        if rows:
            self._asking.clock.heard(rows[0]["now"])
        found = {row["id_hash"]: session_of(row) for row in rows}
        for id_hash, future in reads:
            if not future.done():
                future.set_result(found.get(id_hash))

    async def touch_session(self, id_hash: str, idle_ms: int) -> Session | None:
        """See `SessionStore.touch_session`."""
        asking = self._asking
        with asking.measure("touch_session"):
            rows = await asking.rows("SELECT * FROM touch_session($1, $2)", id_hash, idle_ms)
            if not rows:
                return None
            asking.clock.heard(rows[0]["now"])
            return session_of(rows[0])

    async def delete_session(self, id_hash: str) -> bool:
        """See `SessionStore.delete_session`."""
        with self._asking.measure("delete_session"):
            return bool(await self._asking.value("SELECT delete_session($1)", id_hash))

    async def delete_subject_sessions(self, subject: str) -> int:
        """See `SessionStore.delete_subject_sessions`."""
        with self._asking.measure("delete_subject_sessions"):
            return int(await self._asking.value("SELECT delete_subject_sessions($1)", subject))


def session_of(row: asyncpg.Record) -> Session:
    """A row of a session's columns, and the server's time."""
    id_hash, subject, email, roles, created, touched, idle_end, end, _ = row
    return Session(id_hash, subject, email, tuple(roles), created, touched, idle_end, end)
