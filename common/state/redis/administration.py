"""Sessions as operators see them, and failed authentication, on Redis (`common.state.administration`)."""

from __future__ import annotations

import contextlib
from bisect import bisect_right

from common.state.administration import (
    AUTH_FAILURES_MAX,
    AUTH_FAILURES_WINDOW_MS,
    HANDLE_LENGTH,
    HandleRevocation,
    SessionPage,
    looked_at_most,
    session_page,
)
from common.state.measured import Measured
from common.state.ports import StateUnavailable
from common.state.redis.asking import Asking, KeysApart
from common.state.redis.records import audit_payload
from common.state.redis.scripts import (
    APPEND_AUDIT,
    AUTH_FAILURE_WAIT,
    COUNT_AUTH_FAILURE,
    DELETE_SUBJECT_SESSIONS,
    READ_VALUES,
    REVOKE_SESSION,
    Script,
)
from common.state.redis.sessions import session_of
from common.state.table_store import NewAuditEntry

_OWED_MS = 86_400_000
"""How long a deletion that could not be recorded is remembered, for the operator to repeat it."""
_RECORDING_MS = 10_000
"""How long whoever deleted has for recording it, before the next one may."""


class RedisAdministration:
    """Implements `SessionAdministration` and `AuthFailureStore`; the data plane's credentials can do neither.

    Sessions and the audit trail have a slot each. One server takes both in one script. A cluster refuses it, whatever
    servers hold them: there the deletion comes first, and is recorded next. When that fails the operator repeats it,
    and it is recorded then.
    """

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def list_sessions(self, subject: str | None, after: str | None, limit: int) -> SessionPage:
        """See `SessionAdministration.list_sessions`."""
        asking, keys = self._asking, self._asking.keys
        most = looked_at_most(limit)
        with asking.measure("list_sessions") as measured:
            if subject is None:
                index = keys.sessions
                start = "-" if after is None else f"({after}"
                hashes = await self._members(measured, index, start, "+", "BYLEX", "LIMIT", 0, most + 1)
            else:
                index = keys.subject_index(subject)
                hashes = sorted(await self._members(measured, index, 0, -1))
                hashes = hashes[0 if after is None else bisect_right(hashes, after) :]
            looked_at = hashes[:most]
            if not looked_at:
                return SessionPage((), None)
            _, *values = await asking.script(READ_VALUES, [keys.session(each) for each in looked_at])
            found = [(each, session_of(each, value, measured)) for each, value in zip(looked_at, values, strict=True)]
            over = [each for each, session in found if session is None]
            if over:
                await asking.command(index.encode(), "ZREM", index, *over)
            return session_page(found, limit, more=len(hashes) > most)

    async def _members(self, measured: Measured, index: str, *bounds: str | int) -> list[str]:
        """Members of an index; none of one that is not ours."""
        members = await self._asking.typed(index.encode(), measured, "ZRANGE", index, *bounds)
        return [member.decode("utf-8", "replace") for member in members or ()]

    async def revoke_subject_sessions(self, subject: str, entry: NewAuditEntry) -> int:
        """See `SessionAdministration.revoke_subject_sessions`."""
        asking, keys = self._asking, self._asking.keys
        names = (keys.subject_index(subject), keys.sessions)
        with asking.measure("revoke_subject_sessions") as measured:
            try:
                foreign, revoked = await asking.script(
                    DELETE_SUBJECT_SESSIONS,
                    (*names, keys.audit, keys.audit_count),
                    keys.session_prefix,
                    audit_payload(entry),
                )
            except KeysApart:
                foreign, revoked = await asking.script(DELETE_SUBJECT_SESSIONS, names, keys.session_prefix)
                await self._record(entry)
            measured.found_foreign(foreign)
            return int(revoked)

    async def revoke_session(self, handle: str, entry: NewAuditEntry) -> HandleRevocation:
        """See `SessionAdministration.revoke_session`."""
        if len(handle) != HANDLE_LENGTH:
            return HandleRevocation(0)
        asking, keys = self._asking, self._asking.keys
        owed = keys.owed_record(handle)
        names = (keys.sessions, owed)
        args = (handle, keys.session_prefix, keys.index_prefix, audit_payload(entry), _OWED_MS, _RECORDING_MS)
        with asking.measure("revoke_session") as measured:
            try:
                foreign, matching = await asking.script(REVOKE_SESSION, (*names, keys.audit, keys.audit_count), *args)
            except KeysApart:
                foreign, matching = await asking.script(REVOKE_SESSION, names, *args)
                if matching < 0:
                    text = "the session is deleted, and that is not recorded yet; repeat it in some seconds"
                    raise StateUnavailable(text) from None
                if matching == 1:
                    await self._record(entry)
                    # Left behind, it would have a second revocation of the same session recorded as well.
                    with contextlib.suppress(StateUnavailable):
                        await asking.command(owed.encode(), "DEL", owed)
            measured.found_foreign(foreign)
            return HandleRevocation(matching)

    async def _record(self, entry: NewAuditEntry) -> None:
        keys = self._asking.keys
        try:
            await self._asking.script(APPEND_AUDIT, (keys.audit, keys.audit_count), audit_payload(entry))
        except StateUnavailable as failure:
            text = f"the sessions are deleted, and that is not recorded; repeat it: {failure}"
            raise StateUnavailable(text) from None

    async def count_auth_failure(self, address: str) -> float:
        """See `AuthFailureStore.count_auth_failure`."""
        return await self._auth_failures("count_auth_failure", COUNT_AUTH_FAILURE, address)

    async def auth_failure_wait(self, address: str) -> float:
        """See `AuthFailureStore.auth_failure_wait`."""
        return await self._auth_failures("auth_failure_wait", AUTH_FAILURE_WAIT, address)

    async def _auth_failures(self, operation: str, script: Script, address: str) -> float:
        asking = self._asking
        with asking.measure(operation) as measured:
            foreign, wait_ms = await asking.script(
                script,
                (asking.keys.auth_failures(address),),
                AUTH_FAILURES_MAX,
                AUTH_FAILURES_WINDOW_MS,
                int(script is COUNT_AUTH_FAILURE),
            )
            measured.found_foreign(foreign)
            return float(wait_ms) / 1000
