"""Sessions as browsers present them and get them (§5.3).

The id in the cookie is the credential; the store holds its SHA-256 alone, so whoever reads the store cannot use it.

A browser sends two session cookies when another host of the same domain set one for the whole domain, by mistake or to
slip its own session to the caller. Each is looked up: one live session among dead ones is the caller's. Two live ones
are nobody's, since only one of them was given to this browser by this gateway; the request is refused, and neither
cookie is cleared, which could remove the good one and leave the other. A new login ends them all.
"""

from __future__ import annotations

import hashlib
import secrets
import string
from collections.abc import Awaitable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

from common.ready import Ready
from common.state.ports import NewSession, Session, State
from dataplane.authentication.cookies import clear_session_cookie, set_session_cookie
from dataplane.oidc.login import Identity

TOUCH_INTERVAL_MS = 60_000
"""A session in use is written at most once in this time, or in a tenth of its idle time where that is shorter."""

_ID_BYTES = 32
_ID_LENGTH = 43
_ID_ALPHABET = frozenset(string.ascii_letters + string.digits + "-_")
_PRESENTED_MAX = 4


Reads: TypeAlias = Mapping[str, Awaitable[Session | None]]
"""Reads that are on their way, by the value of the cookie."""

Used: TypeAlias = tuple[Session, bytes | None]
"""A session, and the `Set-Cookie` value that extends it in the browser, if it does."""

_NOTHING_ASKED: Reads = {}


class SessionRefused(Exception):
    """No live session was presented. `reason` is the label of the failure metric.

    `clear` says that the browser's cookie is dead for certain, and is to be deleted.
    """

    def __init__(self, reason: Literal["missing", "invalid", "expired"], *, clear: bool = False) -> None:
        super().__init__(reason)
        self.reason: Literal["missing", "invalid", "expired"] = reason
        self.clear = clear


# The same few browsers send most requests. Like the header blocks that hold them, ids stay in this process alone.
@lru_cache(maxsize=256)
def id_hash(session_id: str) -> str | None:
    """The hash under which a session id is stored; None for a text that was never an id of this gateway."""
    if len(session_id) != _ID_LENGTH or not _ID_ALPHABET.issuperset(session_id):
        return None
    return hashlib.sha256(session_id.encode("ascii")).hexdigest()


class BrowserSessions:
    """Reads, extends, opens and ends sessions. Every method may raise `StateUnavailable`, and then changed nothing."""

    def __init__(self, state: State, *, idle_ms: int, max_age_ms: int, max_per_subject: int, secure: bool) -> None:
        """`secure` is the attribute of the cookies."""
        self._state = state
        self._shared = state.shared
        self._idle_ms = idle_ms
        self._max_age_ms = max_age_ms
        self._max_per_subject = max_per_subject
        self._secure = secure
        self._touch_interval_ms = min(TOUCH_INTERVAL_MS, idle_ms // 10)
        self._touching: set[str] = set()

    @property
    def asks_ahead(self) -> bool:
        """Whether `ask` saves a way: not where the store is this process's own memory."""
        return self._shared

    @property
    def cleared_cookie(self) -> bytes:
        """The `Set-Cookie` value that deletes the session cookie."""
        return clear_session_cookie(secure=self._secure)

    def ask(self, presented: Sequence[str]) -> Reads:
        """Have a shared store read what `use` will need, on the way of whatever else this turn of the loop asks for.

        Nothing is judged and nothing changed: an answer or a failure that nobody awaits is thrown away. Empty where the
        store is this process's own memory, which costs no way.
        """
        if not self._shared or len(presented) > _PRESENTED_MAX:
            return _NOTHING_ASKED
        return {
            session_id: self._state.read_session(hashed)
            for session_id in presented
            if (hashed := id_hash(session_id)) is not None
        }

    async def find(self, presented: Sequence[str], asked: Reads = _NOTHING_ASKED) -> tuple[str, Session]:
        """The id and record of the one live session among the values of the session cookie; else `SessionRefused`.

        An id that the store does not know counts as expired: nearly all of them are. `asked` is what `ask` gave for
        the same values.
        """
        if not presented:
            raise SessionRefused("missing")
        if len(presented) > _PRESENTED_MAX:
            raise SessionRefused("invalid")
        found: tuple[str, Session] | None = None
        reason: Literal["invalid", "expired"] = "invalid"
        for session_id in presented:
            hashed = id_hash(session_id)
            if hashed is None:
                continue
            session = await (asked.get(session_id) or self._state.read_session(hashed))
            if session is None:
                reason = "expired"
            elif found is not None:
                raise SessionRefused("invalid")
            else:
                found = session_id, session
        if found is None:
            raise SessionRefused(reason, clear=True)
        return found

    def at_hand(self, presented: Sequence[str]) -> Session | None:
        """What `use` would give, where it would neither wait for the store nor write to it; None where it has to."""
        if self._shared or len(presented) != 1 or (hashed := id_hash(presented[0])) is None:
            return None
        read = self._state.read_session(hashed)
        session: Session | None = read[0] if isinstance(read, Ready) else None
        if session is None or self._state.now_ms() - session.touched_at_ms >= self._touch_interval_ms:
            return None
        return session

    async def use(self, presented: Sequence[str], asked: Reads = _NOTHING_ASKED) -> Used:
        """As `find`, and counts as use: where its write is due, the session is extended and its cookie sent again."""
        session_id, session = await self.find(presented, asked)
        if self._state.now_ms() - session.touched_at_ms < self._touch_interval_ms:
            return session, None
        # Of requests that come side by side, one writes.
        if session.id_hash in self._touching:
            return session, None
        self._touching.add(session.id_hash)
        try:
            touched = await self._state.touch_session(session.id_hash, self._idle_ms)
        finally:
            self._touching.discard(session.id_hash)
        if touched is None:
            raise SessionRefused("expired", clear=True)
        return touched, set_session_cookie(session_id, touched, secure=self._secure)

    async def open(self, identity: Identity, replaces: Sequence[str]) -> tuple[Session, bytes]:
        """A new session with a fresh id, and its `Set-Cookie` value; then ends what the browser had before.

        An id is never taken over from a request: whoever planted one gains nothing.
        """
        session_id = secrets.token_urlsafe(_ID_BYTES)
        hashed = hashlib.sha256(session_id.encode("ascii")).hexdigest()
        session = await self._state.create_session(
            NewSession(
                id_hash=hashed,
                subject=identity.subject,
                email=identity.email,
                roles=identity.roles,
                idle_ms=self._idle_ms,
                max_age_ms=self._max_age_ms,
                max_per_subject=self._max_per_subject,
            )
        )
        await self.end(replaces)
        return session, set_session_cookie(session_id, session, secure=self._secure)

    async def end(self, presented: Sequence[str]) -> None:
        """Delete the sessions that a browser presents."""
        for session_id in presented[:_PRESENTED_MAX]:
            hashed = id_hash(session_id)
            if hashed is not None:
                await self._state.delete_session(hashed)
