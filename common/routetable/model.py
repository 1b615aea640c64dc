"""The file's shape: strict pydantic models of both versions of the table (§3.1). What a text means is `compile`'s.

An unknown key, another type, or a number outside its bounds is refused here. Names are camelCase in the file and
snake_case here. None stands for "not declared"; the file itself never holds null.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag
from pydantic.alias_generators import to_camel

from common.routetable.compiled import AuthMode, CrossSite

MAX_MS = 2_147_483_647
"""About 24 days: what every timer and every store of the deployment can hold."""
MAX_BYTES = 9_007_199_254_740_991
"""The largest integer that every JSON reader keeps exactly (RFC 8259 §6)."""
MAX_REPLAY_BYTES = 1_073_741_824
"""A replayable body is held in memory."""
MAX_REQUESTS = 1_000_000_000
MAX_UPSTREAMS = 32
MAX_BUCKETS = 60
"""Buckets of a limiter's window (§9)."""

ROUTE_ID = "^[a-z0-9][a-z0-9-]{0,63}$"
PLACEHOLDER = "^[A-Za-z_][A-Za-z0-9_-]{0,63}$"
METHOD = "^[A-Z][A-Z0-9_-]{0,31}$"

PositiveMs = Annotated[int, Field(ge=1, le=MAX_MS)]
Ms = Annotated[int, Field(ge=0, le=MAX_MS)]
Bytes = Annotated[int, Field(ge=0, le=MAX_BYTES)]
ReplayBytes = Annotated[int, Field(ge=0, le=MAX_REPLAY_BYTES)]
UNIQUE: dict[str, JsonValue] = {"uniqueItems": True}
Method = Annotated[str, Field(pattern=METHOD)]


def _upstream_kind(value: object) -> str:
    return "list" if isinstance(value, list) else "text"


UPSTREAM_KINDS = ("text", "list")
"""Tags that pydantic puts into the place of an error; no keys of the file."""

UpstreamField = Annotated[
    Annotated[str, Tag("text")]
    | Annotated[list[str], Field(min_length=1, max_length=MAX_UPSTREAMS), Tag("list")],
    Discriminator(_upstream_kind),
]  # fmt: skip


class Part(BaseModel):
    """An object of the table."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, alias_generator=to_camel)


class MatchPart(Part):
    host: str = Field(default="*", description="Exact name, `*.example.com` (any name below it), or `*`.")
    path: str = Field(
        pattern="^/", description="Literal and `{name}` segments; a trailing slash makes it a prefix of what follows."
    )
    methods: list[Method] | None = Field(
        default=None, min_length=1, json_schema_extra=UNIQUE, description="Methods it handles; absent: all."
    )


class WorkspacePart(Part):
    param: str | None = Field(
        default=None, pattern=PLACEHOLDER, description="The `{placeholder}` of the path that holds the workspace."
    )
    require_uuid: bool | None = Field(default=None, description="Refuse a workspace that is no UUID. Default true.")


class AuthPart(Part):
    mode: AuthMode | None = Field(
        default=None, description="Which credentials are accepted. Required here or in defaults."
    )
    workspace: WorkspacePart | None = Field(default=None, description="The workspace that Access is asked about.")


class TimeoutsPart(Part):
    connect_ms: PositiveMs | None = Field(default=None, description="Dialling to connected. Default 5000.")
    upload_ms: PositiveMs | None = Field(
        default=None, description="Idle time between two chunks of the upload. Default 60000."
    )
    response_ms: PositiveMs | None = Field(default=None, description="Request sent to response head. Default 30000.")
    first_byte_ms: PositiveMs | None = Field(
        default=None, description="Response head to first body byte. Default 30000."
    )
    body_ms: PositiveMs | None = Field(
        default=None, description="Idle time between two chunks of the body. Default 300000."
    )


class BudgetPart(Part):
    max: int = Field(ge=0, le=MAX_REQUESTS, description="Requests in any window; 0 turns this limiter off.")
    window_ms: PositiveMs | None = Field(default=None, description="Length of the window. Default: the deployment's.")
    bucket_ms: PositiveMs | None = Field(
        default=None, description=f"Length of a bucket; at most {MAX_BUCKETS} a window. Default: the deployment's."
    )


class RateLimitsPart(Part):
    client: BudgetPart | None = Field(default=None, description="Budget of one caller's address on the route.")
    principal: BudgetPart | None = Field(default=None, description="Budget of one authenticated caller on the route.")


class PolicyPart(Part):
    """What a route may declare and `defaults` may declare for all routes."""

    auth: AuthPart | None = None
    timeouts: TimeoutsPart | None = None
    max_body_bytes: Bytes | None = Field(default=None, description="Largest request body; 0: unbounded.")
    rate_limits: RateLimitsPart | None = None
    cross_site: CrossSite | None = Field(default=None, description="`strict` refuses cross-site navigations, too.")
    forward_authorization: bool | None = Field(default=None, description="Hand the caller's `authorization` on.")
    access_cache_ttl_ms: Ms | None = Field(
        default=None, description="How long a decision of Access is kept; 0: not at all."
    )
    access_stale_grace_ms: Ms | None = Field(default=None, description="How long it still serves while Access is down.")
    upstream_attempt_ms: PositiveMs | None = Field(
        default=None, description="Budget of an attempt with another one behind it."
    )
    replay_max_bytes: ReplayBytes | None = Field(default=None, description="Largest body kept for a second attempt.")
    websocket: bool | None = Field(default=None, description="Accept WebSocket handshakes.")


class DefaultsPart(PolicyPart):
    """Applies to routes that declare none."""


class RouteV1(PolicyPart):
    id: str = Field(pattern=ROUTE_ID, description="Unique; in logs, metrics and Access requests.")
    match: MatchPart
    upstream: UpstreamField = Field(description="One URL, or several in the order in which they are tried.")
    rewrite: str | None = Field(
        default=None, pattern="^/", description="Template of the path that the upstream receives."
    )
    access_check: bool = Field(default=False, description="Ask Access on a route without a workspace.")


class RouteV2(RouteV1):
    upstream_host: str = Field(
        default="upstream",
        description="The Host that the upstream sees: `upstream` (its own), `request`, or a literal host.",
    )


class _Table(Part):
    defaults: DefaultsPart | None = None
    trusted_proxies: list[str] = Field(
        default_factory=list,
        json_schema_extra=UNIQUE,
        description="Ranges (CIDR) whose forwarding headers are believed.",
    )
    reserved_paths: list[str] = Field(
        default_factory=list,
        json_schema_extra=UNIQUE,
        description="Path prefixes never forwarded on a name of the gateway.",
    )


class TableV1(_Table):
    """A route table of version 1: every name is a name of the gateway."""

    version: Literal[1]
    routes: list[RouteV1]


class TableV2(_Table):
    """A route table of version 2."""

    version: Literal[2]
    hosts: list[str] = Field(
        default_factory=list, json_schema_extra=UNIQUE, description="The names of the gateway; empty: every name is."
    )
    routes: list[RouteV2]
