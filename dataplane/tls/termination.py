"""TLS of the callers in this process: the certificates and where they come from."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dataplane.tls.certificate import Certificate, CertificateRefused, read_certificate
from dataplane.tls.files import WatchedFiles
from dataplane.tls.status import certificates_status
from dataplane.tls.store import CertificateStore

if TYPE_CHECKING:
    from common.settings.gateway import GatewaySettings
    from common.telemetry.log import Log
    from dataplane.metrics import GatewayMetrics

VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


class Termination:
    """`start` before listening, `stop` at the end. `store` is what handshakes are begun with."""

    def __init__(
        self, settings: GatewaySettings, log: Log, metrics: GatewayMetrics, *, now_ms: Callable[[], int]
    ) -> None:
        self._pairs = tuple(zip(settings.tls_cert, settings.tls_key, strict=True))
        self._log = log
        self._metrics = metrics
        self._now_ms = now_ms
        self.store = CertificateStore(metrics, min_version=VERSIONS[settings.tls_min_version])
        self._files = WatchedFiles(
            [path for pair in self._pairs for path in pair],
            self._install,
            log,
            taken=self._taken,
            refused=self._refused,
        )

    async def start(self) -> None:
        """Serve what the files hold. `CertificateRefused` names each file that cannot be served, and why."""
        await self._files.start()
        self._tell("certificates served")

    async def reload(self) -> None:
        """Look at the files now; what cannot be served changes nothing and is reported."""
        await self._files.look_twice()

    async def stop(self) -> None:
        """Watch nothing any more."""
        await self._files.stop()

    def status(self) -> dict[str, object]:
        """`"certificates"` of readiness."""
        return certificates_status(self.store, self._now_ms() / 1000)

    def _install(self, contents: Sequence[bytes]) -> None:
        certificates: list[Certificate] = []
        problems = []
        for (chain_path, key_path), chain, key in zip(self._pairs, contents[::2], contents[1::2], strict=True):
            try:
                certificates.append(
                    read_certificate(
                        chain,
                        key,
                        now_s=self._now_ms() / 1000,
                        chain_source=str(chain_path),
                        key_source=str(key_path),
                    )
                )
            except CertificateRefused as refused:
                problems.append(str(refused))
        if problems:
            raise CertificateRefused("; ".join(problems))
        self.store.install(certificates)

    def _taken(self) -> None:
        self.store.last_error = None
        self._metrics.config_reloads.inc("ok")
        self._tell("certificates replaced")

    def _refused(self, reason: str) -> None:
        self.store.last_error = reason
        self._metrics.config_reloads.inc("failed")
        self._log.error("certificates refused, the last valid ones serve on", error=reason)

    def _tell(self, msg: str) -> None:
        status = self.status()
        self._log.info(msg, served=status["served"])
