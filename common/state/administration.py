"""What operators do to sessions and cached decisions, and how failed authentication is counted (CONTRACT §12.7).

What changes something is recorded by the store that changes it: the change and its audit entry are there together, or
neither is. A Redis cluster, whose scripts reach one slot only, deletes first and records next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from common.state.table_store import NewAuditEntry

if TYPE_CHECKING:
    from common.state.ports import Session

HANDLE_LENGTH = 16
"""A session's handle: this many of the first hexadecimal characters of its id's hash. It names a session to people and
opens nothing."""

AUTH_FAILURES_MAX = 5
AUTH_FAILURES_WINDOW_MS = 60_000


@dataclass(frozen=True, slots=True)
class SessionPage:
    """Live sessions in the order of `id_hash`. `next_after` asks for those that follow; None when there are none.

    A page may hold fewer than were asked for, or none, although others follow: a store passes over a bounded number of
    sessions that are over.
    """

    sessions: tuple[Session, ...]
    next_after: str | None


def looked_at_most(limit: int) -> int:
    """How many sessions are looked at for a page of `limit`: most are live, so that most pages are full."""
    return 2 * limit


def session_page(looked_at: Sequence[tuple[str, Session | None]], limit: int, *, more: bool) -> SessionPage:
    """The page made of what was looked at, in its order: None where a session is over. `more`: others follow that."""
    sessions: list[Session] = []
    for place, (_, session) in enumerate(looked_at, 1):
        if session is None:
            continue
        sessions.append(session)
        if len(sessions) == limit:
            more = more or place < len(looked_at)
            looked_at = looked_at[:place]
            break
    return SessionPage(tuple(sessions), looked_at[-1][0] if more and looked_at else None)


@dataclass(frozen=True, slots=True)
class HandleRevocation:
    """How many live sessions bore the handle. Exactly one: it was deleted, and that was recorded. Else neither."""

    matching: int


class SessionAdministration(Protocol):
    """Sessions as operators see them. The data plane's credentials cannot record, so they can do none of this."""

    async def list_sessions(self, subject: str | None, after: str | None, limit: int) -> SessionPage:
        """At most `limit` (1 or more) live sessions of a subject (None: of all) whose `id_hash` comes after `after`
        (None: from the first), in the order of `id_hash`. A page costs the same however many sessions there are; one of
        a subject costs as much as the subject has sessions.
        """
        ...

    async def revoke_subject_sessions(self, subject: str, entry: NewAuditEntry) -> int:
        """Delete every session of a subject and record it, also when there was none; how many there were."""
        ...

    async def revoke_session(self, handle: str, entry: NewAuditEntry) -> HandleRevocation:
        """Delete the one live session with this handle and record it; see `HandleRevocation`."""
        ...


class DecisionAdministration(Protocol):
    """Cached decisions as operators see them."""

    async def drop_decisions(self, subject: str | None, workspace_id: str | None, entry: NewAuditEntry) -> int:
        """Forget the stored decisions of a subject, of a workspace, or of the two together (at least one is given),
        record it, and raise `decisions_dropped`, whatever number there was; how many were forgotten.

        On Redis it is recorded and raised first, and raised again when the last is forgotten: decisions spread over
        all servers. `StateUnavailable` in between means that some may be left; the operator repeats it.
        """
        ...


class DecisionDrops(Protocol):
    """How replicas learn that what they keep of Access's decisions in their own memory is not wanted any more."""

    async def decisions_dropped(self) -> int:
        """A number that rises whenever decisions are dropped. A replica that sees another one than before forgets all
        that it keeps.
        """
        ...


class AuthFailureStore(Protocol):
    """Failed authentication at the control plane by socket address, over all of its replicas: exact."""

    async def count_auth_failure(self, address: str) -> float:
        """Count one; 0, or, where there were `AUTH_FAILURES_MAX` in the window already, the seconds until the next may
        be judged.
        """
        ...

    async def auth_failure_wait(self, address: str) -> float:
        """Count nothing; 0, or the seconds until this address may be judged again."""
        ...
