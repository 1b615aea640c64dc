"""Whether the process runs, whether it is ready, what it counted: `/healthz`, `/readyz`, `/metrics`."""

from __future__ import annotations

import hmac
from typing import Annotated, Literal

from fastapi import APIRouter, Request, Response, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from common.settings.secret import Secret
from common.state.ports import ControlState
from common.telemetry.metrics import TEXT_CONTENT_TYPE
from controlplane.documentation import RETRY_AFTER, outcomes
from controlplane.errors import RETRY_AFTER_S, ApiError, retry_after
from controlplane.metrics import ControlMetrics
from controlplane.schemas import Model

router = APIRouter(tags=["process"])

METRICS_BEARER = HTTPBearer(
    scheme_name="metricsToken", auto_error=False, description="The value of GATEWAY_CONTROL_METRICS_TOKEN."
)


class Health(Model):
    """The process runs its loop."""

    status: Literal["ok"]


class StateHealth(Model):
    """The shared state as this process sees it."""

    up: bool
    backend: str


class Readiness(Model):
    """Whether requests are of use now."""

    status: Literal["ready", "not_ready", "draining"]
    state: StateHealth


class Process:
    """What is known of this process: its state, whether it ends, and what it counts."""

    def __init__(self, state: ControlState, metrics: ControlMetrics, metrics_token: Secret | None) -> None:
        self.state = state
        self.metrics = metrics
        self.metrics_token = metrics_token
        self.draining = False

    def readiness(self) -> Readiness:
        ready = self.state.up
        status: Literal["ready", "not_ready", "draining"] = (
            "draining" if self.draining else "ready" if ready else "not_ready"
        )
        return Readiness(status=status, state=StateHealth(up=self.state.up, backend=self.state.backend))


@router.get(
    "/healthz",
    operation_id="getHealth",
    summary="Whether the process runs",
    responses=outcomes(200, "It does.", {"status": "ok"}, errors=()),
)
async def healthz() -> Health:
    return Health(status="ok")


NOT_READY = {"status": "not_ready", "state": {"up": False, "backend": "postgres"}}


@router.get(
    "/readyz",
    operation_id="getReadiness",
    summary="Whether requests are of use now",
    responses={
        **outcomes(200, "It is ready.", {"status": "ready", "state": {"up": True, "backend": "postgres"}}, errors=()),
        503: {
            "model": Readiness,
            "description": "The shared state is away, or the process ends.",
            "headers": RETRY_AFTER,
            "content": {"application/json": {"example": NOT_READY}},
        },
    },
)
async def readyz(request: Request, response: Response) -> Readiness:
    process: Process = request.app.state.process
    readiness = process.readiness()
    if readiness.status != "ready":
        response.status_code = 503
        response.headers.update(retry_after(RETRY_AFTER_S))
    return readiness


@router.get(
    "/metrics",
    operation_id="getMetrics",
    summary="What the process counted",
    response_class=Response,
    responses={
        **outcomes(200, "", {}, errors=("unauthorized", "not_found")),
        200: {
            "description": "Prometheus text, version 0.0.4.",
            "content": {"text/plain": {"schema": {"type": "string"}, "example": "gateway_state_up 1.0\n"}},
        },
    },
)
async def metrics(
    request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Security(METRICS_BEARER)]
) -> Response:
    process: Process = request.app.state.process
    if process.metrics_token is None:
        raise ApiError("not_found", "No GATEWAY_CONTROL_METRICS_TOKEN is set.")
    sent = request.headers.getlist("authorization")
    scheme, _blank, given = sent[0].partition(" ") if len(sent) == 1 else ("", "", "")
    matches = hmac.compare_digest(given.strip(" ").encode(), process.metrics_token.reveal().encode())
    if not matches or scheme.lower() != "bearer":
        message = "Send the metrics token: Authorization: Bearer <token>."
        raise ApiError("unauthorized", message, headers={"www-authenticate": "Bearer"})
    return Response(process.metrics.render(), media_type=None, headers={"content-type": TEXT_CONTENT_TYPE.decode()})
