"""`/v1/sessions`: whose sessions there are, and their end."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request
from fastapi import Query as InQuery

from common.rfc3339 import rfc3339
from common.state.administration import HANDLE_LENGTH
from common.state.ports import Session
from controlplane.authentication import Allowed, Caller
from controlplane.documentation import JUDGING, outcomes
from controlplane.paging import cursor_of, place_of
from controlplane.schemas import NoQuery, Page
from controlplane.sessions.schemas import Handle, Revoked, SessionItem, SessionQuery, SubjectQuery
from controlplane.sessions.service import ID_HASH, SessionsService

router = APIRouter(prefix="/v1/sessions", tags=["sessions"])

Reader = Annotated[Caller, Depends(Allowed("read", "operate"))]
Operator = Annotated[Caller, Depends(Allowed("operate"))]

EXAMPLE_SESSION = {
    "handle": "5d41402abc4b2a76",
    "subject": "user-1",
    "email": "ada@example.com",
    "roles": ["dev"],
    "createdAt": "2026-01-31T20:00:00.000Z",
    "lastUsedAt": "2026-01-31T23:59:00.000Z",
    "idleExpiresAt": "2026-02-01T07:59:00.000Z",
    "expiresAt": "2026-02-01T20:00:00.000Z",
}


def sessions_service(request: Request) -> SessionsService:
    """The service of this application."""
    service: SessionsService = request.app.state.sessions
    return service


Service = Annotated[SessionsService, Depends(sessions_service)]


@router.get(
    "",
    operation_id="listSessions",
    summary="Live sessions, of a subject or of everybody",
    description="A page may hold fewer than `limit`, or none, although others follow: `nextCursor` says whether.",
    responses=outcomes(
        200, "A page.", {"items": [EXAMPLE_SESSION], "nextCursor": None}, errors=("bad_request", *JUDGING)
    ),
)
async def list_sessions(service: Service, _: Reader, query: Annotated[SessionQuery, InQuery()]) -> Page[SessionItem]:
    found = await service.page(query.subject, place_of("session", query.cursor, ID_HASH), query.limit)
    following = None if found.next_after is None else cursor_of("session", found.next_after)
    return Page(items=[_item(session) for session in found.sessions], next_cursor=following)


@router.delete(
    "",
    operation_id="revokeSubjectSessions",
    summary="End every session of a subject",
    description="Recorded also when there was none.",
    responses=outcomes(200, "They are over.", {"revoked": 2}, errors=("bad_request", *JUDGING)),
)
async def revoke_subject_sessions(
    service: Service, caller: Operator, query: Annotated[SubjectQuery, InQuery()]
) -> Revoked:
    return Revoked(revoked=await service.revoke_subject(query.subject, caller))


@router.delete(
    "/{handle}",
    operation_id="revokeSession",
    summary="End one session",
    responses=outcomes(
        200, "It is over.", {"revoked": 1}, errors=("bad_request", "not_found", "ambiguous_handle", *JUDGING)
    ),
)
async def revoke_session(service: Service, caller: Operator, handle: Annotated[Handle, Path()], _: NoQuery) -> Revoked:
    await service.revoke(handle, caller)
    return Revoked(revoked=1)


def _item(session: Session) -> SessionItem:
    return SessionItem(
        handle=session.id_hash[:HANDLE_LENGTH],
        subject=session.subject,
        email=session.email,
        roles=list(session.roles),
        created_at=rfc3339(session.created_at_ms),
        last_used_at=rfc3339(session.touched_at_ms),
        idle_expires_at=rfc3339(session.idle_expires_at_ms),
        expires_at=rfc3339(session.expires_at_ms),
    )
