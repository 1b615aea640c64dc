"""`/v1/config`: the route table and its revisions."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Path, Request, Response
from fastapi import Query as InQuery

from common.rfc3339 import rfc3339
from common.routetable.warnings import PermissiveSetting
from common.state.table_store import Revision
from controlplane.authentication import Allowed, Caller
from controlplane.config.documents import shown_document
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
        errors=("bad_request", "not_found", *JUDGING),
    ),
)
async def get_config(service: Service, _: Reader, __: NoQuery) -> Response:
    active, document = await service.active()
    if document is None:
        raise ApiError("not_found", "There is no route table yet.", headers={"etag": '"0"'})
    shown = await asyncio.to_thread(shown_document, document)
    return Response(shown, media_type="application/json", headers={"etag": f'"{active}"'})


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
        errors=("bad_request", *WRITING, *BODY, *JUDGING),
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
    stored = await service.write(await read_body(request), expected, caller)
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
        errors=("bad_request", *BODY, *JUDGING),
    ),
    response_model=Validation,
    openapi_extra=TABLE_BODY,
)
async def validate_config(request: Request, service: Service, _: Reader, __: NoQuery) -> Response:
    found = await service.validate(await read_body(request))
    judged = found.judged
    body = {
        "valid": not judged.problems,
        "errors": [asdict(problem) for problem in judged.problems],
        "warnings": [_warning(warning).model_dump() for warning in judged.warnings],
        "protectedRoutes": judged.protected,
        "diff": None if found.difference is None else orjson.Fragment(found.difference),
        "revision": found.active,
    }
    return await _json(body)


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
        errors=("bad_request", "not_found", *WRITING, *BODY, *JUDGING),
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
    stored = await service.roll_back(wanted.revision, expected, caller)
    return await _written(response, stored, replicas, query)


@router.get(
    "/diff",
    operation_id="diffRevisions",
    summary="What differs between two revisions",
    responses=outcomes(
        200,
        "The difference.",
        {"from": 7, "to": 8, **EXAMPLE_DIFF},
        errors=("bad_request", "not_found", *JUDGING),
    ),
    response_model=RevisionDiff,
)
async def diff_revisions(service: Service, _: Reader, query: Annotated[DiffQuery, InQuery()]) -> Response:
    before, after, found = await service.difference(query.before, query.after)
    # An object's text, into whose beginning the two numbers are put.
    text = b'{"from":%d,"to":%d,' % (before, after) + found.removeprefix(b"{")
    return Response(text, media_type="application/json")


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
        errors=("bad_request", "not_found", *JUDGING),
    ),
    response_model=RevisionWithTable,
)
async def get_revision(
    service: Service, _: Reader, revision: Annotated[RevisionNumber, Digits, Path()], __: NoQuery
) -> Response:
    found, document = await service.revision(revision)
    table = orjson.Fragment(await asyncio.to_thread(shown_document, document))
    return await _json({**_item(found).model_dump(by_alias=True), "table": table}, etag=f'"{revision}"')


async def _json(body: dict[str, Any], **headers: str) -> Response:
    """What may hold a table of 8 MiB: written in a thread, and not validated again on its way out."""
    return Response(await asyncio.to_thread(orjson.dumps, body), media_type="application/json", headers=headers)


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
