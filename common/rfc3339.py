"""Moments as text."""

from __future__ import annotations

import time

LAST_MS = 253_402_300_799_999
"""The end of the year 9999: RFC 3339 has four digits for a year."""


def rfc3339(time_ms: int) -> str:
    """Milliseconds since the epoch, in UTC. What lies outside the years that can be written is the nearest that can:
    a number in a store may be anything.
    """
    at = min(max(time_ms, 0), LAST_MS)
    return time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(at // 1000)) + f"{at % 1000:03d}Z"
