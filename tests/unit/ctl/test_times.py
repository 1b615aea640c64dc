"""Times as people write them."""

from __future__ import annotations

import pytest

from controlplane.ctl.audit import point_in_time
from controlplane.ctl.failures import WrongUsage
from controlplane.ctl.screen import moment

NOW_S = 1_769_904_000.5  # 2026-02-01T00:00:00.5Z


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("0s", "2026-02-01T00:00:00.500Z"),
        ("90s", "2026-01-31T23:58:30.500Z"),
        ("30m", "2026-01-31T23:30:00.500Z"),
        ("2h", "2026-01-31T22:00:00.500Z"),
        ("7d", "2026-01-25T00:00:00.500Z"),
        ("999999999d", "1970-01-01T00:00:00.000Z"),
        ("2026-01-31", "2026-01-31T00:00:00.000Z"),
        ("2026-01-31T12:30", "2026-01-31T12:30:00.000Z"),
        ("2026-01-31T12:30:00Z", "2026-01-31T12:30:00.000Z"),
        ("2026-01-31T12:30:00.123456+02:00", "2026-01-31T10:30:00.123Z"),
    ],
)
def test_a_time_is_told_in_utc(text: str, time: str) -> None:
    assert point_in_time(text, NOW_S) == time


@pytest.mark.parametrize(
    "text", ["", "h", "2", "-2h", "2w", "2.5h", "yesterday", "٢h", "9999999999s", "0001-01-01T00:00+05:00"]
)
def test_what_is_no_time_is_wrong_usage(text: str) -> None:
    with pytest.raises(WrongUsage, match="is no time"):
        point_in_time(text, NOW_S)


def test_a_moment_is_shown_to_the_second() -> None:
    assert moment("2026-01-31T23:59:59.999Z") == "2026-01-31 23:59:59Z"
