"""The compiled route table: frozen values that a request reads and nothing changes (§3, CONTRACT §3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from typing import Literal

from common.values import hot_value

AuthMode = Literal["none", "session", "jwt-only", "any"]
CrossSite = Literal["strict", "navigation"]


@dataclass(frozen=True, slots=True)
class Upstream:
    """One upstream of a route. `origin` (`http://app:3000`) names it in logs, breakers and pools: no user info in it.

    `authority` is its `Host` value (port only when not the scheme's default; IPv6 in brackets). `base_path` has no
    trailing slash and may be empty. `authorization` is the `Basic` value of a version 1 table's user info, else None.
    """

    scheme: Literal["http", "https"]
    host: str
    port: int
    authority: str
    base_path: str
    origin: str
    authorization: str | None = None

    def __repr__(self) -> str:
        return f"Upstream({self.origin}{self.base_path})"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Budgets of §11.2, in seconds."""

    connect_s: float = 5.0
    upload_s: float = 60.0
    response_s: float = 30.0
    first_byte_s: float = 30.0
    body_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Budget:
    """A limiter's budget (§9): at most `max_requests` in any `window_ms`, counted in buckets of `bucket_ms`."""

    max_requests: int
    window_ms: int
    bucket_ms: int


@dataclass(frozen=True, slots=True)
class RateLimits:
    """A route's own budgets; None follows the deployment's."""

    client: Budget | None = None
    principal: Budget | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """One route with every default resolved. Its policy is data; `match`, `rewrite` say where it leads."""

    id: str
    host: str
    """`*`, `*.example.com` or an exact name, in lower case."""
    path: str
    """The template as normalised by the strict reading."""
    methods: frozenset[str] | None
    upstreams: tuple[Upstream, ...]
    auth_mode: AuthMode
    workspace_param: str | None
    require_uuid: bool
    access_check: bool
    """Access is asked on this route: it names a workspace, or `accessCheck` is set."""
    access_cache_ttl_ms: int
    access_stale_grace_ms: int
    forward_authorization: bool
    cross_site: CrossSite | None
    websocket: bool
    timeouts: Timeouts
    max_body_bytes: int
    """0: unbounded."""
    replay_max_bytes: int
    upstream_attempt_s: float
    upstream_host: str
    """`upstream`, `request`, or a literal host."""
    rewrite: str | None
    rate_limits: RateLimits = RateLimits()


@hot_value
class Match:
    """The route of a request, with what its path template captured: raw segments, exactly as the caller wrote them.

    `rest` is the raw path behind the matched prefix, without its leading slash (`""` where nothing follows).
    """

    route: Route
    params: dict[str, str]
    rest: str


@dataclass(frozen=True, slots=True)
class DeploymentDefaults:
    """What a table's fields fall back to: the environment's values, the same on both planes."""

    max_body_bytes: int = 10_485_760
    replay_max_bytes: int = 65_536
    upstream_attempt_ms: int = 2_000
    access_cache_ttl_ms: int = 5_000
    access_stale_grace_ms: int = 0
    rate_limit_window_ms: int = 60_000
    rate_limit_bucket_ms: int = 1_000


TrustedProxies = tuple[IPv4Network | IPv6Network, ...]
