"""TLS of the callers with a certificate from an authority: what `Termination` is for files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dataplane.tls.acme.build import build_keeper
from dataplane.tls.status import certificates_status
from dataplane.tls.store import CertificateStore
from dataplane.tls.termination import VERSIONS

if TYPE_CHECKING:
    from common.settings.gateway import GatewaySettings
    from common.state.ports import State
    from common.telemetry.log import Log
    from dataplane.metrics import GatewayMetrics


class AuthorityTermination:
    """`start` before listening and behind the state's, `stop` at the end. `store` is what handshakes are begun with.

    Until there is a certificate, handshakes are refused and everything else is served.
    """

    def __init__(
        self, settings: GatewaySettings, state: State, log: Log, metrics: GatewayMetrics, *, now_ms: Callable[[], int]
    ) -> None:
        self._now_ms = now_ms
        self.store = CertificateStore(metrics, min_version=VERSIONS[settings.tls_min_version], source="acme")
        self._keeper = build_keeper(
            settings,
            state,
            log,
            install=lambda certificate: self.store.install([certificate]),
            report=self._report,
        )

    async def start(self) -> None:
        """Serve what the shared state holds, and keep the certificate from now on. Never fails."""
        await self._keeper.start()

    async def reload(self) -> None:
        """Look at the shared state now, and do what is due."""
        self._keeper.look_now()

    async def stop(self) -> None:
        """End an order that is under way, within seconds."""
        await self._keeper.stop()

    def status(self) -> dict[str, object]:
        """`"certificates"` of readiness."""
        return certificates_status(self.store, self._now_ms() / 1000)

    def _report(self, trouble: str | None) -> None:
        self.store.last_error = trouble
