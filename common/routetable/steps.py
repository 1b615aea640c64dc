"""Which of the dispatcher's steps run for a route, in words (§2.3): for `gateway explain`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from common.routetable.compiled import Budget, Match, Route
from common.routetable.paths import decoded_once
from common.routetable.problems import shown

_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")

_CREDENTIALS = {
    "none": "none is asked for; no identity is written",
    "session": "the session cookie; the authorization header is ignored",
    "jwt-only": "the bearer token; cookies are ignored",
    "any": "the authorization header where present, else the session cookie",
}
_CROSS_SITE = {
    None: "when the session cookie is sent; navigations by the deployment's policy",
    "strict": "when the session cookie is sent; navigations from other sites are refused, too",
    "navigation": "when the session cookie is sent; navigations from other sites are allowed",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the dispatcher: whether it does something for this request, and what."""

    name: str
    runs: bool
    detail: str


def steps_of(match: Match) -> tuple[Step, ...]:
    """The steps that a request passes once its route is known, in their order."""
    route = match.route
    authenticated = route.auth_mode != "none"
    return (
        Step("admission", True, "a free place among the requests inside the gateway"),
        Step("rate limits", True, f"the deployment's, the caller's, and the caller's here: {_budget(route, False)}"),
        Step("authentication", authenticated, _CREDENTIALS[route.auth_mode]),
        Step("principal limit", authenticated, _budget(route, True) if authenticated else "nobody is authenticated"),
        Step("cross-site guard", True, _CROSS_SITE[route.cross_site]),
        Step("workspace check", route.access_check, _access(match)),
        Step("dispatch", True, _dispatch(route)),
    )


def _budget(route: Route, principal: bool) -> str:
    budget: Budget | None = route.rate_limits.principal if principal else route.rate_limits.client
    if budget is None:
        return "the deployment's budget for a route"
    if budget.max_requests == 0:
        return "no limit"
    return f"{budget.max_requests} in {budget.window_ms} ms"


def _access(match: Match) -> str:
    route = match.route
    if not route.access_check:
        return "Access is not asked"
    kept = f"decisions are kept {route.access_cache_ttl_ms} ms"
    if route.access_stale_grace_ms:
        kept += f", and serve {route.access_stale_grace_ms} ms longer while Access is down"
    if route.workspace_param is None:
        return f"Access is asked about the route; {kept}"
    workspace = decoded_once(match.params[route.workspace_param])
    if route.require_uuid and _UUID.fullmatch(workspace) is None:
        return f"refused with 400: the workspace {shown(workspace)} is no UUID"
    return f"Access is asked about the workspace {shown(workspace)}; {kept}"


def _dispatch(route: Route) -> str:
    upstreams = ", then ".join(upstream.origin for upstream in route.upstreams)
    websocket = "HTTP and WebSocket" if route.websocket else "HTTP"
    limit = f"a body of at most {route.max_body_bytes} bytes" if route.max_body_bytes else "a body of any length"
    times = route.timeouts
    return (
        f"{websocket} to {upstreams}; {limit}; connect {times.connect_s:g} s, upload {times.upload_s:g} s idle, "
        f"response {times.response_s:g} s, first byte {times.first_byte_s:g} s, body {times.body_s:g} s idle"
    )
