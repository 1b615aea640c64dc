"""What to do next about the certificate: plain functions of what is stored, the time and the lease. No I/O, no clock.

    nothing stored, or due ──> wait out the back-off ──> take the lease ──> order
    not due                ──> ask the authority when it wants it renewed, now and then ──> wait

Times are milliseconds since the epoch, by the clock of the shared state: replicas then agree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dataplane.tls.acme.failure import OrderFailed
from dataplane.tls.acme.records import Advice, Issued, Progress

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

ASK_EVERY_MS = 6 * HOUR_MS
"""How often the authority is asked when it wants the certificate renewed, where it does not say (RFC 9773 §4.3)."""
ASK_AGAIN_AFTER_FAILURE_MS = HOUR_MS
LONGEST_WAIT_MS = 7 * DAY_MS
"""The longest that an authority's `Retry-After` holds. A longer wait in the store comes of a clock that was wrong."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How the wait grows with failures in a row."""

    first_ms: int
    factor: int
    longest_ms: int

    def after(self, failures: int) -> int:
        wait_ms = self.first_ms
        for _ in range(failures - 1):
            if wait_ms >= self.longest_ms:
                break
            wait_ms *= self.factor
        return min(wait_ms, self.longest_ms)


# An authority counts what fails: some allow five failed validations of a name in an hour, and this makes five. The
# first wait is short: what is wrong is often that port 80 does not lead here yet, just after the start.
WHEN_REFUSED = Pace(15_000, 4, 6 * HOUR_MS)
WHEN_UNREACHABLE = Pace(10_000, 2, 10 * MINUTE_MS)


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before `until_ms`."""

    until_ms: int


@dataclass(frozen=True, slots=True)
class TakeLease:
    """Something is to be done, by whichever replica gets the lease."""


@dataclass(frozen=True, slots=True)
class Order:
    """Obtain a certificate; `why` in a few words."""

    why: str


@dataclass(frozen=True, slots=True)
class AskAuthority:
    """Ask when the authority wants the certificate renewed."""


Step = Wait | TakeLease | Order | AskAuthority


def next_step(now_ms: int, held: Issued | None, progress: Progress, *, renew_before_ms: int, leased: bool) -> Step:
    """The next thing to do. `leased`: this replica has the lease, and read `held` and `progress` under it."""
    why = _why_due(now_ms, held, progress, renew_before_ms)
    if why:
        if now_ms < progress.retry_at_ms <= now_ms + LONGEST_WAIT_MS:
            return Wait(progress.retry_at_ms)
        return Order(why) if leased else TakeLease()
    assert held is not None  # noqa: S101 - without one, it is due
    ask_at_ms = _ask_at(held, progress)
    if now_ms >= ask_at_ms or ask_at_ms > now_ms + LONGEST_WAIT_MS:
        return AskAuthority() if leased else TakeLease()
    return Wait(min(ask_at_ms, renewal_at(held, progress, renew_before_ms)))


def renewal_at(held: Issued, progress: Progress, renew_before_ms: int) -> int:
    """When a certificate is to be renewed.

    `renew_before_ms` or a third of its lifetime before its end, the shorter, and up to a tenth of that sooner: each
    certificate has its own part of it, so deployments made on one day do not all come at once. Where the authority says
    when, that counts, as long as half the time is left for failures.
    """
    span_ms = min(renew_before_ms, (held.not_after_ms - held.not_before_ms) // 3)
    advised_ms = _advised(held, progress)
    if advised_ms:
        return min(advised_ms, held.not_after_ms - span_ms // 2)
    part = int(held.fingerprint[:8], 16) / 0xFFFFFFFF
    return held.not_after_ms - span_ms - round(span_ms / 10 * part)


def after_failure(now_ms: int, progress: Progress, failure: OrderFailed, chance: float) -> Progress:
    """The progress after an attempt failed. `chance`, 0 to 1, spreads replicas and deployments over a quarter more."""
    refused = progress.refused + (0 if failure.unreachable else 1)
    unreachable = progress.unreachable + 1 if failure.unreachable else 0
    wait_ms = WHEN_UNREACHABLE.after(unreachable) if failure.unreachable else WHEN_REFUSED.after(refused)
    wait_ms += round(wait_ms / 4 * chance)
    if failure.retry_after_s is not None:
        wait_ms = max(wait_ms, min(round(failure.retry_after_s * 1000), LONGEST_WAIT_MS))
    return replace(
        progress,
        refused=refused,
        unreachable=unreachable,
        retry_at_ms=now_ms + wait_ms,
        failed_at_ms=now_ms,
        last_error=str(failure),
    )


def after_advice(now_ms: int, progress: Progress, held: Issued, advice: Advice | None) -> Progress:
    """The progress after the authority was asked; None when it did not answer: what it said before still counts."""
    if advice is None:
        known = _advised(held, progress)
        advice = Advice(held.fingerprint, known, now_ms + ASK_AGAIN_AFTER_FAILURE_MS)
    return replace(progress, advice=advice)


def _why_due(now_ms: int, held: Issued | None, progress: Progress, renew_before_ms: int) -> str:
    if held is None:
        return "there is none"
    if progress.renew_now == held.fingerprint:
        return "an operator asked for it"
    if now_ms < renewal_at(held, progress, renew_before_ms):
        return ""
    if now_ms >= held.not_after_ms:
        return "it has expired"
    return "the authority suggests it" if _advised(held, progress) else "it ends soon"


def _advised(held: Issued, progress: Progress) -> int:
    advice = progress.advice
    return advice.renew_at_ms if advice is not None and advice.fingerprint == held.fingerprint else 0


def _ask_at(held: Issued, progress: Progress) -> int:
    advice = progress.advice
    return advice.ask_again_ms if advice is not None and advice.fingerprint == held.fingerprint else 0
