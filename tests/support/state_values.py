"""Values that tests of the shared state store."""

from __future__ import annotations

from common.state.ports import DecisionKey


def decision_key(inputs: bytes, subject: str = "alice", workspace_id: str | None = None) -> DecisionKey:
    return DecisionKey(inputs, subject, workspace_id)
