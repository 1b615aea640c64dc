"""`/v1/config`: the route table and its revisions."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import asdict
from typing import Annotated

import orjson
from fastapi import APIRouter, Depends, Path, Request, Response
from fastapi import Query as InQuery
from starlette.types import Receive, Scope, Send

from common.rfc3339 import rfc3339
from common.routetable.warnings import PermissiveSetting
from common.state.table_store import Revision
from controlplane.authentication import Allowed, Caller
from controlplane.config.schemas import (
    WAIT_MS,
    DiffQuery,
    RevisionDiff,
    RevisionItem,
    RevisionNumber,
    RevisionWithTable,
    Rollback,
    TableWarning,
    Validation,
    WriteQuery,
    Written,
)
from controlplane.config.service import ConfigService, Stored
from controlplane.documentation import (
    ETAG,
    EXAMPLE_TABLE,
    IF_MATCH,
    JUDGING,
    LOCATION,
    TABLE_BODY,
    model_body,
    outcomes,
)
from controlplane.errors import ApiError
from controlplane.paging import cursor_of, number_of
from controlplane.reading import Expected, read_body, read_model
from controlplane.replicas.api import Service as Replicas
from controlplane.replicas.api import arrival_of
from controlplane.replicas.service import ReplicasService
from controlplane.schemas import Digits, NoQuery, Page, PageQuery

router = APIRouter(prefix="/v1/config", tags=["config"])

Reader = Annotated[Caller, Depends(Allowed("read", "config"))]
Writer = Annotated[Caller, Depends(Allowed("config"))]

EXAMPLE_REVISION = {"revision": 7, "time": "2026-01-31T23:59:59.999Z", "operator": "alice", "action": "config.write"}
EXAMPLE_WARNING = {
    "route": "app",
    "setting": "match.host",
    "message": "this route answers for every host name",
}
EXAMPLE_DIFF = {
    "added": [],
    "removed": [],
    "changed": [{"id": "app", "fields": [{"path": "websocket", "before": None, "after": True}]}],
    "settings": [],
    "unified": '--- revision 7\n+++ revision 8\n@@ -4,7 +4,8 @@ route app\n+      "websocket": true\n',
}
EXAMPLE_ARRIVAL = {
    "converged": False,
    "serving": ["gateway-1"],
    "lagging": [{"replica": "gateway-2", "revision": 8, "lastError": None}],
}
BODY = ("request_timeout", "payload_too_large", "unsupported_media_type")
TABLES = ("overloaded", *JUDGING)
WRITING = ("invalid_config", "revision_conflict", "protected_route", "precondition_required")


def config_service(request: Request) -> ConfigService:
    """The service of this application."""
    service: ConfigService = request.app.state.config
    return service


Service = Annotated[ConfigService, Depends(config_service)]


@router.get(
    "",
    operation_id="getConfig",
    summary="The active route table",
    description=(
        "Byte for byte as it was written, so that it can be changed and sent back with `If-Match`. Credentials in "
        "upstream URLs of a version 1 table are masked. `etag` is the active revision; an empty store is 404 with "
        'etag "0".'
    ),
    response_class=Response,
    responses=outcomes(
        200,
        "The table.",
        EXAMPLE_TABLE,
        schema="RouteTable",
        headers=ETAG,
        errors=("bad_request", "not_found", *TABLES),
    ),
)
async def get_config(service: Service, caller: Reader, _: NoQuery) -> Response:
    with ExitStack() as stack:
        room = stack.enter_context(service.room(caller))
        active, document = await service.active(room)
        if document is None:
            raise ApiError("not_found", "There is no route table yet.", headers={"etag": '"0"'})
        shown = await service.shown(document, room)
        return _Large(shown, stack, etag=f'"{active}"')


@router.put(
    "",
    operation_id="putConfig",
    summary="Make a table the next revision",
    description=(
        "Compare-and-swap: it is written if the revision in `If-Match` is still the active one, else 409. The table is "
        'judged by the code and the defaults that the gateways have. `If-Match: "0"` writes the first revision.'
    ),
    status_code=201,
    responses=outcomes(
        201,
        "Written, and active.",
        {"revision": 8, "warnings": [EXAMPLE_WARNING], "replicas": None},
        headers=ETAG | LOCATION,
        errors=("bad_request", *WRITING, *BODY, *TABLES),
    ),
    openapi_extra=TABLE_BODY | {"parameters": [IF_MATCH]},
)
async def put_config(
    request: Request,
    response: Response,
    service: Service,
    replicas: Replicas,
    caller: Writer,
    expected: Expected,
    query: Annotated[WriteQuery, InQuery()],
) -> Written:
    with service.room(caller) as room:
        stored = await service.write(await read_body(request, holds=room.holds), expected, caller, room)
    return await _written(response, stored, replicas, query)


@router.post(
    "/validate",
    operation_id="validateConfig",
    summary="Judge a table without writing it",
    responses=outcomes(
        200,
        "What a write of it would meet; an invalid table is a 200 too.",
        {
            "valid": True,
            "errors": [],
            "warnings": [EXAMPLE_WARNING],
            "protectedRoutes": [],
            "diff": EXAMPLE_DIFF,
            "revision": 7,
        },
        errors=("bad_request", *BODY, *TABLES),
    ),
    response_model=Validation,
    openapi_extra=TABLE_BODY,
)
async def validate_config(request: Request, service: Service, caller: Reader, _: NoQuery) -> Response:
    with ExitStack() as stack:
        room = stack.enter_context(service.room(caller))
        found = await service.validate(await read_body(request, holds=room.holds), room)
        judged = found.judged
        body = {
            "valid": not judged.problems,
            "errors": [asdict(problem) for problem in judged.problems],
            "warnings": [_warning(warning).model_dump() for warning in judged.warnings],
            "protectedRoutes": judged.protected,
            "diff": None if found.difference is None else orjson.Fragment(found.difference),
            "revision": found.active,
        }
        return _Large(await asyncio.to_thread(orjson.dumps, body), stack)


@router.post(
    "/rollback",
    operation_id="rollBackConfig",
    summary="Write an earlier revision's table again, as a new revision",
    status_code=201,
    responses=outcomes(
        201,
        "Written, and active.",
        {"revision": 9, "warnings": [], "replicas": EXAMPLE_ARRIVAL},
        headers=ETAG | LOCATION,
        errors=("bad_request", "not_found", *WRITING, *BODY, *TABLES),
    ),
    openapi_extra=model_body(Rollback, {"revision": 7}) | {"parameters": [IF_MATCH]},
)
async def roll_back_config(
    request: Request,
    response: Response,
    service: Service,
    replicas: Replicas,
    caller: Writer,
    expected: Expected,
    query: Annotated[WriteQuery, InQuery()],
) -> Written:
    wanted = await read_model(request, Rollback)
    with service.room(caller) as room:
        stored = await service.roll_back(wanted.revision, expected, caller, room)
    return await _written(response, stored, replicas, query)


@router.get(
    "/diff",
    operation_id="diffRevisions",
    summary="What differs between two revisions",
    responses=outcomes(
        200,
        "The difference.",
        {"from": 7, "to": 8, **EXAMPLE_DIFF},
        errors=("bad_request", "not_found", *TABLES),
    ),
    response_model=RevisionDiff,
)
async def diff_revisions(service: Service, caller: Reader, query: Annotated[DiffQuery, InQuery()]) -> Response:
    with ExitStack() as stack:
        room = stack.enter_context(service.room(caller))
        before, after, found = await service.difference(query.before, query.after, room)
        # An object's text, into whose beginning the two numbers are put.
        text = b'{"from":%d,"to":%d,' % (before, after) + found.removeprefix(b"{")
        return _Large(text, stack)


@router.get(
    "/revisions",
    operation_id="listRevisions",
    summary="The history, newest first",
    responses=outcomes(
        200,
        "A page.",
        {"items": [EXAMPLE_REVISION], "nextCursor": None},
        errors=("bad_request", *JUDGING),
    ),
)
async def list_revisions(service: Service, _: Reader, query: Annotated[PageQuery, InQuery()]) -> Page[RevisionItem]:
    found = await service.revisions(number_of("revision", query.cursor), query.limit + 1)
    items = [_item(each) for each in found[: query.limit]]
    more = len(found) > query.limit
    return Page(items=items, next_cursor=cursor_of("revision", str(items[-1].revision)) if more else None)


@router.get(
    "/revisions/{revision}",
    operation_id="getRevision",
    summary="A revision with its table",
    responses=outcomes(
        200,
        "The revision.",
        {**EXAMPLE_REVISION, "table": EXAMPLE_TABLE},
        headers=ETAG,
        errors=("bad_request", "not_found", *TABLES),
    ),
    response_model=RevisionWithTable,
)
async def get_revision(
    service: Service, caller: Reader, revision: Annotated[RevisionNumber, Digits, Path()], _: NoQuery
) -> Response:
    with ExitStack() as stack:
        room = stack.enter_context(service.room(caller))
        found, document = await service.revision(revision, room)
        table = orjson.Fragment(await service.shown(document, room))
        body = {**_item(found).model_dump(by_alias=True), "table": table}
        return _Large(await asyncio.to_thread(orjson.dumps, body), stack, etag=f'"{revision}"')


class _Large(Response):
    """JSON that may hold a table of 8 MiB: not validated again on its way out, and in hand until it is sent."""

    def __init__(self, content: bytes, held: ExitStack, **headers: str) -> None:
        super().__init__(content, media_type="application/json", headers=headers)
        self._held = held.pop_all()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._held:
            await super().__call__(scope, receive, send)


def _item(revision: Revision) -> RevisionItem:
    return RevisionItem(
        revision=revision.revision,
        time=rfc3339(revision.time_ms),
        operator=revision.operator,
        action=revision.action,
    )


def _warning(found: PermissiveSetting) -> TableWarning:
    return TableWarning(route=found.route_id or None, setting=found.setting, message=found.message)


async def _written(response: Response, stored: Stored, replicas: ReplicasService, query: WriteQuery) -> Written:
    response.headers["etag"] = f'"{stored.revision}"'
    response.headers["location"] = f"/v1/config/revisions/{stored.revision}"
    arrived = None
    if query.wait is not None:
        timeout_ms = WAIT_MS if query.timeout_ms is None else query.timeout_ms
        arrived = arrival_of(await replicas.arrival(stored.revision, timeout_ms / 1000))
    return Written(revision=stored.revision, warnings=[_warning(each) for each in stored.warnings], replicas=arrived)
