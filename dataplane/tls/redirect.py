"""The plain listener sends the callers of a certificate's name to the same name over TLS (§11.5.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from common.routetable.hosts import bracketed
from common.settings.urls import parse_http_url
from dataplane.endpoints.challenges import CHALLENGE_PREFIX
from dataplane.forwarding.context import forwarded_scheme
from dataplane.replies import Reply

if TYPE_CHECKING:
    from dataplane.exchange import Exchange

HTTPS_PORT = 443
# Probes and scrapers are told by their path alone, whatever their method; an authority fetches a challenge before
# there is a certificate that it could believe (RFC 8555 §8.3).
NEVER = frozenset({"/healthz", "/readyz", "/metrics"})


class TlsRedirect:
    """Answers a plain request that should have come over TLS; None for one that may be answered as it is."""

    def __init__(self, certifies: Callable[[str], bool], public_url: str, tls_port: Callable[[], int]) -> None:
        """The public URL, where it is https, says at which port callers reach TLS; else `tls_port` is asked."""
        self._certifies = certifies
        public = parse_http_url(public_url)
        self._public_port = (public.port or HTTPS_PORT) if public.scheme == "https" else None
        self._tls_port = tls_port

    def __call__(self, x: Exchange) -> Reply | None:
        """Only the names of certificates are ever redirected to, each to itself: no `Host` leads anywhere else."""
        context, head = x.forwarding, x.head
        path = head.path
        if context.hostname is None or not self._certifies(context.hostname):
            return None
        if not path.startswith("/") or path in NEVER or path.startswith(CHALLENGE_PREFIX):
            return None
        if context.trusted and forwarded_scheme(head) == "https":
            return None  # the proxy in front has ended the caller's TLS
        x.route_id = "gateway"
        port = self._public_port or self._tls_port()
        authority = bracketed(context.hostname) + ("" if port == HTTPS_PORT else f":{port}")
        location = f"https://{authority}{path}{head.query}"
        return Reply(301, ((b"location", location.encode("ascii")), (b"cache-control", b"no-store")))
