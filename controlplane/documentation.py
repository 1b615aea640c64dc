"""What the reference of the API says besides what FastAPI finds in the code: each outcome, with an example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from common.routetable.schema import route_table_components
from controlplane.errors import KINDS
from controlplane.schemas import Error

router = APIRouter(include_in_schema=False)

VERSION = "1.0.0"
SUMMARY = "Route table, audit trail, sessions and replicas of Wicketgate"
DESCRIPTION = """\
Acts on the shared state that the gateways read. Every answer is JSON and carries `x-request-id`. An answer that is not
a success has `error`, a code that programs decide by, and `message`, for people; 400 has `errors` too, all of them.

Each token carries one scope, and none includes another: `read` for every GET, validation and comparison, `operate`
for revoking sessions and dropping cached decisions, `config` for writing the route table. `operate` and `config` may
read what they act on. The fifth failed authentication from an address in 60 seconds is its last for a while: 429.
"""
TAGS = [
    {"name": "config", "description": "The route table and its revisions."},
    {"name": "process", "description": "Whether this process runs, and what it counted."},
]

ETAG = {"etag": {"description": "The revision, in double quotes.", "schema": {"type": "string"}, "example": '"8"'}}
LOCATION = {
    "location": {
        "description": "Where the revision is.",
        "schema": {"type": "string"},
        "example": "/v1/config/revisions/8",
    }
}
RETRY_AFTER = {"retry-after": {"description": "Seconds.", "schema": {"type": "integer"}, "example": 42}}
TABLE_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The whole table, at most 8 MiB.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/RouteTable"}}},
    }
}

Responses = dict[int | str, dict[str, Any]]


def model_body(model: type[BaseModel], example: Mapping[str, Any]) -> dict[str, Any]:
    """The body of an operation that reads it itself."""
    return {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": model.model_json_schema(), "example": dict(example)}},
        }
    }


def outcomes(
    status: int,
    description: str,
    example: object,
    *,
    errors: Sequence[str],
    schema: str = "",
    headers: Mapping[str, Any] | None = None,
) -> Responses:
    """Every outcome of an operation: the success, with the schema of its answer's type or a named one, and errors."""
    content: dict[str, Any] = {"example": example}
    if schema:
        content["schema"] = {"$ref": f"#/components/schemas/{schema}"}
    found: Responses = {status: {"description": description, "content": {"application/json": content}}}
    if headers:
        found[status]["headers"] = dict(headers)
    for code in errors:
        kind = KINDS[code]
        response = found.setdefault(
            kind.status,
            {"model": Error, "description": "", "content": {"application/json": {"examples": {}}}},
        )
        response["description"] += ("\n\n" if response["description"] else "") + f"`{code}`: {kind.meaning}"
        response["content"]["application/json"]["examples"][code] = {"value": {"error": code, **kind.example}}
        if kind.status in (429, 503):
            response["headers"] = RETRY_AFTER
    return found


def openapi(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI 3.1 document of the application."""
    document = get_openapi(
        title="Wicketgate control plane",
        version=VERSION,
        summary=SUMMARY,
        description=DESCRIPTION,
        routes=app.routes,
        tags=TAGS,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    for path in document["paths"].values():
        for operation in path.values():
            # FastAPI's own shape of a validation error, which is never sent.
            operation.get("responses", {}).pop("422", None)
    schemas = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas.update(route_table_components())
    schemas["RevisionWithTable"]["properties"]["table"] = {"$ref": "#/components/schemas/RouteTable"}
    return document


@router.get("/openapi.json", operation_id="getOpenapi")
async def description(request: Request) -> JSONResponse:
    """The document that `openapi` makes."""
    app: FastAPI = request.app
    if app.openapi_schema is None:
        app.openapi_schema = openapi(app)
    return JSONResponse(app.openapi_schema)
