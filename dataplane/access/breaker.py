"""A circuit breaker over consecutive failures (§6.4). It only refuses, and it never calls anything itself."""

from __future__ import annotations


class Breaker:
    """Closed until `failures` calls in a row failed, then open for `cooldown_s`, then half-open: one call decides.

    Every call asks `admit` first and reports once: `succeeded`, `failed`, or `released` when its outcome says nothing
    (the caller left, the question was refused). A call that began before the state last changed no longer speaks: late
    answers neither close an open breaker nor lengthen its cooldown. `failures` 0 never opens.

    Times are seconds of any one monotonic clock, passed in. Not for several threads.
    """

    __slots__ = ("_cooldown_s", "_failed", "_generation", "_limit", "_open_until", "_probing")

    def __init__(self, failures: int, cooldown_s: float) -> None:
        self._limit = failures
        self._cooldown_s = cooldown_s
        self._failed = 0
        self._generation = 0
        self._open_until: float | None = None
        self._probing = False

    @property
    def open(self) -> bool:
        """Whether calls are refused, but for the one that probes after the cooldown."""
        return self._open_until is not None

    def admit(self, now: float) -> int | None:
        """A ticket for one call, or None: do not call. The holder of a ticket must report its outcome."""
        if self._open_until is None:
            return self._generation
        if self._probing or now < self._open_until:
            return None
        self._probing = True
        return self._generation

    def succeeded(self, ticket: int) -> None:
        """The call was answered: the row of failures ends, and a probe closes the breaker."""
        if ticket == self._generation:
            self._failed = 0
            self._open_until = None
            self._probing = False

    def failed(self, ticket: int, now: float) -> None:
        """The call failed: one more in the row, and a probe opens the breaker anew."""
        if ticket != self._generation or self._limit == 0:
            return
        self._failed += 1
        if self._probing or self._failed >= self._limit:
            self._failed = 0
            self._open_until = now + self._cooldown_s
            self._probing = False
            self._generation += 1

    def released(self, ticket: int) -> None:
        """The call ended without a verdict: a probe leaves its place to the next call. After a report: no effect."""
        if ticket == self._generation:
            self._probing = False
