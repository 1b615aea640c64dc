"""The passive breaker of upstreams (§11.4): plain values, told what was observed and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from common.routetable.compiled import Upstream


@dataclass(slots=True)
class _Health:
    failures: int = 0
    skip_until: float = 0.0


class UpstreamBreaker:
    """Which upstreams failed lately, by origin; routes that name the same origin share it.

    After `failures` in a row an origin is skipped for `cooldown_s`, counted from the failure that tripped it: further
    failures do not extend it, and the first one after it trips it again. `failures=0` switches the breaker off.
    """

    def __init__(self, failures: int, cooldown_s: float) -> None:
        self._failures = failures
        self._cooldown_s = cooldown_s
        self._origins: dict[str, _Health] = {}

    def failed(self, origin: str, now: float) -> None:
        if not self._failures:
            return
        health = self._origins.setdefault(origin, _Health())
        health.failures += 1
        if health.failures >= self._failures and health.skip_until <= now:
            health.skip_until = now + self._cooldown_s

    def answered(self, origin: str) -> None:
        if origin in self._origins:
            del self._origins[origin]

    def skipped(self, origin: str, now: float) -> bool:
        health = self._origins.get(origin)
        return health is not None and health.skip_until > now

    def order(self, upstreams: Sequence[Upstream], now: float) -> Sequence[Upstream]:
        """The upstreams in the order of trying: those not skipped, then the skipped ones, both in list order."""
        if len(upstreams) == 1 or not self._origins:
            return upstreams
        return sorted(upstreams, key=lambda upstream: self.skipped(upstream.origin, now))
