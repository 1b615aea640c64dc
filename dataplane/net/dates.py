"""The `Date` header's value, formatted once a second (RFC 9110 §5.6.7)."""

from __future__ import annotations

import time
from email.utils import formatdate

_second = 0
_value = b""


def http_date() -> bytes:
    """The current time as an HTTP date."""
    global _second, _value
    now = int(time.time())
    if now != _second:
        _value = formatdate(now, usegmt=True).encode("ascii")
        _second = now
    return _value
