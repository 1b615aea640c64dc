"""Values that tests of the shared state store."""

from __future__ import annotations

from hashlib import sha256

from common.state.ports import DecisionKey, DecisionStore, NewSession
from common.state.table_store import NewAuditEntry


def decision_key(inputs: bytes, subject: str = "alice", workspace_id: str | None = None) -> DecisionKey:
    return DecisionKey(inputs, subject, workspace_id)


async def keep_decision(state: DecisionStore, key: DecisionKey, keep_ms: int, *, allow: bool = True) -> None:
    """Store a decision whose question is asked now, which a time ahead of the clock counts as."""
    await state.write_decision(key, allow=allow, reason_code="", asked_at_ms=2**48, keep_ms=keep_ms)


def session(
    id_hash: str = "a", subject: str = "alice", *, idle_ms: int = 10_000, max_age_ms: int = 60_000, most: int = 0
) -> NewSession:
    return NewSession(id_hash, subject, f"{subject}@example.test", ("reader", "writer"), idle_ms, max_age_ms, most)


def entry(action: str = "sessions.revoke", operator: str = "olga", target: str = "alice") -> NewAuditEntry:
    return NewAuditEntry(action, target, operator, "operate", "192.0.2.1", "request 1")


def hashed(text: object) -> str:
    """The hash of a session's id, as the data plane makes it."""
    return sha256(str(text).encode()).hexdigest()
