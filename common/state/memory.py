"""State in this process's memory: one replica, one worker, nothing survives a restart (`memory://local`).

Every method runs to its end without giving up the loop, so each is atomic among the tasks of the process; the lock of
a server is not needed. The clock is the injected one. Nothing here ever raises `StateUnavailable`.

What expires is not found from that moment on. Its memory is given back by the next writes: each looks at a few of the
oldest entries, round and round, so no write takes long and entries never pile up faster than they are cleared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from common.ready import Ready
from common.state.administration import HANDLE_LENGTH, HandleRevocation, SessionPage
from common.state.budgets import BudgetTable, monotonic_ms
from common.state.memory_auth import AuthFailures
from common.state.memory_coordination import Coordination
from common.state.memory_sessions import Sessions
from common.state.memory_table import MemoryRouteTable
from common.state.ports import Decision, DecisionKey, NewSession, Session
from common.state.table_store import NewAuditEntry

# Decisions looked at by one write. More than one, so that the sweep outruns what writes add.
_SWEEP = 3

MAX_DECISIONS = 100_000
"""Decisions kept at most by default; some 50 MB of them."""


class MemoryState(Coordination, MemoryRouteTable):
    """All of the shared state, in dictionaries. Implements `common.state.ports.ControlState`.

    `budget_clock` gives milliseconds that only rise: budgets do not follow the wall clock when it is set.
    """

    backend = "memory"
    shared = False
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
        self._sessions = Sessions()
        self._decisions = _Decisions(max_decisions)
        self._decisions_dropped = 0
        self._auth_failures = AuthFailures()

    def now_ms(self) -> int:
        """The injected clock."""
        return self._now_ms()

    async def create_session(self, new: NewSession) -> Session:
        """See `SessionStore.create_session`."""
        return self._sessions.create(new, self._now_ms())

    def read_session(self, id_hash: str) -> Ready[Session | None]:
        """See `SessionStore.read_session`."""
        return Ready((self._sessions.read(id_hash, self._now_ms()),))

    async def touch_session(self, id_hash: str, idle_ms: int) -> Session | None:
        """See `SessionStore.touch_session`."""
        return self._sessions.touch(id_hash, idle_ms, self._now_ms())

    async def delete_session(self, id_hash: str) -> bool:
        """See `SessionStore.delete_session`."""
        return self._sessions.delete(id_hash, self._now_ms())

    async def delete_subject_sessions(self, subject: str) -> int:
        """See `SessionStore.delete_subject_sessions`."""
        return self._sessions.delete_subject(subject, self._now_ms())

    async def read_decision(self, key: DecisionKey) -> Decision | None:
        """See `DecisionStore.read_decision`."""
        return self._decisions.read(key, self._now_ms())

    async def write_decision(
        self, key: DecisionKey, *, allow: bool, reason_code: str, asked_at_ms: int, keep_ms: int
    ) -> None:
        """See `DecisionStore.write_decision`. When the bound is reached, the decision stored longest ago goes."""
        now = self._now_ms()
        asked = min(asked_at_ms, now)
        self._decisions.write(key, _Asked(allow, reason_code, asked, asked + keep_ms), now)

    async def list_sessions(self, subject: str | None, after: str | None, limit: int) -> SessionPage:
        """See `SessionAdministration.list_sessions`."""
        return self._sessions.page(subject, after, limit, self._now_ms())

    async def revoke_subject_sessions(self, subject: str, entry: NewAuditEntry) -> int:
        """See `SessionAdministration.revoke_subject_sessions`."""
        self._append(entry)
        return self._sessions.delete_subject(subject, self._now_ms())

    async def revoke_session(self, handle: str, entry: NewAuditEntry) -> HandleRevocation:
        """See `SessionAdministration.revoke_session`."""
        now = self._now_ms()
        found = self._sessions.with_handle(handle, now) if len(handle) == HANDLE_LENGTH else []
        if len(found) == 1:
            self._append(entry)
            self._sessions.delete(found[0].id_hash, now)
        return HandleRevocation(len(found))

    async def drop_decisions(self, subject: str | None, workspace_id: str | None, entry: NewAuditEntry) -> int:
        """See `DecisionAdministration.drop_decisions`."""
        self._append(entry)
        self._decisions_dropped += 1
        dropped = self._decisions.drop(subject, workspace_id, self._now_ms())
        self._hint()
        return dropped

    async def decisions_dropped(self) -> int:
        """See `DecisionDrops.decisions_dropped`."""
        return self._decisions_dropped

    async def count_auth_failure(self, address: str) -> float:
        """See `AuthFailureStore.count_auth_failure`."""
        return self._auth_failures.count(address, self._now_ms())

    async def auth_failure_wait(self, address: str) -> float:
        """See `AuthFailureStore.auth_failure_wait`."""
        return self._auth_failures.wait(address, self._now_ms())

    async def start(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Nothing to release."""


class _Asked(NamedTuple):
    """A decision, when its question was asked, and when it goes."""

    allow: bool
    reason_code: str
    asked: int
    gone: int


class _Decisions:
    """Decisions by key. Every key stands once in the round."""

    def __init__(self, limit: int) -> None:
        self._by_key: dict[DecisionKey, _Asked] = {}
        self._round: deque[DecisionKey] = deque()
        self._limit = limit

    def read(self, key: DecisionKey, now: int) -> Decision | None:
        found = self._by_key.get(key)
        if found is None or not found.asked <= now < found.gone:
            return None
        return Decision(found.allow, found.reason_code, now - found.asked)

    def write(self, key: DecisionKey, new: _Asked, now: int) -> None:
        self._sweep(now)
        old = self._by_key.get(key)
        if old is not None:
            # One from the future: the clock was set back since, and its age cannot be told.
            if now < old.gone and (new.asked < old.asked <= now or (new.asked == old.asked and not old.allow)):
                return
        else:
            if self._limit <= 0:
                return
            while len(self._by_key) >= self._limit:
                del self._by_key[self._round.popleft()]
            self._round.append(key)
        self._by_key[key] = new

    def drop(self, subject: str | None, workspace_id: str | None, now: int) -> int:
        dropped = [
            key for key in self._by_key if subject in (None, key.subject) and workspace_id in (None, key.workspace_id)
        ]
        live = sum(now < self._by_key.pop(key).gone for key in dropped)
        if dropped:
            self._round = deque(key for key in self._round if key in self._by_key)
        return live

    def _sweep(self, now: int) -> None:
        for _ in range(min(_SWEEP, len(self._round))):
            if now < self._by_key[self._round[0]].gone:
                self._round.rotate(-1)
            else:
                del self._by_key[self._round.popleft()]
