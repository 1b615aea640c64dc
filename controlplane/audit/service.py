"""The audit trail, over the shared state."""

from __future__ import annotations

from common.state.table_store import AuditFilter, AuditPage, RouteTableWriter


class AuditService:
    """Reads the trail. Nothing removes or changes an entry."""

    def __init__(self, state: RouteTableWriter) -> None:
        self._state = state

    async def page(self, before: int | None, limit: int, only: AuditFilter) -> AuditPage:
        """See `RouteTableWriter.list_audit`."""
        return await self._state.list_audit(before, limit, only)
