"""Every error of the API in one table, and the only place that renders one (CONTRACT §12.7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import Match

from common.routetable.problems import Problem
from common.state.ports import StateUnavailable
from controlplane.record import record_of

RETRY_AFTER_S = 5
"""Longer than a connection to the state takes, short enough for a person who waits."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A code's status, and what the reference shows of it."""

    status: int
    meaning: str
    example: Mapping[str, Any]


def _kind(status: int, meaning: str, message: str, **more: Any) -> Kind:
    return Kind(status, meaning, {"message": message, **more})


KINDS: dict[str, Kind] = {
    "bad_request": _kind(
        400,
        "A parameter, a header or the body cannot be understood; `errors` names every one.",
        "The request has 1 problem.",
        errors=[{"path": "query.limit", "message": "must be a whole number from 1 to 200"}],
    ),
    "invalid_config": _kind(
        400,
        "The route table is invalid; `errors` names every problem with its place. Nothing of it was stored.",
        "The route table has 1 problem.",
        errors=[{"path": "routes[2].match.path", "message": "must begin with a slash"}],
    ),
    "unauthorized": _kind(401, "No token, or an unknown one.", "Send a known token: Authorization: Bearer <token>."),
    "forbidden": _kind(
        403, "The token carries another scope.", "This needs a token of the scope config; this one has read."
    ),
    "not_found": _kind(404, "There is nothing of this name.", "There is no revision 12."),
    "method_not_allowed": _kind(405, "The path takes other methods.", "This path takes: GET, PUT."),
    "request_timeout": _kind(408, "The body did not arrive in time.", "The body did not arrive within 60 seconds."),
    "revision_conflict": _kind(
        409,
        "Another revision is active; `revision` is its number. Nothing was stored.",
        "Revision 8 is active, not 7. Read it, and decide again.",
        revision=8,
    ),
    "protected_route": _kind(
        409,
        "The table removes or changes a protected route. Nothing was stored.",
        "Protected routes may not be removed or changed: admin.",
        revision=8,
    ),
    "ambiguous_handle": _kind(
        409,
        "Two sessions bear this handle. None was revoked.",
        "2 sessions bear this handle. Revoke those of the subject instead.",
    ),
    "payload_too_large": _kind(413, "The body is too large.", "The body is larger than 8388608 bytes."),
    "unsupported_media_type": _kind(
        415, "The body is not `application/json`, or it is compressed.", "The body must be application/json."
    ),
    "precondition_required": _kind(
        428,
        "No `If-Match`, or `*`: it would replace a revision that nobody read.",
        'Send If-Match with the revision you read, such as "7".',
    ),
    "too_many_failures": _kind(
        429,
        "Too many unknown tokens came from this address; `retry-after` says when the next one is judged.",
        "Too many authentications failed from this address. Try again in 42 seconds.",
    ),
    "internal_error": _kind(500, "A bug; the log has its cause.", "The control plane failed. Its log says why."),
    "state_unavailable": _kind(
        503, "The shared state does not answer, so nothing is judged, read or written.", "The shared state is away."
    ),
    "overloaded": _kind(
        503,
        "More is asked at once than there is room for. Nothing was read, judged or written.",
        "As many large tables are being worked on as there is room for. Nothing was judged; try again.",
    ),
}


@dataclass(eq=False)
class ApiError(Exception):
    """An answer of the table, other than success. `errors` are all problems; `revision` is the active one."""

    code: str
    message: str
    errors: Sequence[Problem] = ()
    revision: int | None = None
    headers: dict[str, str] = field(default_factory=dict)


def bad_request(*problems: Problem) -> ApiError:
    """400 with every problem."""
    return ApiError("bad_request", f"The request has {counted(len(problems))}.", problems)


def counted(problems: int) -> str:
    return f"{problems} problem{'' if problems == 1 else 's'}"


def error_response(request: Request, error: ApiError) -> JSONResponse:
    """The answer to an error; the request's log line will say its code."""
    record_of(request.scope).error = error.code
    body: dict[str, object] = {"error": error.code, "message": error.message}
    if error.errors:
        body["errors"] = [{"path": problem.path, "message": problem.message} for problem in error.errors]
    headers = dict(error.headers)
    if error.revision is not None:
        body["revision"] = error.revision
        headers["etag"] = f'"{error.revision}"'
    return JSONResponse(body, KINDS[error.code].status, headers)


def handle_errors(app: FastAPI) -> None:
    """Answer every exception by the table."""

    @app.exception_handler(ApiError)
    async def refused(request: Request, error: ApiError) -> JSONResponse:
        return error_response(request, error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return error_response(request, bad_request(*(field_problem(detail) for detail in error.errors())))

    @app.exception_handler(StateUnavailable)
    async def unavailable(request: Request, error: StateUnavailable) -> JSONResponse:
        record_of(request.scope).detail = str(error)
        message = "The shared state does not answer. Nothing was judged; try again."
        return error_response(request, ApiError("state_unavailable", message, headers=retry_after(RETRY_AFTER_S)))

    @app.exception_handler(HTTPException)
    async def not_routed(request: Request, error: HTTPException) -> JSONResponse:
        return error_response(request, _of_routing(request, error))

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> JSONResponse:
        record_of(request.scope).failure = error
        return error_response(request, ApiError("internal_error", "The control plane failed. Its log says why."))


def retry_after(seconds: int) -> dict[str, str]:
    return {"retry-after": str(seconds)}


def _of_routing(request: Request, error: HTTPException) -> ApiError:
    if error.status_code == 404:
        return ApiError("not_found", "Nothing is served at this path.")
    if error.status_code == 405:
        allowed = ", ".join(_methods(request))
        return ApiError("method_not_allowed", f"This path takes: {allowed}.", headers={"allow": allowed})
    return ApiError("bad_request", "The request cannot be understood.")


def _methods(request: Request) -> list[str]:
    """Every method that the path of a request takes: routing itself looks at the first route of the path alone."""
    routers: Sequence[APIRouter] = request.app.state.routers
    found: set[str] = set()
    for route in (route for router in routers for route in router.routes):
        if isinstance(route, APIRoute) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return sorted(found | ({"HEAD"} if "GET" in found else set()))


_MESSAGES = {
    "missing": "is required",
    "extra_forbidden": "is unknown",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "string_too_short": "must not be empty",
}


def field_problem(detail: Mapping[str, Any]) -> Problem:
    """What pydantic found, with a path such as `query.limit`; it never repeats the value."""
    path = ".".join(str(step) for step in detail["loc"])
    return Problem(path, _MESSAGES.get(detail["type"]) or _sentence(str(detail["msg"])))


def _sentence(text: str) -> str:
    for beginning in ("Value error, ", "Input should ", "String should ", "Input must "):
        if text.startswith(beginning):
            rest = text.removeprefix(beginning)
            return f"must {rest}" if "should" in beginning or "must" in beginning else rest
    return text
