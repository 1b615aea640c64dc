"""Sessions in this process's memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from dataclasses import replace

from common.state.administration import SessionPage, looked_at_most, session_page
from common.state.ports import NewSession, Session

_SWEEP = 3
"""Sessions looked at by one creation: more than one, so that the sweep outruns what creations add."""


def _live(session: Session, now: int) -> bool:
    return now < session.idle_expires_at_ms and now < session.expires_at_ms


class Sessions:
    """Sessions by the hash of their id, with the hashes of each subject from the oldest to the newest, and all of them
    in their order.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, Session] = {}
        self._by_subject: dict[str, list[str]] = {}
        self._ordered: list[str] = []
        self._round: deque[str] = deque()

    def create(self, new: NewSession, now: int) -> Session:
        self._sweep(now)
        known = self._by_id.get(new.id_hash)
        if known is not None:
            if _live(known, now):
                raise ValueError("a session with this id exists")
            self._drop(known)
        if new.max_per_subject > 0:
            self._make_room(new.subject, new.max_per_subject, now)
        expires_at = now + new.max_age_ms
        session = Session(
            id_hash=new.id_hash,
            subject=new.subject,
            email=new.email,
            roles=new.roles,
            created_at_ms=now,
            touched_at_ms=now,
            idle_expires_at_ms=min(now + new.idle_ms, expires_at),
            expires_at_ms=expires_at,
        )
        self._by_id[session.id_hash] = session
        self._by_subject.setdefault(session.subject, []).append(session.id_hash)
        insort(self._ordered, session.id_hash)
        self._round.append(session.id_hash)
        return session

    def read(self, id_hash: str, now: int) -> Session | None:
        session = self._by_id.get(id_hash)
        if session is None or (now < session.idle_expires_at_ms and now < session.expires_at_ms):
            return session
        self._drop(session)
        return None

    def touch(self, id_hash: str, idle_ms: int, now: int) -> Session | None:
        session = self.read(id_hash, now)
        if session is None:
            return None
        touched = replace(session, touched_at_ms=now, idle_expires_at_ms=min(now + idle_ms, session.expires_at_ms))
        self._by_id[id_hash] = touched
        return touched

    def delete(self, id_hash: str, now: int) -> bool:
        session = self.read(id_hash, now)
        if session is None:
            return False
        self._drop(session)
        return True

    def delete_subject(self, subject: str, now: int) -> int:
        sessions = [self._by_id[id_hash] for id_hash in self._by_subject.get(subject, ())]
        for session in sessions:
            self._drop(session)
        return sum(_live(session, now) for session in sessions)

    def page(self, subject: str | None, after: str | None, limit: int, now: int) -> SessionPage:
        """See `SessionAdministration.list_sessions`."""
        hashes = self._ordered if subject is None else sorted(self._by_subject.get(subject, ()))
        start = 0 if after is None else bisect_right(hashes, after)
        end = start + looked_at_most(limit)
        more = end < len(hashes)
        return session_page([(each, self.read(each, now)) for each in hashes[start:end]], limit, more=more)

    def with_handle(self, handle: str, now: int) -> list[Session]:
        """The live sessions whose ids' hashes begin with `handle`."""
        ordered = self._ordered
        hashes = ordered[bisect_left(ordered, handle) : bisect_left(ordered, handle + chr(0x10FFFF))]
        return [session for session in (self.read(each, now) for each in hashes) if session is not None]

    def _make_room(self, subject: str, limit: int, now: int) -> None:
        sessions = [self._by_id[id_hash] for id_hash in self._by_subject.get(subject, ())]
        live = [session for session in sessions if _live(session, now)]
        kept = live[len(live) - limit + 1 :] if len(live) >= limit else live
        keep = {session.id_hash for session in kept}
        for session in sessions:
            if session.id_hash not in keep:
                self._drop(session)

    def _drop(self, session: Session) -> None:
        del self._by_id[session.id_hash]
        del self._ordered[bisect_left(self._ordered, session.id_hash)]
        hashes = self._by_subject[session.subject]
        hashes.remove(session.id_hash)
        if not hashes:
            del self._by_subject[session.subject]

    def _sweep(self, now: int) -> None:
        for _ in range(min(_SWEEP, len(self._round))):
            session = self._by_id.get(self._round[0])
            if session is None:
                self._round.popleft()
            elif _live(session, now):
                self._round.rotate(-1)
            else:
                self._round.popleft()
                self._drop(session)
