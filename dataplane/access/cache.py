"""Decisions of Access kept in the process, and the rules of how long one may serve (§6, §6.2)."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from dataplane.access.protocol import AccessDecision


@dataclass(slots=True)
class Kept:
    """An explicit decision. `asked_at` is when its question was sent, in monotonic seconds: its age counts from there,
    so a change at Access is felt at most one lifetime later, however slow the answer was. `order` rises with the
    questions of this process; one of another process has 0.
    """

    decision: AccessDecision
    asked_at: float
    order: int
    keep_until: float


def is_fresh(kept: Kept, now: float, ttl_ms: int) -> bool:
    """Whether the decision may answer instead of Access. A lifetime of 0 never lets it."""
    return (now - kept.asked_at) * 1000 < ttl_ms


def may_bridge(kept: Kept, now: float, ttl_ms: int, grace_ms: int) -> bool:
    """Whether the decision may answer while Access cannot: only an allow, only within lifetime and grace together."""
    return kept.decision.allow and (now - kept.asked_at) * 1000 < ttl_ms + grace_ms


class DecisionCache:
    """At most `max_entries` decisions by key; 0 keeps none. The decision that was written first goes first."""

    __slots__ = ("_entries", "_max")

    _SWEEP = 2
    """Expired decisions dropped a write: more than one written, so the dead never outgrow the living."""

    def __init__(self, max_entries: int) -> None:
        self._max = max_entries
        # Of a plain dict the first entry is found only behind the places of all that were dropped: in a large cache,
        # that takes tens of microseconds.
        self._entries: OrderedDict[bytes, Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: bytes) -> Kept | None:
        """What is kept, of any age: `is_fresh` and `may_bridge` judge it."""
        return self._entries.get(key)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()

    def put(self, key: bytes, kept: Kept, now: float) -> None:
        """Keep a decision until its `keep_until`, unless one is there whose question was sent later.

        One that is over already (no lifetime and no grace) still takes the place of an older one: after a denial
        nothing may serve the allow before it.
        """
        entries = self._entries
        old = entries.get(key)
        if old is not None:
            if (old.asked_at, old.order) > (kept.asked_at, kept.order):
                return
            del entries[key]
        if self._max == 0 or kept.keep_until <= now:
            return
        for _ in range(self._SWEEP):
            oldest = next(iter(entries), None)
            if oldest is None or (len(entries) < self._max and entries[oldest].keep_until > now):
                break
            del entries[oldest]
        entries[key] = kept
