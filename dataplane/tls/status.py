"""What readiness says of certificates (CONTRACT Settled details: Readiness). They never make the gateway unready."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from common.telemetry.redact import safe_text
from dataplane.tls.certificate import Certificate
from dataplane.tls.store import CertificateStore

LAST_ERROR_MAX = 1_024


def certificates_status(store: CertificateStore, now_s: float) -> dict[str, object]:
    """`"certificates"` in the body of `/readyz`: what is served, what went wrong last, and whether that presses."""
    error = store.last_error
    return {
        "source": store.source,
        "served": [
            {
                "names": list(certificate.names),
                "notBefore": _date(certificate.not_before_s),
                "notAfter": _date(certificate.not_after_s),
            }
            for certificate in store.certificates
        ],
        "lastError": None if error is None else safe_text(error, LAST_ERROR_MAX),
        "warning": _warning(store.certificates, now_s, failed=error is not None),
    }


def _warning(certificates: Iterable[Certificate], now_s: float, *, failed: bool) -> str | None:
    """Of the certificate that expires first: it has expired, or its renewal failed in the last third of its life."""
    first = min(certificates, key=lambda certificate: certificate.not_after_s, default=None)
    if first is None:
        return "no certificate is served yet" if failed else None
    left_s = first.not_after_s - now_s
    if left_s <= 0:
        return f"the certificate of {first.names[0]} has expired"
    if failed and left_s < (first.not_after_s - first.not_before_s) / 3:
        return f"the certificate of {first.names[0]} expires at {_date(first.not_after_s)}, and its renewal failed"
    return None


def _date(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
