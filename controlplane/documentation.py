"""What the reference of the API says besides what FastAPI finds in the code: each outcome, with an example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from controlplane.errors import KINDS
from controlplane.schemas import Error

ETAG = {"etag": {"description": "The revision, in double quotes.", "schema": {"type": "string"}, "example": '"8"'}}
LOCATION = {
    "location": {
        "description": "Where the revision is.",
        "schema": {"type": "string"},
        "example": "/v1/config/revisions/8",
    }
}
RETRY_AFTER = {"retry-after": {"description": "Seconds.", "schema": {"type": "integer"}, "example": 42}}
REQUEST_ID = {
    "x-request-id": {
        "description": "The caller's, where it sent a usable one; the log line of the request bears it.",
        "schema": {"type": "string"},
        "example": "3f2c9a52-8f4f-4b0e-9d1e-0d6f3f6f2f10",
    }
}
IF_MATCH: dict[str, Any] = {
    "name": "If-Match",
    "in": "header",
    "required": True,
    "description": 'The revision that was read, in double quotes; `"0"` for an empty store.',
    "schema": {"type": "string", "pattern": '^"(0|[1-9][0-9]{0,17})"$'},
    "example": '"7"',
}
EXAMPLE_TABLE = {
    "version": 2,
    "routes": [
        {
            "id": "app",
            "match": {"path": "/"},
            "upstream": "http://app:3000",
            "auth": {"mode": "session"},
        }
    ],
}
TABLE_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The whole table, at most 8 MiB.",
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/RouteTable"}, "example": EXAMPLE_TABLE}
        },
    }
}

JUDGING = ("unauthorized", "forbidden", "too_many_failures", "internal_error", "state_unavailable")
"""What every operation with a token may answer."""

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
