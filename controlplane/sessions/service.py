"""Sessions, over the shared state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.state.administration import SessionAdministration, SessionPage
from controlplane.audit.targets import named
from controlplane.errors import ApiError

if TYPE_CHECKING:
    from controlplane.authentication import Caller


class SessionsService:
    """What is revoked is over for every gateway at its next request; open WebSockets follow at their next check."""

    def __init__(self, state: SessionAdministration) -> None:
        self._state = state

    async def page(self, subject: str | None, after: str | None, limit: int) -> SessionPage:
        """See `SessionAdministration.list_sessions`."""
        return await self._state.list_sessions(subject, after, limit)

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
