"""Sessions as operators see them, and failed authentication, on Postgres (`common.state.administration`)."""

from __future__ import annotations

from dataclasses import astuple

from common.state.administration import (
    AUTH_FAILURES_MAX,
    AUTH_FAILURES_WINDOW_MS,
    HANDLE_LENGTH,
    HandleRevocation,
    SessionPage,
    looked_at_most,
    session_page,
)
from common.state.postgres.asking import Asking
from common.state.postgres.sessions import session_of
from common.state.table_store import NewAuditEntry

_COLUMNS = "id_hash, subject, email, roles, created_ms, touched_ms, idle_end_ms, end_ms, now_ms() AS now"
LIST_ALL = f"SELECT {_COLUMNS} FROM sessions WHERE id_hash > $1 ORDER BY id_hash LIMIT $2"  # noqa: S608
# Walking the others' sessions in their order could be long, so the subject's are taken first.
LIST_SUBJECT = f"""
    WITH own AS MATERIALIZED (SELECT {_COLUMNS} FROM sessions WHERE subject = $3)
    SELECT * FROM own WHERE id_hash > $1 ORDER BY id_hash LIMIT $2
"""  # noqa: S608


class PostgresAdministration:
    """Implements `SessionAdministration` and `AuthFailureStore`; the data plane's credentials can do neither."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def list_sessions(self, subject: str | None, after: str | None, limit: int) -> SessionPage:
        """See `SessionAdministration.list_sessions`."""
        most = looked_at_most(limit)
        statement, of_subject = (LIST_ALL, ()) if subject is None else (LIST_SUBJECT, (subject,))
        with self._asking.measure("list_sessions"):
            rows = await self._asking.rows(statement, after or "", most + 1, *of_subject)
            looked_at = [
                (row["id_hash"], session_of(row) if row["now"] < row["idle_end_ms"] else None) for row in rows[:most]
            ]
            return session_page(looked_at, limit, more=len(rows) > most)

    async def revoke_subject_sessions(self, subject: str, entry: NewAuditEntry) -> int:
        """See `SessionAdministration.revoke_subject_sessions`."""
        with self._asking.measure("revoke_subject_sessions"):
            revoked = await self._asking.value(
                "SELECT revoke_subject_sessions($1, $2, $3, $4, $5, $6, $7)", subject, *astuple(entry)
            )
            return int(revoked)

    async def revoke_session(self, handle: str, entry: NewAuditEntry) -> HandleRevocation:
        """See `SessionAdministration.revoke_session`."""
        if len(handle) != HANDLE_LENGTH:
            return HandleRevocation(0)
        with self._asking.measure("revoke_session"):
            matching = await self._asking.value(
                "SELECT revoke_session($1, $2, $3, $4, $5, $6, $7)", handle, *astuple(entry)
            )
            return HandleRevocation(matching)

    async def count_auth_failure(self, address: str) -> float:
        """See `AuthFailureStore.count_auth_failure`."""
        with self._asking.measure("count_auth_failure"):
            return await self._wait_s("SELECT count_auth_failure($1, $2, $3)", address)

    async def auth_failure_wait(self, address: str) -> float:
        """See `AuthFailureStore.auth_failure_wait`."""
        with self._asking.measure("auth_failure_wait"):
            return await self._wait_s("SELECT auth_failure_wait($1, $2, $3)", address)

    async def _wait_s(self, statement: str, address: str) -> float:
        wait_ms: int = await self._asking.value(statement, address, AUTH_FAILURES_MAX, AUTH_FAILURES_WINDOW_MS)
        return wait_ms / 1000
