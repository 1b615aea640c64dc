"""`/v1/audit`: who changed what."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi import Query as InQuery

from common.rfc3339 import rfc3339
from common.state.table_store import AuditEntry, AuditFilter
from controlplane.audit.schemas import AuditItem, AuditQuery
from controlplane.audit.service import AuditService
from controlplane.authentication import Allowed, Caller
from controlplane.documentation import JUDGING, outcomes
from controlplane.paging import cursor_of, number_of
from controlplane.schemas import Page

router = APIRouter(prefix="/v1/audit", tags=["audit"])

EXAMPLE_ENTRY = {
    "id": 41,
    "time": "2026-01-31T23:59:59.999Z",
    "action": "config.write",
    "target": "revision 8",
    "operator": "alice",
    "scope": "config",
    "client": "10.0.0.7",
    "requestId": "3f2c9a52-8f4f-4b0e-9d1e-0d6f3f6f2f10",
}


def audit_service(request: Request) -> AuditService:
    """The service of this application."""
    service: AuditService = request.app.state.audit
    return service


@router.get(
    "",
    operation_id="listAudit",
    summary="The trail, newest first",
    description="A page may hold fewer than `limit`, or none, although others follow: `nextCursor` says whether.",
    responses=outcomes(
        200, "A page.", {"items": [EXAMPLE_ENTRY], "nextCursor": None}, errors=("bad_request", *JUDGING)
    ),
)
async def list_audit(
    service: Annotated[AuditService, Depends(audit_service)],
    _: Annotated[Caller, Depends(Allowed("read", "operate", "config"))],
    query: Annotated[AuditQuery, InQuery()],
) -> Page[AuditItem]:
    only = AuditFilter(query.action or "", query.operator or "", query.since, query.until)
    found = await service.page(number_of("audit", query.cursor), query.limit, only)
    following = None if found.next_before is None else cursor_of("audit", str(found.next_before))
    return Page(items=[_item(entry) for entry in found.entries], next_cursor=following)


def _item(entry: AuditEntry) -> AuditItem:
    return AuditItem(
        id=entry.id,
        time=rfc3339(entry.time_ms),
        action=entry.action,
        target=entry.target,
        operator=entry.operator,
        scope=entry.scope,
        client=entry.client,
        request_id=entry.request_id,
    )
