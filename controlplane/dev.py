"""The control plane for `gateway dev`: over the gateway's own memory, in its event loop.

The data plane does not import this plane: it finds `control_plane_for_demo` by the entry point group `wicketgate.dev`.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

from common.settings.control import ControlSettings, ControlStore
from common.settings.control_tokens import SCOPES, ControlToken
from common.settings.secret import Secret
from controlplane.app import control_plane

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from common.settings.gateway import GatewaySettings
    from common.state.ports import ControlState
    from common.telemetry.log import Log


@contextlib.asynccontextmanager
async def control_plane_for_demo(
    state: ControlState, gateway: GatewaySettings, tokens: Mapping[str, Secret], log: Log
) -> AsyncIterator[ASGIApp]:
    """The application for the length of the block. `tokens` holds one for each scope that somebody may have."""
    known = tuple(ControlToken(tokens[scope], f"demo-{scope}", scope) for scope in SCOPES if scope in tokens)
    settings = ControlSettings(store=ControlStore(Secret("memory://local")), tokens=known, gateways=gateway)
    plane = control_plane(settings, state, log)
    try:
        yield plane.app
    finally:
        plane.drain()
        plane.close()
