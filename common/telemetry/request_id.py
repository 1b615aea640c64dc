"""The id that names one request in its answer, its log lines and at its upstream (§2.1)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from common.telemetry.random_hex import RandomHex

_USABLE = re.compile(rb"[A-Za-z0-9._-]{1,64}")

# RFC 9562 §4.1: the two high bits of the variant digit are 10, its two low bits stay random.
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}

_digits = RandomHex(32).draw


def request_id(sent: Sequence[bytes]) -> str:
    """The caller's `x-request-id` where it is one usable value, else a fresh UUID.

    `sent` holds the header's values. Two of them are as good as none: logs here and upstream could pick different ones.
    """
    if len(sent) == 1 and _USABLE.fullmatch(sent[0]) is not None:
        return sent[0].decode("ascii")
    return new_request_id()


def new_request_id() -> str:
    """A random UUID, version 4, as text (RFC 9562 §5.4).

    The same source and 122 random bits as `uuid.uuid4()`, without the cost of building a `UUID`.
    """
    digits = _digits()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{_VARIANT[digits[16]]}{digits[17:20]}-{digits[20:]}"
