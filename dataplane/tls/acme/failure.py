"""Why no certificate came of an attempt."""

from __future__ import annotations

from common.telemetry.redact import safe_text

REASON_MAX = 1_024
"""Characters of an authority's own words: they come from outside, and end in logs and on terminals."""


class OrderFailed(Exception):
    """An attempt ended without a certificate. The text is safe to log: one line, bounded, without credentials.

    `unreachable`: nobody answered, so trying again soon costs no one anything. Otherwise the authority, or the writer
    of the zone, said no. `retry_after_s` is what the other side asked for.
    """

    def __init__(self, reason: str, *, unreachable: bool = False, retry_after_s: float | None = None) -> None:
        super().__init__(safe_text(reason, REASON_MAX))
        self.unreachable = unreachable
        self.retry_after_s = retry_after_s


class AccountGone(OrderFailed):
    """The authority does not know the account any more."""
