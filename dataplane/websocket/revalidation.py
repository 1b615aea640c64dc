"""Whether an open WebSocket may go on (§10): its route, its session and Access, asked again from time to time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from common.routetable.match import AmbiguousPath
from common.state.ports import StateUnavailable
from dataplane.errors import GatewayError
from dataplane.workspace import read_workspace_id

if TYPE_CHECKING:
    from common.identity.principal import Principal
    from common.routetable.compiled import Match, Route
    from common.state.ports import SessionStore
    from dataplane.access.client import AccessClient
    from dataplane.exchange import Exchange
    from dataplane.snapshot import Snapshot

BAND = 0.4
"""Periods lie in a band of this width around the interval: connections that were opened together drift apart."""

_CREDENTIALS = {
    "session": frozenset(("session",)),
    "jwt-only": frozenset(("bearer",)),
    "any": frozenset(("session", "bearer")),
}


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a connection is checked: first after `first_s`, then each `period_s`."""

    first_s: float
    period_s: float


def schedule(interval_s: float, random: Callable[[], float]) -> Schedule:
    """A connection's own schedule; `random` gives numbers from 0 (included) to 1 (not).

    The first check lies anywhere in the interval, since a deployment's callers all connect at once when a replica is
    replaced, and a check is never answered from the cache.
    """
    return Schedule(interval_s * random(), interval_s * (1 - BAND / 2 + BAND * random()))


class Configuration(Protocol):
    """Where the current snapshot comes from."""

    @property
    def current(self) -> Snapshot | None: ...


class Revalidation:
    """The checks. A route must be the one that a new handshake would get, and let this caller in as a new one.

    `access` is None where the deployment names no Access service.
    """

    def __init__(self, configuration: Configuration, sessions: SessionStore, access: AccessClient | None) -> None:
        self._configuration = configuration
        self._sessions = sessions
        self._access = access

    async def objection(self, x: Exchange) -> str:
        """Why the WebSocket that was opened by `x` may not go on, for the log; `""` when it may.

        A check that cannot be made is an objection (§10: the gateway keeps nothing that it cannot vouch for).
        """
        match = self._match(x)
        if match is None:
            return "its route is gone or takes no WebSockets"
        route, principal = match.route, x.principal
        if not _admits(route, principal):
            return "its route asks for another credential"
        try:
            if x.session is not None and await self._sessions.read_session(x.session.id_hash) is None:
                return "its session is over"
            return await self._access_objection(x, match)
        except StateUnavailable as away:
            return f"its session could not be read: {away}"
        except GatewayError as error:
            return f"{error.code}: {error.detail}"

    def _match(self, x: Exchange) -> Match | None:
        """The route that the handshake would get now, where that is the one it got."""
        snapshot = self._configuration.current
        if snapshot is None or x.match is None:
            return None
        try:
            match = snapshot.table.match(x.forwarding.hostname, x.head.path, x.head.method)
        except AmbiguousPath:
            return None
        if match is None or match.route.id != x.match.route.id or not match.route.websocket:
            return None
        return match

    async def _access_objection(self, x: Exchange, match: Match) -> str:
        route, principal = match.route, x.principal
        workspace_id = None
        if route.workspace_param is not None:
            segment = match.params.get(route.workspace_param, "")
            workspace_id = read_workspace_id(segment, require_uuid=route.require_uuid)
        if workspace_id != x.workspace_id:
            return "its route names another workspace"
        if not route.access_check:
            return ""
        if principal is None or self._access is None:
            return "Access cannot be asked"
        decision = await self._access.decide(principal.subject, workspace_id, route, principal.roles, fresh=True)
        return "" if decision.allow else f"Access denied: {decision.reason}"


def _admits(route: Route, principal: Principal | None) -> bool:
    if route.auth_mode == "none":
        return True
    return principal is not None and principal.credential in _CREDENTIALS[route.auth_mode]
