"""Settings that open something up, one warning each (§12.2). They are legal; somebody should have meant them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from common.routetable.compiled import Route, TrustedProxies
from common.routetable.openmethods import open_methods
from common.routetable.table import RouteTable
from common.routetable.toplevel import MAX_TRUSTED_ADDRESSES
from common.settings.urls import is_private_host


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What only the environment knows of the deployment that runs a table. The defaults are the environment's."""

    csrf_strict: bool = False
    route_limit_max: int = 6_000
    principal_limit_max: int = 0
    revalidate_interval_ms: int = 60_000
    trusted_proxies: TrustedProxies = ()
    """Where not empty they replace the table's."""


@dataclass(frozen=True, slots=True)
class PermissiveSetting:
    """`setting` is the field's place in the file or the variable's name; `route_id` is `""` outside a route."""

    route_id: str
    setting: str
    message: str


def permissive_settings(table: RouteTable, surroundings: Surroundings) -> tuple[PermissiveSetting, ...]:
    """Every permissive setting in force, the deployment's first, then each route's in the order of the file."""
    found = list(_of_deployment(table, surroundings))
    open_by_method = open_methods(table)
    for route in table.routes:
        found += [PermissiveSetting(route.id, setting, message) for setting, message in _of_route(route, surroundings)]
        if message := open_by_method.get(route.id):
            found.append(PermissiveSetting(route.id, "match.methods", message))
    return tuple(found)


def _of_deployment(table: RouteTable, surroundings: Surroundings) -> Iterator[PermissiveSetting]:
    setting = "GATEWAY_TRUSTED_PROXIES" if surroundings.trusted_proxies else "trustedProxies"
    for network in surroundings.trusted_proxies or table.trusted_proxies:
        if network.num_addresses > MAX_TRUSTED_ADDRESSES:
            yield PermissiveSetting(
                "",
                setting,
                f"{network} covers more than {MAX_TRUSTED_ADDRESSES} addresses: each of them may speak for any caller",
            )
    if surroundings.revalidate_interval_ms == 0 and any(route.websocket for route in table.routes):
        yield PermissiveSetting(
            "",
            "GATEWAY_WS_REVALIDATE_INTERVAL_MS",
            "open WebSockets are never revalidated: a revoked caller keeps them",
        )


def _of_route(route: Route, surroundings: Surroundings) -> Iterator[tuple[str, str]]:
    if route.auth_mode == "none":
        yield "auth.mode", "anybody may call this route, and the upstream gets no identity"
    elif not route.access_check:
        yield "accessCheck", "Access is not asked: every authenticated caller may use this route"
    if route.workspace_param is not None and not route.require_uuid:
        yield "auth.workspace.requireUuid", "a workspace need not be a UUID: Access sees whatever the path holds"
    if route.access_check and route.access_stale_grace_ms > 0:
        yield (
            "accessStaleGraceMs",
            f"while Access is down its last decision serves for {route.access_stale_grace_ms} ms: "
            "a revoked caller keeps access that long",
        )
    if route.forward_authorization:
        yield "forwardAuthorization", "the upstream receives the caller's credential and could replay it"
    if route.cross_site == "navigation" and surroundings.csrf_strict:
        yield "crossSite", "links from other sites are followed here, although the deployment is strict"
    if route.host == "*":
        yield "match.host", "this route answers for every host name"
    if route.max_body_bytes == 0:
        yield "maxBodyBytes", "request bodies have no limit"
    if _unlimited(route, surroundings):
        yield "rateLimits", "every limiter of this route is off"
    for upstream in route.upstreams:
        if upstream.scheme == "http" and not is_private_host(upstream.host):
            yield "upstream", f"requests to {upstream.origin} leave the private network unencrypted"


def _unlimited(route: Route, surroundings: Surroundings) -> bool:
    client, principal = route.rate_limits.client, route.rate_limits.principal
    client_max = surroundings.route_limit_max if client is None else client.max_requests
    principal_max = surroundings.principal_limit_max if principal is None else principal.max_requests
    # Without authentication nobody has a principal's budget.
    return client_max == 0 and (principal_max == 0 or route.auth_mode == "none")
