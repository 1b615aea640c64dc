"""`/v1/decisions`: forget what Access decided."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi import Query as InQuery

from controlplane.authentication import Allowed, Caller
from controlplane.decisions.schemas import DecisionsQuery, Dropped
from controlplane.decisions.service import DecisionsService
from controlplane.documentation import JUDGING, outcomes

router = APIRouter(prefix="/v1/decisions", tags=["decisions"])


def decisions_service(request: Request) -> DecisionsService:
    """The service of this application."""
    service: DecisionsService = request.app.state.decisions
    return service


@router.delete(
    "",
    operation_id="dropDecisions",
    summary="Forget cached decisions of a subject, a workspace, or the two together",
    description="Gateways forget what they keep themselves within a second or so. Then Access is asked again.",
    responses=outcomes(200, "They are forgotten.", {"dropped": 3}, errors=("bad_request", *JUDGING)),
)
async def drop_decisions(
    service: Annotated[DecisionsService, Depends(decisions_service)],
    caller: Annotated[Caller, Depends(Allowed("operate"))],
    query: Annotated[DecisionsQuery, InQuery()],
) -> Dropped:
    return Dropped(dropped=await service.drop(query.subject, query.workspace_id, caller))
