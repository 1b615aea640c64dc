"""The operations that are recorded: each with what it changes, to see afterwards whether it was done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from common.state.ports import ControlState
from common.state.table_store import NewAuditEntry
from tests.support.state_values import decision_key, hashed, keep_decision, session

MARK = "the one that is looked for"
"""What the request of an operation holds, and nothing else that is sent."""

KEY = decision_key(b"k", "alice", "w")


@dataclass(frozen=True)
class Change:
    """`run` does it, `is_done` says whether it was; `prepare` makes what it changes."""

    action: str
    run: Callable[[ControlState, NewAuditEntry], Awaitable[object]]
    is_done: Callable[[ControlState], Awaitable[bool]]

    @property
    def entry(self) -> NewAuditEntry:
        return NewAuditEntry(self.action, MARK, "olga", "operate", "192.0.2.1", "r")


async def prepare(state: ControlState) -> None:
    """One revision, two sessions and a decision, and an entry for the first."""
    await state.move_pointer(0, b"one", NewAuditEntry("config.write", "first", "olga", "config", "192.0.2.1", "r"))
    for n in range(2):
        await state.create_session(session(hashed(n), idle_ms=3_600_000, max_age_ms=3_600_000))
    await keep_decision(state, KEY, 3_600_000)


async def recorded(state: ControlState) -> int:
    """How many entries there are beside the first."""
    return len((await state.list_audit(None, 100)).entries) - 1


async def _moved(state: ControlState) -> bool:
    active = await state.read_table()
    revisions = [each.revision for each in await state.list_revisions(None, 10)]
    # One of them without the other would be half a change.
    assert (active.revision, active.document, revisions) in ((1, b"one", [1]), (2, b"two", [2, 1]))
    return active.revision == 2


async def _all_ended(state: ControlState) -> bool:
    live = [await state.read_session(hashed(n)) is not None for n in range(2)]
    assert live in ([True, True], [False, False])
    assert len((await state.list_sessions(None, None, 9)).sessions) == sum(live)
    return not any(live)


async def _one_ended(state: ControlState) -> bool:
    assert await state.read_session(hashed(1)) is not None
    return await state.read_session(hashed(0)) is None


async def _dropped(state: ControlState) -> bool:
    return await state.read_decision(KEY) is None


CHANGES = [
    Change("config.write", lambda state, entry: state.move_pointer(1, b"two", entry), _moved),
    Change("sessions.revoke", lambda state, entry: state.revoke_subject_sessions("alice", entry), _all_ended),
    Change("session.revoke", lambda state, entry: state.revoke_session(hashed(0)[:16], entry), _one_ended),
    Change("decisions.drop", lambda state, entry: state.drop_decisions("alice", "w", entry), _dropped),
]
