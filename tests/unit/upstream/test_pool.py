"""Which idle connections are kept, and for how long."""

from __future__ import annotations

from typing import cast

from common.routetable.compiled import Upstream
from dataplane.net.timers import TimerWheel
from dataplane.upstream.connection import UpstreamConnection
from dataplane.upstream.pool import UpstreamPool

UPSTREAM = Upstream.__new__(Upstream)
object.__setattr__(UPSTREAM, "origin", "http://app:80")


class Idle:
    """A connection whose exchange ended, as the pool sees it."""

    def __init__(self) -> None:
        self.origin = "http://app:80"
        self.idle_since = 0.0
        self.alive = True
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


class Pool:
    """A pool of at most three for thirty seconds, and its clock."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.wheel = TimerWheel(lambda: self.now_s)
        self.pool = UpstreamPool(self.wheel, max_idle=3, idle_s=30.0)

    def give(self, count: int) -> list[Idle]:
        given = [Idle() for _ in range(count)]
        for one in given:
            self.pool.give_back(cast(UpstreamConnection, one))
        return given

    def take(self) -> object:
        return self.pool.take(UPSTREAM)

    def wait(self, seconds: float) -> None:
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.now_s += 0.1
            self.wheel.run_due()


def test_a_burst_beyond_the_bound_serves_the_next_burst() -> None:
    """Closed at once, the requests that follow would each have to dial."""
    it = Pool()
    given = it.give(10)
    it.wait(0.5)
    assert [it.take() for _ in range(10)] == given[::-1]
    assert not any(each.aborted for each in given)


def test_what_nobody_took_is_closed_down_to_the_bound_the_oldest_first() -> None:
    it = Pool()
    given = it.give(10)
    it.wait(2.5)
    assert [each.aborted for each in given] == [True] * 7 + [False] * 3


def test_those_within_the_bound_stay_for_their_idle_time() -> None:
    it = Pool()
    given = it.give(3)
    it.wait(29.0)
    assert not any(each.aborted for each in given)
    it.wait(3.0)
    assert all(each.aborted for each in given)
    assert it.take() is None


def test_one_that_was_given_back_again_is_the_newest() -> None:
    it = Pool()
    first, *_ = given = it.give(4)
    for _ in range(4):
        it.take()
    for one in (*given[1:], first):
        it.pool.give_back(cast(UpstreamConnection, one))
    it.wait(2.5)
    assert [each.aborted for each in given] == [False, True, False, False]


def test_one_that_the_upstream_closed_is_neither_kept_nor_handed_out() -> None:
    it = Pool()
    given = it.give(2)
    given[1].alive = False
    assert it.take() is given[0]
    assert given[1].aborted
