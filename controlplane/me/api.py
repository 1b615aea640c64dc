"""`/v1/me`: as whom a token acts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import Field

from common.settings.control_tokens import Scope
from controlplane.authentication import Allowed, Caller
from controlplane.documentation import JUDGING, outcomes
from controlplane.schemas import Model, NoQuery

router = APIRouter(prefix="/v1/me", tags=["me"])


class Me(Model):
    """Whoever showed the token."""

    operator: Annotated[str, Field(description="What the audit trail calls them.")]
    scope: Annotated[Scope, Field(description="What the token may do.")]


@router.get(
    "",
    operation_id="getMe",
    summary="As whom this token acts",
    responses=outcomes(200, "They.", {"operator": "alice", "scope": "config"}, errors=("bad_request", *JUDGING)),
)
async def get_me(caller: Annotated[Caller, Depends(Allowed("read", "operate", "config"))], _: NoQuery) -> Me:
    return Me(operator=caller.operator, scope=caller.scope)
