"""What a request brings besides its path: the body, `If-Match`, the query's form. One meaning, or refused."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Annotated, TypeVar
from urllib.parse import unquote_to_bytes

from fastapi import Depends, Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from common.routetable.document import MAX_TABLE_BYTES, read_document
from common.routetable.problems import Problem, Problems, below
from controlplane.errors import ApiError, bad_request, field_problem

BODY_TIMEOUT_S = 60.0
"""8 MiB on a slow line; what takes longer is held back on purpose."""

MODEL_MAX_BYTES = 8_192
"""A body that is no table: a field or two. It is read on the loop, so it may not take long."""

_MEDIA_TYPE = re.compile(r'application/json[ \t]*(?:;[ \t]*charset[ \t]*=[ \t]*"?utf-8"?[ \t]*)?;?', re.IGNORECASE)
_ETAG = re.compile(r'"(0|[1-9][0-9]{0,17})"')

_Model = TypeVar("_Model", bound=BaseModel)


async def read_body(
    request: Request, max_bytes: int = MAX_TABLE_BYTES, *, holds: Callable[[int], None] = lambda _size: None
) -> bytes:
    """The JSON body, not yet parsed. Another media type, a coding, and more than `max_bytes` are refused.

    `holds` is told how much of it there is, or will be; it may raise.
    """
    media_types = request.headers.getlist("content-type")
    if len(media_types) != 1 or _MEDIA_TYPE.fullmatch(media_types[0].strip()) is None:
        raise ApiError("unsupported_media_type", "The body must be application/json, in UTF-8.")
    codings = ",".join(request.headers.getlist("content-encoding")).strip().lower()
    if codings not in ("", "identity"):
        raise ApiError("unsupported_media_type", "The body must be sent as it is, without a content-encoding.")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > max_bytes:
        raise _too_large(max_bytes)
    holds(int(declared) if declared.isdecimal() else 0)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for piece in request.stream():
                body += piece
                if len(body) > max_bytes:
                    raise _too_large(max_bytes)
                holds(len(body))
    except TimeoutError:
        message = f"The body did not arrive within {BODY_TIMEOUT_S:.0f} seconds."
        raise ApiError("request_timeout", message, headers={"connection": "close"}) from None
    except ClientDisconnect:
        raise ApiError("bad_request", "The body was cut off.", headers={"connection": "close"}) from None
    return bytes(body)


def _too_large(max_bytes: int) -> ApiError:
    # The rest is not read, so the connection cannot carry another request.
    message = f"The body is larger than {max_bytes} bytes."
    return ApiError("payload_too_large", message, headers={"connection": "close"})


async def read_model(request: Request, model: type[_Model]) -> _Model:
    """The body as a model; 400 with every problem. Repeated keys, `null` and NaN are problems like an unknown field."""
    problems = Problems()
    raw = read_document(await read_body(request, MODEL_MAX_BYTES), problems)
    if not isinstance(raw, dict):
        problems.add("", "must be a JSON object")
    if problems.any:
        raise bad_request(*problems.listed())
    try:
        return model.model_validate(raw, strict=True)
    except ValidationError as invalid:
        raise bad_request(*(field_problem(detail) for detail in invalid.errors(include_url=False))) from None


def expected_revision(request: Request) -> int:
    """The revision that the caller read, from `If-Match` (RFC 9110 §13.1.1): exactly one strong entity tag of ours."""
    sent = [value.strip() for value in request.headers.getlist("if-match")]
    if not sent or sent == ["*"]:
        raise ApiError("precondition_required", 'Send If-Match with the revision you read, such as "7".')
    found = _ETAG.fullmatch(sent[0]) if len(sent) == 1 else None
    if found is None:
        raise bad_request(Problem("header.if-match", 'must be one revision in double quotes, such as "7"'))
    return int(found[1])


Expected = Annotated[int, Depends(expected_revision)]


def check_query(request: Request) -> None:
    """400 for a query that two readers could read differently, with every such parameter."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    raw = request.scope["query_string"].decode("latin-1")
    for piece in raw.split("&") if raw else ():
        name, _, value = piece.replace("+", " ").partition("=")
        meant = _text(name)
        place = below("query", meant or "?")
        if meant is None or _text(value) is None:
            found.setdefault(place, "is not UTF-8 text")
        elif meant in seen:
            found.setdefault(place, "stands more than once")
        seen.add(meant or "")
    if found:
        raise bad_request(*(Problem(place, message) for place, message in found.items()))


def _text(escaped: str) -> str | None:
    try:
        return unquote_to_bytes(escaped).decode("utf-8")
    except UnicodeDecodeError:
        return None
