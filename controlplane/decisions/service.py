"""Cached decisions, over the shared state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.state.administration import DecisionAdministration
from controlplane.audit.targets import named

if TYPE_CHECKING:
    from controlplane.authentication import Caller


class DecisionsService:
    """What is dropped is asked of Access again."""

    def __init__(self, state: DecisionAdministration) -> None:
        self._state = state

    async def drop(self, subject: str | None, workspace_id: str | None, caller: Caller) -> int:
        """See `DecisionAdministration.drop_decisions`."""
        entry = caller.entry("decisions.drop", named(subject=subject, workspace=workspace_id))
        return await self._state.drop_decisions(subject, workspace_id, entry)
