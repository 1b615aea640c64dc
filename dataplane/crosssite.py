"""The cross-site guard: what another site may make a browser do with the session cookie (§8, §10).

    Sec-Fetch-Site, Origin, method, route -> refuses / refuses_handshake -> 403 cross_site_request

It is the cookie that makes a request interesting, not the credential that authenticated it: a browser adds the cookie
to requests that its user never meant to send.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from common.routetable.upstreams import DEFAULT_PORTS
from dataplane.errors import GatewayError
from dataplane.forwarding.cookies import SESSION_COOKIE, cookies_of
from dataplane.http1.authority import parse_authority
from dataplane.http1.heads import ProtocolError

if TYPE_CHECKING:
    from common.routetable.compiled import Route
    from dataplane.exchange import Exchange
    from dataplane.forwarding.context import ForwardingContext
    from dataplane.http1.heads import RequestHead
    from dataplane.metrics import GatewayMetrics

# Every other method may change state, the ones that are not registered included. `patch` is not `PATCH` to a browser,
# but many an application takes it for one.
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})

_SAME_SITE = frozenset({b"same-origin", b"same-site", b"none"})

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")

Origin = tuple[str, str, int | None]
"""Scheme, host (lower case; IPv6 in its canonical text) and port; None for the port of a scheme without a default."""


def parse_origin(text: str) -> Origin | None:
    """An origin as a value that is equal for equal origins (RFC 6454 §5); None for `null` and for whatever is not
    exactly `scheme://host[:port]`. A host with a trailing dot is another origin than without, as in a browser.
    """
    scheme, separator, rest = text.lower().partition("://")
    if not separator or not rest.isascii() or _SCHEME.fullmatch(scheme) is None:
        return None
    try:
        authority = parse_authority(rest.encode("ascii"))
    except ProtocolError:
        return None
    host = authority.host
    if not rest.startswith("[") and rest.partition(":")[0].endswith("."):
        host += "."
    return scheme, host, DEFAULT_PORTS.get(scheme) if authority.port is None else authority.port


class CrossSiteGuard:
    """Refuses what another site made a browser send. Step 10 of the dispatcher; `refuses` serves the logout too.

    `allowed_origins` are those beside the gateway's own. Raises `ValueError` for one that is no origin.
    """

    def __init__(self, allowed_origins: Iterable[str], *, strict: bool, metrics: GatewayMetrics) -> None:
        self._allowed = frozenset(_configured(text) for text in allowed_origins)
        self._strict = strict
        self._metrics = metrics

    def __call__(self, x: Exchange) -> None:
        """Raise `GatewayError("cross_site_request")`, before Access or an upstream is asked (§2.3, step 10)."""
        head, route = x.head, x.matched.route
        if head.method in SAFE_METHODS and not route.websocket and not self.is_strict(route):
            return  # most requests
        context = x.forwarding
        handshake = route.websocket and head.upgrade == "websocket"
        refused = (handshake and self.refuses_handshake(head, context)) or self.refuses(
            head, context, state_changing=head.method not in SAFE_METHODS, strict=self.is_strict(route)
        )
        # The cookies come last: reading them costs more than all else here, and few requests get so far.
        if refused and _carries_session(head):
            self._metrics.auth_failures.inc(route.id, "cross_site")
            raise GatewayError("cross_site_request", _described(head))

    def is_strict(self, route: Route) -> bool:
        """The route refuses navigations from other sites, by itself or by the deployment's policy."""
        return self._strict if route.cross_site is None else route.cross_site == "strict"

    def refuses(self, head: RequestHead, forwarding: ForwardingContext, *, state_changing: bool, strict: bool) -> bool:
        """The table of §8. `strict`: cross-site requests that change nothing are refused as well."""
        if not state_changing and not strict:
            return False
        site = head.values(b"sec-fetch-site")
        if site and not (len(site) == 1 and site[0] in _SAME_SITE):
            return True  # `cross-site`, or what no browser sends
        origins = head.values(b"origin")
        if not origins or self._allows(origins, forwarding):
            return False
        # A foreign origin of the same site (a sibling name) is not cross-site: it may read, and change nothing.
        return state_changing or not site

    def refuses_handshake(self, head: RequestHead, forwarding: ForwardingContext) -> bool:
        """Whether a WebSocket handshake with the session cookie names no allowed origin (§10)."""
        return not self._allows(head.values(b"origin"), forwarding)

    def _allows(self, origins: Sequence[bytes], forwarding: ForwardingContext) -> bool:
        origin = parse_origin(origins[0].decode("latin-1")) if len(origins) == 1 else None
        if origin is None:
            return False
        return origin in self._allowed or origin == parse_origin(f"{forwarding.scheme}://{forwarding.host}")


def _carries_session(head: RequestHead) -> bool:
    """Whether the request holds the session cookie, of whatever value."""
    return any(name == SESSION_COOKIE for name, _ in head.derived(cookies_of))


def _configured(text: str) -> Origin:
    origin = parse_origin(text)
    if origin is None:
        raise ValueError(f"not an origin: {text!r}")
    return origin


def _described(head: RequestHead) -> str:
    site, origin = head.value(b"sec-fetch-site"), head.value(b"origin")
    return f"sec-fetch-site={_shown(site)} origin={_shown(origin)}"


def _shown(value: bytes | None) -> str:
    return "-" if value is None else value[:200].decode("latin-1")
