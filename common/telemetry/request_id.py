"""The id that names one request in its answer, its log lines and at its upstream (§2.1)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from common.telemetry.random_hex import Drawn, uuids

_USABLE = re.compile(rb"[A-Za-z0-9._-]{1,64}")

new_request_id = Drawn(uuids).draw
"""A random UUID, version 4, as text."""


def request_id(sent: Sequence[bytes]) -> str:
    """The caller's `x-request-id` where it is one usable value, else a fresh UUID.

    `sent` holds the header's values. Two of them are as good as none: logs here and upstream could pick different ones.
    """
    if len(sent) == 1 and _USABLE.fullmatch(sent[0]) is not None:
        return sent[0].decode("ascii")
    return new_request_id()
