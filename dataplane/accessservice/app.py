"""The HTTP side of the reference service: `POST /v1/decisions` (`openapi/access.yaml`) and `GET /healthz`."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Callable
from typing import TYPE_CHECKING

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from common.telemetry.log import Log
from dataplane.access.protocol import DECISIONS_PATH
from dataplane.accessservice.policy import Policy
from dataplane.accessservice.question import REQUEST_MAX_BYTES, QuestionInvalid, read_question

if TYPE_CHECKING:
    from common.settings.secret import Secret

BODY_TIMEOUT_S = 10.0
"""A question is one small packet; a body that takes longer is held back on purpose."""


class Refused(Exception):
    """A request that is answered with an error of the protocol."""

    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = headers or {}


def access_app(policy: Policy | Callable[[], Policy], token: Secret, log: Log | None = None) -> Starlette:
    """The service as an ASGI application, deciding by `policy`; a function is asked at each request, so that a policy
    that was reloaded counts at once. Every decision is logged, the token never.
    """
    decisions = Decisions(policy if callable(policy) else lambda: policy, token, log or Log(lambda _: None))
    app = Starlette(
        routes=[
            Route(DECISIONS_PATH, decisions.answer, methods=["POST"]),
            Route("/healthz", _healthy, methods=["GET"]),
        ],
        exception_handlers={Refused: _refused, HTTPException: _http_refused, Exception: _failed},
    )
    # Another path is another path: no redirect to one that looks like it.
    app.router.redirect_slashes = False
    return app


class Decisions:
    """Answers `POST /v1/decisions`: token, then body, then policy."""

    def __init__(self, policy: Callable[[], Policy], token: Secret, log: Log) -> None:
        self._policy = policy
        # Digests have one length: comparing them tells nothing of the token, not even how long it is.
        self._token = hashlib.sha256(token.reveal().encode()).digest()
        self._log = log

    async def answer(self, request: Request) -> Response:
        """200 with the policy's ruling; raises `Refused` for everything else."""
        self._check_token(request)
        _check_media_type(request)
        body = await _read_body(request)
        try:
            asked = read_question(body)
        except QuestionInvalid as invalid:
            self._log.warning("question refused", problems=list(invalid.problems))
            raise Refused(400, "bad_request", str(invalid)) from None
        ruling = self._policy().rule(asked)
        self._log.info(
            "decision",
            subject=asked.subject,
            workspaceId=asked.workspace_id,
            route=asked.route_id,
            allow=ruling.allow,
            reasonCode=ruling.reason_code,
        )
        if ruling.allow:
            return _json(200, {"allow": True})
        return _json(200, {"allow": False, "reason": ruling.reason, "reasonCode": ruling.reason_code})

    def _check_token(self, request: Request) -> None:
        credentials = request.headers.getlist("authorization")
        scheme, _, given = credentials[0].partition(" ") if len(credentials) == 1 else ("", "", "")
        digest = hashlib.sha256(given.strip(" ").encode("utf-8", "surrogatepass")).digest()
        if not hmac.compare_digest(digest, self._token) or scheme.lower() != "bearer":
            self._log.warning("caller refused", error="unauthorized", given=bool(credentials))
            raise Refused(401, "unauthorized", "The token is missing or wrong.", {"www-authenticate": "Bearer"})


def _check_media_type(request: Request) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Refused(415, "unsupported_media_type", "The body must be application/json.")


async def _read_body(request: Request) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > REQUEST_MAX_BYTES:
        raise _too_large()
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for piece in request.stream():
                body += piece
                if len(body) > REQUEST_MAX_BYTES:
                    raise _too_large()
    except TimeoutError:
        raise Refused(408, "request_timeout", "The body did not arrive in time.", {"connection": "close"}) from None
    except ClientDisconnect:
        raise Refused(400, "bad_request", "The body was cut off.", {"connection": "close"}) from None
    return bytes(body)


def _too_large() -> Refused:
    # The rest of the body is not read, so the connection cannot carry another request.
    message = f"The body is larger than {REQUEST_MAX_BYTES} bytes."
    return Refused(413, "payload_too_large", message, {"connection": "close"})


async def _healthy(_: Request) -> Response:
    return _json(200, {"status": "ok"})


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)  # noqa: S101 - the table of handlers says so; for the type checker
    return _json(error.status, {"error": error.code, "message": error.message}, error.headers)


async def _http_refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "bad_request")
    message = {404: "Nothing is served at this path.", 405: "This path takes another method."}.get(error.status_code)
    return _json(error.status_code, {"error": code, "message": message or error.detail}, dict(error.headers or {}))


async def _failed(_: Request, __: Exception) -> Response:
    return _json(500, {"error": "internal_error", "message": "The service could not decide."})


def _json(status: int, value: object, headers: dict[str, str] | None = None) -> Response:
    return Response(
        orjson.dumps(value),
        status,
        {"cache-control": "no-store", **(headers or {})},
        media_type="application/json",
    )
