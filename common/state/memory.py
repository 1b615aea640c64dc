"""State in this process's memory: one replica, one worker, nothing survives a restart (`memory://local`).

Every method runs to its end without giving up the loop, so each is atomic among the tasks of the process; the lock of
a server is not needed. The clock is the injected one. Nothing here ever raises `StateUnavailable`.

What expires is not found from that moment on. Its memory is given back by the next writes: each looks at a few of the
oldest entries, round and round, so no write takes long and entries never pile up faster than they are cleared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from common.state.budgets import BudgetTable, monotonic_ms
from common.state.memory_coordination import Coordination
from common.state.memory_table import MemoryRouteTable
from common.state.ports import Decision, NewSession, Session

# Entries looked at by one write. More than one, so that the sweep outruns what writes add.
_SWEEP = 3

MAX_DECISIONS = 100_000
"""Decisions kept at most by default; some 50 MB of them."""


class MemoryState(Coordination, MemoryRouteTable):
    """All of the shared state, in dictionaries. Implements `common.state.ports.ControlState`.

    `budget_clock` gives milliseconds that only rise: budgets do not follow the wall clock when it is set.
    """

    backend = "memory"
    up = True

    def __init__(
        self,
        now_ms: Callable[[], int],
        *,
        max_decisions: int = MAX_DECISIONS,
        budget_clock: Callable[[], int] = monotonic_ms,
    ) -> None:
        Coordination.__init__(self, now_ms)
        MemoryRouteTable.__init__(self)
        self.budgets = BudgetTable(budget_clock)
        # The very method: a budget is checked several times a request, and one more call would be felt.
        self.check_budgets = self.budgets.check_budgets
        self._sessions = _Sessions()
        self._decisions = _Decisions(max_decisions)

    def now_ms(self) -> int:
        """The injected clock."""
        return self._now_ms()

    async def create_session(self, new: NewSession) -> Session:
        """See `SessionStore.create_session`."""
        return self._sessions.create(new, self._now_ms())

    async def read_session(self, id_hash: str) -> Session | None:
        """See `SessionStore.read_session`."""
        return self._sessions.read(id_hash, self._now_ms())

    async def touch_session(self, id_hash: str, idle_ms: int) -> Session | None:
        """See `SessionStore.touch_session`."""
        return self._sessions.touch(id_hash, idle_ms, self._now_ms())

    async def delete_session(self, id_hash: str) -> bool:
        """See `SessionStore.delete_session`."""
        return self._sessions.delete(id_hash, self._now_ms())

    async def delete_subject_sessions(self, subject: str) -> int:
        """See `SessionStore.delete_subject_sessions`."""
        return self._sessions.delete_subject(subject, self._now_ms())

    async def read_decision(self, key: bytes) -> Decision | None:
        """See `DecisionStore.read_decision`."""
        return self._decisions.read(key, self._now_ms())

    async def write_decision(self, key: bytes, *, allow: bool, reason_code: str, keep_ms: int) -> None:
        """See `DecisionStore.write_decision`. When the bound is reached, the decision stored longest ago goes."""
        now = self._now_ms()
        self._decisions.write(key, Decision(allow, reason_code, now), now + keep_ms, now)

    async def start(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Nothing to release."""


def _live(session: Session, now: int) -> bool:
    return now < session.idle_expires_at_ms and now < session.expires_at_ms


class _Sessions:
    """Sessions by the hash of their id, with the hashes of each subject from the oldest to the newest."""

    def __init__(self) -> None:
        self._by_id: dict[str, Session] = {}
        self._by_subject: dict[str, list[str]] = {}
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
        self._round.append(session.id_hash)
        return session

    def read(self, id_hash: str, now: int) -> Session | None:
        session = self._by_id.get(id_hash)
        if session is None or _live(session, now):
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


class _Decisions:
    """Decisions by key, each with the time at which it goes. Every key stands once in the round."""

    def __init__(self, limit: int) -> None:
        self._by_key: dict[bytes, tuple[Decision, int]] = {}
        self._round: deque[bytes] = deque()
        self._limit = limit

    def read(self, key: bytes, now: int) -> Decision | None:
        found = self._by_key.get(key)
        return found[0] if found is not None and now < found[1] else None

    def write(self, key: bytes, decision: Decision, gone_at: int, now: int) -> None:
        self._sweep(now)
        if key not in self._by_key:
            if self._limit <= 0:
                return
            while len(self._by_key) >= self._limit:
                del self._by_key[self._round.popleft()]
            self._round.append(key)
        self._by_key[key] = (decision, gone_at)

    def _sweep(self, now: int) -> None:
        for _ in range(min(_SWEEP, len(self._round))):
            if now < self._by_key[self._round[0]][1]:
                self._round.rotate(-1)
            else:
                del self._by_key[self._round.popleft()]
