"""One route's model to its frozen values: defaults merged, texts parsed, what contradicts itself refused (§3.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from common.routetable.compiled import AuthMode, Budget, DeploymentDefaults, RateLimits, Route, Timeouts, Upstream
from common.routetable.hosts import host_pattern
from common.routetable.model import (
    MAX_BUCKETS,
    AuthPart,
    BudgetPart,
    DefaultsPart,
    RateLimitsPart,
    RouteV1,
    RouteV2,
    TimeoutsPart,
    WorkspacePart,
)
from common.routetable.problems import Problems
from common.routetable.templates import Template, check_rewrite, parse_template
from common.routetable.upstreams import literal_authority, parse_upstream

A = TypeVar("A")
T = TypeVar("T")

_ROOT = parse_template("/")
_UNDECLARED_AUTH = AuthPart()
_UNDECLARED_WORKSPACE = WorkspacePart()
_UNDECLARED_TIMEOUTS = TimeoutsPart()
_UNDECLARED_LIMITS = RateLimitsPart()


@dataclass(frozen=True, slots=True)
class Scope:
    """What every route of a table is compiled against."""

    version: int
    defaults: DefaultsPart
    deployment: DeploymentDefaults
    problems: Problems


def attempt(problems: Problems, where: str, read: Callable[[A], T], value: A, fallback: T) -> T:
    """`read(value)`; a ValueError of it is the problem of this place, and the fallback stands in for the result."""
    try:
        return read(value)
    except ValueError as error:
        problems.add(where, str(error))
        return fallback


def compile_route(raw: RouteV1, where: str, scope: Scope) -> Route:
    """The route with every default resolved. Fit for use only when no problem was reported."""
    problems, defaults, deployment = scope.problems, scope.defaults, scope.deployment
    template = attempt(problems, f"{where}.match.path", parse_template, raw.match.path, _ROOT)
    mode, workspace, require_uuid = _auth(raw, template, where, scope)
    if raw.rewrite is not None and not problems.touch(f"{where}.match.path"):
        attempt(problems, f"{where}.rewrite", partial(check_rewrite, names=template.names), raw.rewrite, None)
    attempt_ms = _first(raw.upstream_attempt_ms, defaults.upstream_attempt_ms, deployment.upstream_attempt_ms)
    return Route(
        id=raw.id,
        host=attempt(problems, f"{where}.match.host", host_pattern, raw.match.host, "*"),
        path=template.text,
        methods=_methods(raw, where, problems),
        upstreams=_upstreams(raw, where, scope),
        auth_mode=mode,
        workspace_param=workspace,
        require_uuid=require_uuid,
        access_check=raw.access_check or workspace is not None,
        access_cache_ttl_ms=_first(
            raw.access_cache_ttl_ms, defaults.access_cache_ttl_ms, deployment.access_cache_ttl_ms
        ),
        access_stale_grace_ms=_first(
            raw.access_stale_grace_ms, defaults.access_stale_grace_ms, deployment.access_stale_grace_ms
        ),
        forward_authorization=_first(raw.forward_authorization, defaults.forward_authorization, False),
        cross_site=raw.cross_site or defaults.cross_site,
        websocket=_first(raw.websocket, defaults.websocket, False),
        timeouts=_timeouts(raw.timeouts or _UNDECLARED_TIMEOUTS, defaults.timeouts or _UNDECLARED_TIMEOUTS),
        max_body_bytes=_first(raw.max_body_bytes, defaults.max_body_bytes, deployment.max_body_bytes),
        replay_max_bytes=_first(raw.replay_max_bytes, defaults.replay_max_bytes, deployment.replay_max_bytes),
        upstream_attempt_s=attempt_ms / 1000,
        upstream_host=_upstream_host(raw, where, problems),
        rewrite=raw.rewrite,
        rate_limits=_rate_limits(raw, where, scope),
    )


def check_defaults(scope: Scope) -> None:
    """Report what is wrong with the defaults themselves, once and in their own place."""
    limits = scope.defaults.rate_limits or _UNDECLARED_LIMITS
    _budget(limits.client, "defaults.rateLimits.client", scope)
    _budget(limits.principal, "defaults.rateLimits.principal", scope)


def _first(own: T | None, default: T | None, otherwise: T) -> T:
    if own is not None:
        return own
    return default if default is not None else otherwise


def _auth(raw: RouteV1, template: Template, where: str, scope: Scope) -> tuple[AuthMode, str | None, bool]:
    """Mode, workspace placeholder and whether it must be a UUID, merged field by field.

    A route that declares mode `none` inherits no workspace: there is no caller that Access could be asked about.
    """
    own = raw.auth or _UNDECLARED_AUTH
    inherited = scope.defaults.auth or _UNDECLARED_AUTH
    mode = own.mode or inherited.mode
    problems = scope.problems
    if mode is None:
        if not problems.touch("defaults.auth.mode"):
            problems.add(f"{where}.auth.mode", "is required here or in defaults.auth: none, session, jwt-only or any")
        mode = "session"
    if mode == "none":
        if own.workspace is not None:
            problems.add(f"{where}.auth.workspace", "needs an authenticated caller: mode none names no workspace")
        if raw.access_check:
            problems.add(f"{where}.accessCheck", "needs an authenticated caller: mode none asks Access nothing")
        return mode, None, True
    if own.workspace is None and inherited.workspace is None:
        return mode, None, True
    mine, default = own.workspace or _UNDECLARED_WORKSPACE, inherited.workspace or _UNDECLARED_WORKSPACE
    param = mine.param or default.param
    place = f"{where}.auth.workspace.param"
    if param is None:
        problems.add(place, "is required: name the placeholder of match.path that holds the workspace")
    elif param not in template.names and not problems.touch(f"{where}.match.path"):
        source = "" if mine.param else " (from defaults.auth)"
        problems.add(place, f"names {{{param}}}{source}, which is no placeholder of match.path")
    return mode, param, _first(mine.require_uuid, default.require_uuid, True)


def _methods(raw: RouteV1, where: str, problems: Problems) -> frozenset[str] | None:
    methods = raw.match.methods
    if methods is None:
        return None
    seen: set[str] = set()
    for index, method in enumerate(methods):
        if method == "CONNECT":
            problems.add(f"{where}.match.methods[{index}]", "CONNECT is never forwarded")
        if method in seen:
            problems.add(f"{where}.match.methods[{index}]", f"{method} is listed twice")
        seen.add(method)
    return frozenset(methods)


def _upstreams(raw: RouteV1, where: str, scope: Scope) -> tuple[Upstream, ...]:
    if isinstance(raw.upstream, str):
        places = {f"{where}.upstream": raw.upstream}
    else:
        places = {f"{where}.upstream[{index}]": url for index, url in enumerate(raw.upstream)}
    read = partial(parse_upstream, version=scope.version)
    found = (attempt(scope.problems, place, read, url, None) for place, url in places.items())
    return tuple(upstream for upstream in found if upstream is not None)


def _upstream_host(raw: RouteV1, where: str, problems: Problems) -> str:
    if not isinstance(raw, RouteV2) or raw.upstream_host in ("upstream", "request"):
        return raw.upstream_host if isinstance(raw, RouteV2) else "upstream"
    return attempt(problems, f"{where}.upstreamHost", literal_authority, raw.upstream_host, "upstream")


def _timeouts(own: TimeoutsPart, default: TimeoutsPart) -> Timeouts:
    """Merged field by field (§11.2)."""
    otherwise = Timeouts()
    return Timeouts(
        connect_s=_seconds(own.connect_ms, default.connect_ms, otherwise.connect_s),
        upload_s=_seconds(own.upload_ms, default.upload_ms, otherwise.upload_s),
        response_s=_seconds(own.response_ms, default.response_ms, otherwise.response_s),
        first_byte_s=_seconds(own.first_byte_ms, default.first_byte_ms, otherwise.first_byte_s),
        body_s=_seconds(own.body_ms, default.body_ms, otherwise.body_s),
    )


def _seconds(own_ms: int | None, default_ms: int | None, otherwise_s: float) -> float:
    ms = own_ms if own_ms is not None else default_ms
    return otherwise_s if ms is None else ms / 1000


def _rate_limits(raw: RouteV1, where: str, scope: Scope) -> RateLimits:
    """A budget that a route declares replaces the default's of the same scope as a whole."""
    own = raw.rate_limits or _UNDECLARED_LIMITS
    default = scope.defaults.rate_limits or _UNDECLARED_LIMITS
    return RateLimits(
        client=_budget(own.client, f"{where}.rateLimits.client", scope)
        or _budget(default.client, "defaults.rateLimits.client", scope),
        principal=_budget(own.principal, f"{where}.rateLimits.principal", scope)
        or _budget(default.principal, "defaults.rateLimits.principal", scope),
    )


def _budget(part: BudgetPart | None, where: str, scope: Scope) -> Budget | None:
    if part is None:
        return None
    window_ms = part.window_ms or scope.deployment.rate_limit_window_ms
    bucket_ms = part.bucket_ms or scope.deployment.rate_limit_bucket_ms
    buckets = -(-window_ms // bucket_ms)
    if bucket_ms > window_ms:
        scope.problems.add(where, f"has buckets of {bucket_ms} ms, which are longer than its window of {window_ms} ms")
    elif buckets > MAX_BUCKETS:
        least = -(-window_ms // MAX_BUCKETS)
        scope.problems.add(
            where,
            f"has {buckets} buckets in its window, at most {MAX_BUCKETS} are kept: set bucketMs to {least} or more",
        )
    return Budget(part.max, window_ms, bucket_ms)
