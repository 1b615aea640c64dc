"""The bound on what is inside at once."""

from __future__ import annotations

import pytest

from dataplane.admission import Admission
from dataplane.errors import GatewayError


def test_what_does_not_fit_is_refused_at_once_and_takes_no_place() -> None:
    admission = Admission(2, "requests inside the gateway")
    admission.enter()
    admission.enter()
    for _ in range(3):
        with pytest.raises(GatewayError) as caught:
            admission.enter()
        assert (caught.value.code, caught.value.spec.status) == ("gateway_overloaded", 503)
        assert caught.value.retry_after_s == 1
    assert admission.active == 2
    admission.leave()
    admission.enter()


def test_zero_bounds_nothing_and_still_counts() -> None:
    admission = Admission(0, "requests inside the gateway")
    for _ in range(5_000):
        admission.enter()
    assert admission.active == 5_000
    for _ in range(5_000):
        admission.leave()
    assert admission.active == 0


def test_leaving_twice_is_found_out_and_raises_no_bound() -> None:
    admission = Admission(1, "requests inside the gateway")
    admission.enter()
    admission.leave()
    with pytest.raises(RuntimeError, match="requests inside the gateway"):
        admission.leave()
    admission.enter()
    with pytest.raises(GatewayError):
        admission.enter()
