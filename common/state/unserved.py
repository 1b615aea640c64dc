# ruff: noqa: ARG002
"""What a backend does not serve yet."""

from __future__ import annotations

from common.state.administration import HandleRevocation, SessionPage
from common.state.coordination import Lease
from common.state.ports import StateUnavailable
from common.state.sealed import Sealed
from common.state.table_store import NewAuditEntry

_TEXT = "this backend does not serve the operation yet"


class Unserved:
    """Refuses each operation."""

    async def list_sessions(self, subject: str | None, after: str | None, limit: int) -> SessionPage:
        raise StateUnavailable(_TEXT)

    async def revoke_subject_sessions(self, subject: str, entry: NewAuditEntry) -> int:
        raise StateUnavailable(_TEXT)

    async def revoke_session(self, handle: str, entry: NewAuditEntry) -> HandleRevocation:
        raise StateUnavailable(_TEXT)

    async def drop_decisions(self, subject: str | None, workspace_id: str | None, entry: NewAuditEntry) -> int:
        raise StateUnavailable(_TEXT)

    async def decisions_dropped(self) -> int:
        raise StateUnavailable(_TEXT)

    async def count_auth_failure(self, address: str) -> float:
        raise StateUnavailable(_TEXT)

    async def auth_failure_wait(self, address: str) -> float:
        raise StateUnavailable(_TEXT)

    async def read_sealed(self, name: str) -> Sealed | None:
        raise StateUnavailable(_TEXT)

    async def write_sealed(self, name: str, blob: bytes, lease: Lease) -> bool:
        raise StateUnavailable(_TEXT)
