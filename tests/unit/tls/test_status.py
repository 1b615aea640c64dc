"""What readiness says of certificates: a warning comes in time, and only when something went wrong."""

from __future__ import annotations

import pytest

from common.settings.secret import Secret
from dataplane.metrics import GatewayMetrics
from dataplane.tls.certificate import Certificate
from dataplane.tls.status import certificates_status
from dataplane.tls.store import CertificateStore
from tests.support.certificates import issue

ISSUED = issue("app.test")
DAY_S = 86_400


def store(*lifetimes: tuple[float, float], error: str | None = None) -> CertificateStore:
    made = CertificateStore(GatewayMetrics(), source="acme")
    if lifetimes:
        made.install(
            [
                Certificate("x", (f"{index}.test",), begins, ends, ISSUED.chain, Secret(ISSUED.key.decode()))
                for index, (begins, ends) in enumerate(lifetimes)
            ]
        )
    made.last_error = error
    return made


def warning(made: CertificateStore, now_s: float) -> object:
    return certificates_status(made, now_s)["warning"]


@pytest.mark.parametrize(
    ("error", "days", "warned"),
    [
        (None, 59, False),
        (None, 89.9, False),
        ("away", 59.9, False),
        ("away", 60.1, True),
        ("away", 89.9, True),
    ],
)
def test_a_failed_renewal_warns_in_the_last_third(error: str | None, days: float, warned: bool) -> None:
    said = warning(store((0, 90 * DAY_S), error=error), days * DAY_S)
    assert (said is not None) is warned
    if warned:
        assert said == "the certificate of 0.test expires at 1970-04-01T00:00:00Z, and its renewal failed"


def test_an_expired_certificate_warns_whatever_its_renewal_did() -> None:
    assert warning(store((0, DAY_S)), DAY_S) == "the certificate of 0.test has expired"


def test_the_certificate_that_expires_first_counts() -> None:
    said = warning(store((0, 90 * DAY_S), (0, 30 * DAY_S), error="away"), 25 * DAY_S)
    assert "1.test" in str(said)


def test_before_the_first_certificate_a_failure_warns() -> None:
    assert certificates_status(store(), 0) == {"source": "acme", "served": [], "lastError": None, "warning": None}
    assert warning(store(error="away"), 0) == "no certificate is served yet"


def test_errors_are_cut_and_safe() -> None:
    said = certificates_status(store(error="x" * 5_000 + "\n\x1b"), 0)["lastError"]
    assert isinstance(said, str)
    assert len(said) <= 1_100
    assert "\x1b" not in said
