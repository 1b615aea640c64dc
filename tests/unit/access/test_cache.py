"""Kept decisions: bounds, age, and which of two answers wins."""

from __future__ import annotations

import pytest

from dataplane.access.cache import DecisionCache, Kept, is_fresh, may_bridge
from dataplane.access.protocol import AccessDecision

ALLOW = AccessDecision(True)
DENY = AccessDecision(False, "access_denied")


def kept(decision: AccessDecision = ALLOW, *, at: float = 0.0, order: int = 1, keep_s: float = 10.0) -> Kept:
    return Kept(decision, at, order, at + keep_s)


@pytest.mark.parametrize(
    ("age_s", "ttl_ms", "fresh"), [(0, 1, True), (0.999, 1000, True), (1.0, 1000, False), (0, 0, False), (5, 0, False)]
)
def test_a_decision_is_fresh_below_its_lifetime_and_never_with_none(age_s: float, ttl_ms: int, fresh: bool) -> None:
    assert is_fresh(kept(at=100.0), 100.0 + age_s, ttl_ms) is fresh


def test_only_an_allow_bridges_and_only_below_lifetime_and_grace_together() -> None:
    assert may_bridge(kept(at=0), 2.999, 1_000, 2_000)
    assert not may_bridge(kept(at=0), 3.0, 1_000, 2_000)
    assert not may_bridge(kept(DENY, at=0), 0.0, 1_000, 2_000)
    assert not may_bridge(kept(at=0), 0.0, 0, 0)


def test_it_never_holds_more_than_its_bound_and_drops_the_oldest_writing() -> None:
    cache = DecisionCache(3)
    for number in range(10):
        cache.put(b"%d" % number, kept(), 0.0)
        assert len(cache) <= 3
    assert cache.get(b"6") is None
    assert [cache.get(b"%d" % number) is not None for number in (7, 8, 9)] == [True, True, True]


def test_a_bound_of_zero_keeps_nothing() -> None:
    cache = DecisionCache(0)
    cache.put(b"k", kept(), 0.0)
    assert cache.get(b"k") is None


def test_writing_again_moves_a_decision_behind_the_others() -> None:
    cache = DecisionCache(2)
    cache.put(b"a", kept(), 0.0)
    cache.put(b"b", kept(), 0.0)
    cache.put(b"a", kept(order=2), 0.0)
    cache.put(b"c", kept(), 0.0)
    assert cache.get(b"b") is None
    assert cache.get(b"a") is not None


def test_what_is_over_is_dropped_as_others_are_written() -> None:
    cache = DecisionCache(1_000)
    for number in range(100):
        cache.put(b"old%d" % number, kept(keep_s=1.0), 0.0)
    for number in range(100):
        cache.put(b"new%d" % number, kept(at=5.0), 5.0)
    assert len(cache) == 100


def test_an_answer_to_an_earlier_question_never_replaces_one_to_a_later() -> None:
    cache = DecisionCache(10)
    cache.put(b"k", kept(DENY, order=2), 0.0)
    cache.put(b"k", kept(ALLOW, order=1), 0.0)
    found = cache.get(b"k")
    assert found is not None
    assert found.decision is DENY


def test_a_decision_that_may_not_be_kept_still_ends_the_one_before() -> None:
    cache = DecisionCache(10)
    cache.put(b"k", kept(ALLOW, order=1), 0.0)
    cache.put(b"k", kept(DENY, order=2, keep_s=0.0), 0.0)
    assert cache.get(b"k") is None
