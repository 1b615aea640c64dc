"""The API, put together: one application over a state that whoever made it starts and closes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import Depends, FastAPI, Request
from starlette.types import ASGIApp

from controlplane import health, openapi
from controlplane.audit import api as audit
from controlplane.audit.service import AuditService
from controlplane.authentication import Authenticator
from controlplane.boundary import Boundary
from controlplane.config import api as config
from controlplane.config.service import ConfigService
from controlplane.console import pages as console
from controlplane.decisions import api as decisions
from controlplane.decisions.service import DecisionsService
from controlplane.errors import handle_errors
from controlplane.me import api as me
from controlplane.metrics import ControlMetrics
from controlplane.record import record_of
from controlplane.replicas import api as replicas
from controlplane.replicas.service import ReplicasService
from controlplane.sessions import api as sessions
from controlplane.sessions.service import SessionsService

if TYPE_CHECKING:
    from common.settings.control import ControlSettings
    from common.state.ports import ControlState
    from common.telemetry.log import Log


ROUTERS = (
    config.router,
    replicas.router,
    sessions.router,
    decisions.router,
    audit.router,
    me.router,
    health.router,
    openapi.router,
    console.router,
)


async def name_operation(request: Request) -> None:
    """A dependency of every operation: what its metrics and its log line call it."""
    record_of(request.scope).operation = getattr(request.scope.get("route"), "operation_id", None) or ""


def build_api() -> FastAPI:
    """Every operation, over nothing yet."""
    app = FastAPI(
        title="Wicketgate control plane",
        version=openapi.VERSION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(name_operation)],
    )
    app.state.routers = ROUTERS
    for router in ROUTERS:
        app.include_router(router)
    handle_errors(app)
    return app


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The application, and what whoever serves it needs of it."""

    app: ASGIApp
    process: health.Process
    config: ConfigService
    replicas: ReplicasService

    def drain(self) -> None:
        """Say that the process ends, and let answers wait for nothing any more."""
        self.process.draining = True
        self.replicas.end()

    def close(self) -> None:
        """Let go of what it holds itself; the state is its maker's."""
        self.config.close()


def control_plane(
    settings: ControlSettings, state: ControlState, log: Log, metrics: ControlMetrics | None = None
) -> ControlPlane:
    """The API over a state."""
    metrics = metrics or ControlMetrics()
    metrics.state_up.read_from(lambda: int(state.up))
    api = build_api()
    process = health.Process(state, metrics, settings.metrics_token)
    table = ConfigService(state, settings.gateways, settings.protected_routes)
    view = ReplicasService(state)
    api.state.process = process
    api.state.authenticator = Authenticator(settings.tokens, state)
    api.state.config = table
    api.state.replicas = view
    api.state.sessions = SessionsService(state)
    api.state.decisions = DecisionsService(state)
    api.state.audit = AuditService(state)
    return ControlPlane(Boundary(api, log, done=metrics.answered), process, table, view)
