"""The running policy in words, once a generation (§12.2): the table, each route, each permissive setting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from common.routetable.compiled import Budget, Route
from common.routetable.warnings import Surroundings, permissive_settings
from dataplane.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class PolicyLine:
    """One log line. Field names avoid the words by which the log redacts."""

    level: Literal["info", "warning"]
    msg: str
    fields: dict[str, object]


def policy_lines(snapshot: Snapshot, surroundings: Surroundings) -> Iterator[PolicyLine]:
    """Every line of one generation, in the order in which they are logged."""
    table = snapshot.table
    yield PolicyLine(
        "info",
        "configuration active",
        {
            "generation": snapshot.generation,
            "revision": snapshot.revision,
            "source": snapshot.source,
            "version": table.version,
            "routes": len(table.routes),
            "hosts": sorted(table.hosts) or ["*"],
            "reservedPaths": list(table.reserved_paths),
            "trustedProxies": [str(network) for network in snapshot.trusted_proxies],
        },
    )
    for route in table.routes:
        yield PolicyLine("info", "route", _route_fields(route))
    for found in permissive_settings(table, surroundings):
        yield PolicyLine(
            "warning",
            "permissive setting",
            {"route": found.route_id or None, "setting": found.setting, "detail": found.message},
        )


def _route_fields(route: Route) -> dict[str, object]:
    times = route.timeouts
    return {
        "route": route.id,
        "host": route.host,
        "path": route.path,
        "methods": "*" if route.methods is None else sorted(route.methods),
        "upstreams": [f"{upstream.origin}{upstream.base_path}" for upstream in route.upstreams],
        "upstreamHost": route.upstream_host,
        "rewrite": route.rewrite,
        "mode": route.auth_mode,
        "workspace": route.workspace_param,
        "accessAsked": route.access_check,
        "crossSite": route.cross_site or "deployment",
        "authHeaderForwarded": route.forward_authorization,
        "websocket": route.websocket,
        "timeoutsMs": {
            "connect": round(times.connect_s * 1000),
            "upload": round(times.upload_s * 1000),
            "response": round(times.response_s * 1000),
            "firstByte": round(times.first_byte_s * 1000),
            "body": round(times.body_s * 1000),
            "attempt": round(route.upstream_attempt_s * 1000),
        },
        "maxBodyBytes": route.max_body_bytes,
        "replayMaxBytes": route.replay_max_bytes,
        "rateLimits": {
            "client": _budget(route.rate_limits.client),
            "principal": _budget(route.rate_limits.principal),
        },
    }


def _budget(budget: Budget | None) -> str:
    return "deployment" if budget is None else f"{budget.max_requests} in {budget.window_ms} ms"
