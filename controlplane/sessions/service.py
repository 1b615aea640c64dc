"""Sessions, over the shared state."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from common.state.administration import SessionAdministration, SessionPage
from common.state.ports import StateUnavailable
from controlplane.audit.targets import named
from controlplane.errors import ApiError

if TYPE_CHECKING:
    from controlplane.authentication import Caller


ID_HASH = re.compile(r"[0-9a-f]{64}")
"""A session's place in the store: the SHA-256 of its id. What has another place nobody could present."""

LOOKED_THROUGH_MAX = 50
"""Pages without a session that are looked through for one answer. The store deletes sessions that are over, so only
what somebody else put there makes so many.
"""


class SessionsService:
    """What is revoked is over for every gateway at its next request; open WebSockets follow at their next check."""

    def __init__(self, state: SessionAdministration) -> None:
        self._state = state

    async def page(self, subject: str | None, after: str | None, limit: int) -> SessionPage:
        """See `SessionAdministration.list_sessions`. What is no gateway's own is passed over."""
        for _ in range(LOOKED_THROUGH_MAX):
            found = await self._state.list_sessions(subject, after, limit)
            sessions = tuple(each for each in found.sessions if ID_HASH.fullmatch(each.id_hash))
            after = found.next_after
            if after is None or ID_HASH.fullmatch(after):
                return SessionPage(sessions, after)
            if sessions:
                return SessionPage(sessions, sessions[-1].id_hash)
        raise StateUnavailable("the store lists too many sessions that are no gateway's")

    async def revoke_subject(self, subject: str, caller: Caller) -> int:
        """End every session of a subject; how many there were."""
        entry = caller.entry("sessions.revoke", named(subject=subject))
        return await self._state.revoke_subject_sessions(subject, entry)

    async def revoke(self, handle: str, caller: Caller) -> None:
        """End the one session with this handle; 404 for none, 409 for several."""
        found = await self._state.revoke_session(handle, caller.entry("sessions.revoke", f"session {handle}"))
        if found.matching == 0:
            raise ApiError("not_found", "No live session bears this handle.")
        if found.matching > 1:
            message = f"{found.matching} sessions bear this handle. Revoke those of the subject instead."
            raise ApiError("ambiguous_handle", message)
