"""The API, put together: one application over a state that whoever made it starts and closes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import Depends, FastAPI, Request
from starlette.types import ASGIApp

from controlplane import documentation, health
from controlplane.authentication import Authenticator
from controlplane.boundary import Boundary
from controlplane.config import api as config
from controlplane.config.service import ConfigService
from controlplane.errors import handle_errors
from controlplane.metrics import ControlMetrics
from controlplane.record import record_of

if TYPE_CHECKING:
    from common.settings.control import ControlSettings
    from common.state.ports import ControlState
    from common.telemetry.log import Log


ROUTERS = (health.router, config.router, documentation.router)


async def name_operation(request: Request) -> None:
    """A dependency of every operation: what its metrics and its log line call it."""
    record_of(request.scope).operation = getattr(request.scope.get("route"), "operation_id", None) or ""


def build_api() -> FastAPI:
    """Every operation, over nothing yet."""
    app = FastAPI(
        title="Wicketgate control plane",
        version=documentation.VERSION,
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
    service = ConfigService(state, settings.gateways, settings.protected_routes)
    api.state.process = process
    api.state.config = service
    api.state.authenticator = Authenticator(settings.tokens, state)
    return ControlPlane(Boundary(api, log, done=metrics.answered), process, service)
