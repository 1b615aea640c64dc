"""The certificates that are served, by name, replaced whole by one assignment."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from dataplane.tls.certificate import Certificate, CertificateRefused
from dataplane.tls.context import load_identity, server_context

if TYPE_CHECKING:
    from dataplane.metrics import GatewayMetrics

TICKET_KEY_MAX_AGE_S = 43_200.0
"""Session tickets of TLS 1.2 are only as secret for the future as the key they are encrypted with: it is renewed."""


class CertificateStore:
    """What handshakes find. `install` is the only way in, for files and for an authority alike."""

    def __init__(
        self,
        metrics: GatewayMetrics,
        *,
        min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
        source: Literal["files", "acme"] = "files",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.source = source
        """Where the certificates come from, for readiness."""
        self._metrics = metrics
        self._min_version = min_version
        self._clock = clock
        self._served = _Served((), min_version)
        self._entry: ssl.SSLContext | None = None
        self._entry_made_at = 0.0
        self.last_error: str | None = None
        """Why the newest certificates are not served, or cannot be had, for readiness; None while they are served."""

    @property
    def certificates(self) -> Sequence[Certificate]:
        """What is served, the default one first; empty before the first `install`."""
        return self._served.certificates

    @property
    def context(self) -> ssl.SSLContext:
        """The context to begin a handshake with: it goes on with the certificate of the name that is asked for.

        Ask for each handshake: it holds the key of the session tickets, and is replaced now and then.
        """
        now = self._clock()
        if self._entry is None or now - self._entry_made_at > TICKET_KEY_MAX_AGE_S:
            self._entry = server_context(self._min_version)
            self._entry.sni_callback = self._choose
            self._entry_made_at = now
        return self._entry

    def install(self, certificates: Sequence[Certificate]) -> None:
        """Serve these from now on, in place of all before; open connections stay as they are.

        The first one serves callers that name no host, or a host that none of them certifies. Where two certify one
        name the earlier serves it. `CertificateRefused` when OpenSSL does not take one: then nothing changes.
        """
        if not certificates:
            raise CertificateRefused("no certificate was given")
        self._served = served = _Served(certificates, self._min_version)
        self.last_error = None
        self._metrics.certificate_expiry_timestamp.replace(served.expiries())

    def certifies(self, hostname: str) -> bool:
        """Whether one of the certificates is for this host name (lower case) or address."""
        return self._served.find(hostname) is not None

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> int | None:
        """OpenSSL's question in each handshake, with and without a name (RFC 6066 §3)."""
        served = self._served
        context = (served.find(name.lower().removesuffix(".")) if name else None) or served.default
        if context is None:
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        connection.context = context
        return None


class _Served:
    """One generation: a context for each certificate, found by name."""

    __slots__ = ("_exact", "_wildcards", "certificates", "default")

    def __init__(self, certificates: Sequence[Certificate], min_version: ssl.TLSVersion) -> None:
        self.certificates = tuple(certificates)
        self._exact: dict[str, tuple[ssl.SSLContext, Certificate]] = {}
        self._wildcards: dict[str, tuple[ssl.SSLContext, Certificate]] = {}
        self.default: ssl.SSLContext | None = None
        for certificate in certificates:
            context = server_context(min_version)
            load_identity(context, certificate)
            self.default = self.default or context
            for name in certificate.names:
                where = self._wildcards if name.startswith("*.") else self._exact
                where.setdefault(name.removeprefix("*"), (context, certificate))

    def find(self, name: str) -> ssl.SSLContext | None:
        """The context for a name: exact, or a wildcard for its first label (RFC 6125 §6.4.3)."""
        found = self._exact.get(name)
        if found is None:
            label, dot, parent = name.partition(".")
            found = self._wildcards.get(dot + parent) if label and dot else None
        return None if found is None else found[0]

    def expiries(self) -> list[tuple[tuple[str], float]]:
        """When the certificate of each name expires, in POSIX seconds."""
        found = [(f"*{parent}", certificate) for parent, (_, certificate) in self._wildcards.items()]
        found += [(name, certificate) for name, (_, certificate) in self._exact.items()]
        return [((name,), certificate.not_after_s) for name, certificate in found]
