"""A moment as text is one that every reader takes, whatever number a store holds."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from common.rfc3339 import LAST_MS, rfc3339


@pytest.mark.parametrize("time_ms", [0, 1, 999, 1_000, 1_800_000_000_123, LAST_MS])
def test_a_moment_is_the_one_that_was_meant(time_ms: int) -> None:
    moment = datetime.fromisoformat(rfc3339(time_ms))
    assert round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000) == time_ms


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (-1, "1970-01-01T00:00:00.000Z"),
        (-(10**300), "1970-01-01T00:00:00.000Z"),
        (LAST_MS + 1, "9999-12-31T23:59:59.999Z"),
        (2**63 - 1, "9999-12-31T23:59:59.999Z"),
        (10**300, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_a_number_that_is_no_moment_is_the_nearest(time_ms: int, text: str) -> None:
    assert rfc3339(time_ms) == text
