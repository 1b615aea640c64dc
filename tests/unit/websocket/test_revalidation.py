"""Whether an open WebSocket may go on: each way in which it may not, and when it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.identity.principal import Principal
from common.routetable.compiled import Match, Route
from common.routetable.table import RouteTable
from common.state.ports import Session, StateUnavailable
from dataplane.access.protocol import AccessDecision
from dataplane.errors import GatewayError
from dataplane.exchange import Exchange
from dataplane.snapshot import Snapshot
from dataplane.websocket.revalidation import Revalidation, Schedule, schedule
from tests.support.forwarding import CONTEXT, request, route

WORKSPACE = "11111111-1111-4111-8111-111111111111"
SESSION = Session("hash", "ann", "", (), 0, 0, 10, 10)
ALLOW = AccessDecision(True)
SOCKET: dict[str, Any] = {"id": "chat", "path": "/chat/", "websocket": True}
CHECKED: dict[str, Any] = {**SOCKET, "path": "/ws/{id}", "workspace_param": "id", "access_check": True}


@dataclass
class Here:
    """The deployment as it is at the time of a check."""

    current: Snapshot | None = None
    session: Session | Exception | None = SESSION
    decision: AccessDecision | Exception = ALLOW
    asked: tuple[object, ...] = ()

    async def read_session(self, id_hash: str) -> Session | None:
        assert id_hash == SESSION.id_hash
        if isinstance(self.session, Exception):
            raise self.session
        return self.session

    async def decide(
        self, subject: str, workspace_id: str | None, route: Route, roles: object, *, fresh: bool
    ) -> AccessDecision:
        assert fresh
        self.asked = (subject, workspace_id, route.id, roles)
        if isinstance(self.decision, Exception):
            raise self.decision
        return self.decision

    def serve(self, *routes: Route) -> None:
        self.current = Snapshot(RouteTable(2, routes), 1, 0, "file", ())

    async def objection(self, x: Exchange, *, access: bool = True) -> str:
        asked = cast(Any, self)
        return await Revalidation(self, asked, asked if access else None).objection(x)


def opened(here: Here, at: str, *, session: bool = True, credential: Any = "session", **fields: Any) -> Exchange:
    """The exchange of a handshake that got a route of these fields, which is served."""
    here.serve(route(**fields))
    assert here.current is not None
    x = Exchange(request(path=at), cast(Any, None), peer="203.0.113.9", secure=False, started_at=0.0)
    x.forwarding = CONTEXT
    x.match = here.current.table.match("api.example.com", at, "GET")
    assert isinstance(x.match, Match)
    if credential:
        x.principal = Principal("ann", "", ("dev",), credential)
    x.session = SESSION if session else None
    return x


async def test_a_connection_whose_route_session_and_access_stand_goes_on() -> None:
    here = Here()
    assert await here.objection(opened(here, "/chat/room", **SOCKET)) == ""
    assert here.asked == ()
    x = opened(here, f"/ws/{WORKSPACE}", **CHECKED)
    x.workspace_id = WORKSPACE
    assert await here.objection(x) == ""
    assert here.asked == ("ann", WORKSPACE, "chat", ("dev",))


@pytest.mark.parametrize(
    "routes",
    [
        (),
        (route(**{**SOCKET, "websocket": False}),),
        (route(**{**SOCKET, "id": "other"}),),
        (route(**{**SOCKET, "path": "/elsewhere/"}),),
        (route(**{**SOCKET, "host": "other.example.com"}),),
        (route(**{**SOCKET, "methods": frozenset(("POST",))}),),
        (route(**SOCKET), route(**{**SOCKET, "id": "closer", "path": "/chat/room"})),
    ],
    ids=["gone", "no websockets", "renamed", "moved", "another host", "another method", "a closer one"],
)
async def test_a_route_that_a_new_handshake_would_not_get_ends_the_connection(routes: tuple[Route, ...]) -> None:
    here = Here()
    x = opened(here, "/chat/room", **SOCKET)
    here.serve(*routes)
    assert await here.objection(x) == "its route is gone or takes no WebSockets"


async def test_a_change_of_the_route_that_says_nothing_of_the_caller_does_not_end_it() -> None:
    here = Here()
    x = opened(here, "/chat/room", **SOCKET)
    here.serve(route(**SOCKET, max_body_bytes=5), route(id="new", path="/new/"))
    assert await here.objection(x) == ""


@pytest.mark.parametrize(
    ("credential", "mode", "stands"),
    [
        ("", "none", True), ("", "any", False), ("", "session", False), ("", "jwt-only", False),
        ("session", "none", True), ("session", "any", True), ("session", "session", True),
        ("session", "jwt-only", False),
        ("bearer", "none", True), ("bearer", "any", True), ("bearer", "session", False), ("bearer", "jwt-only", True),
    ],
)  # fmt: skip
async def test_a_route_that_asks_for_another_credential_now_ends_it(credential: str, mode: str, stands: bool) -> None:
    here = Here()
    x = opened(here, "/chat/room", session=credential == "session", credential=credential, **SOCKET)
    here.serve(route(**{**SOCKET, "auth_mode": mode}))
    assert (await here.objection(x) == "") is stands


async def test_a_session_that_is_over_or_cannot_be_read_ends_it() -> None:
    here = Here(session=None)
    assert await here.objection(opened(here, "/chat/room", **SOCKET)) == "its session is over"
    here.session = StateUnavailable("away")
    assert "could not be read" in await here.objection(opened(here, "/chat/room", **SOCKET))


async def test_a_bearers_connection_asks_for_no_session() -> None:
    here = Here(session=None)
    assert await here.objection(opened(here, "/chat/room", session=False, credential="bearer", **SOCKET)) == ""


async def test_a_denial_or_an_outage_of_access_ends_it() -> None:
    here = Here(decision=AccessDecision(False, "missing_role"))
    x = opened(here, f"/ws/{WORKSPACE}", **CHECKED)
    x.workspace_id = WORKSPACE
    assert await here.objection(x) == "Access denied: missing_role"
    here.decision = GatewayError("access_unavailable", "timeout")
    assert await here.objection(x) == "access_unavailable: timeout"
    assert await here.objection(x, access=False) == "Access cannot be asked"


async def test_a_route_that_begins_to_ask_access_asks_it_for_open_connections() -> None:
    here = Here(decision=AccessDecision(False, "access_denied"))
    x = opened(here, "/chat/room", **SOCKET)
    here.serve(route(**SOCKET, access_check=True))
    assert await here.objection(x) == "Access denied: access_denied"


async def test_a_route_that_reads_the_workspace_elsewhere_ends_it() -> None:
    """The upstream was told which workspace this is about, and goes on believing it."""
    here = Here()
    x = opened(here, f"/ws/{WORKSPACE}/x", **{**CHECKED, "path": "/ws/{id}/{other}"})
    x.workspace_id = WORKSPACE
    here.serve(route(**{**CHECKED, "path": "/ws/{id}/{other}", "workspace_param": "other", "require_uuid": False}))
    assert await here.objection(x) == "its route names another workspace"
    here.serve(route(**{**CHECKED, "path": "/ws/{id}/{other}", "workspace_param": "other"}))
    assert (await here.objection(x)).startswith("bad_request")


async def test_without_a_table_nothing_can_be_vouched_for() -> None:
    here = Here()
    x = opened(here, "/chat/room", **SOCKET)
    here.current = None
    assert await here.objection(x) != ""


def test_the_schedule_is_a_function_of_its_random_source() -> None:
    assert schedule(60.0, iter((0.0, 0.0)).__next__) == Schedule(0.0, 48.0)
    assert schedule(60.0, iter((0.5, 0.5)).__next__) == Schedule(30.0, 60.0)


@given(st.floats(0.001, 86_400), st.lists(st.floats(0, 1, exclude_max=True), min_size=2, max_size=2))
def test_the_first_check_lies_in_the_interval_and_periods_in_a_band_of_forty_percent(
    interval_s: float, drawn: list[float]
) -> None:
    plan = schedule(interval_s, iter(drawn).__next__)
    assert 0 <= plan.first_s <= interval_s
    assert 0.799 * interval_s <= plan.period_s <= 1.201 * interval_s
