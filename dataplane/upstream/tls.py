"""TLS towards upstreams (§11.1.2): what they are verified against, and what the gateway presents to them."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from common.settings.keys import check_authorities
from dataplane.tls.certificate import CertificateRefused, read_certificate
from dataplane.tls.context import PROTOCOLS, load_identity
from dataplane.tls.files import WatchedFiles

if TYPE_CHECKING:
    from common.settings.gateway import GatewaySettings
    from common.telemetry.log import Log
    from dataplane.metrics import GatewayMetrics


class UpstreamTls:
    """The context of new connections to https upstreams, and to Access. Its files are watched where there are some.

    Every upstream is verified, its name included, and nothing falls back to less: without an authority of its own the
    deployment trusts the system's.
    """

    def __init__(
        self, settings: GatewaySettings, log: Log, metrics: GatewayMetrics, *, now_ms: Callable[[], int]
    ) -> None:
        self._settings = settings
        self._log = log
        self._metrics = metrics
        self._now_ms = now_ms
        self._context: ssl.SSLContext | None = None
        paths = (settings.upstream_tls_ca, settings.upstream_tls_cert, settings.upstream_tls_key)
        given = [path for path in paths if path is not None]
        self._files = WatchedFiles(given, self._take, log, taken=self._taken, refused=self._refused) if given else None

    async def start(self) -> None:
        """Read the files. `CertificateRefused` names one that cannot be used, and why."""
        if self._files is not None:
            await self._files.start()

    async def reload(self) -> None:
        """Look at the files now; what cannot be used changes nothing and is reported."""
        if self._files is not None:
            await self._files.look_twice()

    async def stop(self) -> None:
        if self._files is not None:
            await self._files.stop()

    def context(self) -> ssl.SSLContext:
        """The context for a new connection."""
        if self._context is None:
            self._context = _client_context(None)  # reading the system's takes time: not before it is needed
        return self._context

    def _take(self, contents: Sequence[bytes]) -> None:
        settings = self._settings
        rest = list(contents)
        authorities = rest.pop(0) if settings.upstream_tls_ca is not None else None
        if authorities is not None:
            try:
                check_authorities(authorities)
            except ValueError as error:
                raise CertificateRefused(f"{settings.upstream_tls_ca}: {error}") from None
        context = _client_context(authorities)
        if rest:
            chain, key = rest
            certificate = read_certificate(
                chain,
                key,
                now_s=self._now_ms() / 1000,
                chain_source=str(settings.upstream_tls_cert),
                key_source=str(settings.upstream_tls_key),
                purpose="client",
            )
            load_identity(context, certificate)
        self._context = context

    def _taken(self) -> None:
        self._metrics.config_reloads.inc("ok")
        self._log.info("TLS towards upstreams has new files")

    def _refused(self, reason: str) -> None:
        self._metrics.config_reloads.inc("failed")
        self._log.error("a file of TLS towards upstreams was refused, the last valid ones serve on", error=reason)


def _client_context(authorities: bytes | None) -> ssl.SSLContext:
    """Verifies certificate and name, TLS 1.2 or later. Authorities given are the only ones (PEM, comments allowed)."""
    cadata = None if authorities is None else authorities.decode("ascii", "ignore")
    context = ssl.create_default_context(cadata=cadata)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(PROTOCOLS)
    return context
