"""Step 11: which workspace the request is about, and whether Access lets its caller in (§2.3, §6)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Awaitable
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from common.ready import DONE
from dataplane.errors import GatewayError

if TYPE_CHECKING:
    from common.identity.principal import Principal
    from common.routetable.compiled import Route
    from dataplane.access.client import AccessClient
    from dataplane.access.protocol import AccessDecision
    from dataplane.exchange import Exchange
    from dataplane.metrics import GatewayMetrics

WORKSPACE_ID_MAX_CHARS = 512
"""Where the identity header would cut it (§7.1): the upstream would read another id than Access judged."""

# The textual form of RFC 9562 §4 (RFC 4122 §3): hexadecimal digits of either case, any version and variant.
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


# Callers stay in a workspace for a while. What is refused is judged each time.
@lru_cache(maxsize=1024)
def read_workspace_id(segment: str, *, require_uuid: bool) -> str:
    """The workspace id that a raw path segment names: percent-decoded once, otherwise as the caller wrote it.

    A UUID keeps its case. Access, the identity header and the path that the upstream reads then name one and the same
    spelling, and whether two spellings are one workspace is nobody's guess but theirs.

    Raises `GatewayError("bad_request")` for an id that is empty, is no UUID where one is required, is not UTF-8, is
    longer than 512 characters, or could be read otherwise downstream: with a `/`, a `\\`, a control character, or
    white space at an end (header values lose theirs).
    """
    if require_uuid and _UUID.fullmatch(segment):
        return segment
    value = _decoded(segment)
    if not value:
        raise GatewayError("bad_request", "the workspace id is missing")
    if len(value) > WORKSPACE_ID_MAX_CHARS:
        raise GatewayError("bad_request", "the workspace id is too long")
    if "/" in value or "\\" in value or value != value.strip() or any(map(_is_control, value)):
        raise GatewayError("bad_request", "the workspace id holds a separator, a control character or outer space")
    if require_uuid and not _UUID.fullmatch(value):
        raise GatewayError("bad_request", "the workspace id is not a UUID")
    return value


def _decoded(segment: str) -> str:
    if not segment.isascii() or _BROKEN_ESCAPE.search(segment):
        raise GatewayError("bad_request", "the workspace id is not percent-encoded text")
    try:
        return unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError:
        raise GatewayError("bad_request", "the workspace id is not UTF-8") from None


def _is_control(character: str) -> bool:
    return unicodedata.category(character) == "Cc"


class WorkspaceStep:
    """Sets `x.workspace_id` where the route names a workspace, and asks Access where the route is checked.

    Refuses with 400 (no usable id), 403 `workspace_forbidden` (a denial) and 503 `access_unavailable` (no decision).
    A checked route without an authenticated caller is never let through: the table's rules rule it out (§6.3), and
    should one arrive it is a bug, 500. `access` is None where the deployment names no Access service.
    """

    def __init__(self, access: AccessClient | None, metrics: GatewayMetrics) -> None:
        self._access = access
        self._metrics = metrics

    def __call__(self, x: Exchange) -> Awaitable[None]:
        match = x.matched
        route = match.route
        if route.workspace_param is not None:
            segment = match.params.get(route.workspace_param, "")
            # Set before Access is asked: the record of a denied request says which workspace it was about.
            x.workspace_id = read_workspace_id(segment, require_uuid=route.require_uuid)
        return self._check(route, x.principal, x.workspace_id) if route.access_check else DONE

    def _check(self, route: Route, principal: Principal | None, workspace_id: str | None) -> Awaitable[None]:
        if principal is None:
            raise GatewayError("internal_error", "Access is asked about an authenticated caller, and there is none")
        if self._access is None:
            raise GatewayError("access_unavailable", "GATEWAY_ACCESS_URL names no service, and this route asks it")
        decision = self._access.at_hand(principal.subject, workspace_id, route, principal.roles)
        if decision is None:
            return self._ask(self._access, route, principal, workspace_id)
        self._judge(route, decision)
        return DONE

    async def _ask(self, access: AccessClient, route: Route, principal: Principal, workspace_id: str | None) -> None:
        self._judge(route, await access.decide(principal.subject, workspace_id, route, principal.roles))

    def _judge(self, route: Route, decision: AccessDecision) -> None:
        if not decision.allow:
            self._metrics.auth_failures.inc(route.id, decision.reason)
            raise GatewayError("workspace_forbidden", f"Access denied: {decision.reason}")
