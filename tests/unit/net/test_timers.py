"""Budgets: never early, at most a tick late, and cheap to move."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.net.timers import TICK_S, TimerWheel


class ManualClock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_a_timer_fires_once_and_not_early(clock: ManualClock) -> None:
    wheel = TimerWheel(clock)
    fired: list[float] = []
    wheel.timer().set(1.0, lambda: fired.append(clock.now))
    clock.now = 1000.99
    wheel.run_due()
    assert fired == []
    clock.now = 1001.0 + TICK_S
    wheel.run_due()
    wheel.run_due()
    assert fired == [1001.0 + TICK_S]


def test_a_budget_that_is_extended_on_every_chunk_fires_only_after_silence(clock: ManualClock) -> None:
    wheel = TimerWheel(clock)
    fired: list[float] = []
    timer = wheel.timer()
    timer.set(1.0, lambda: fired.append(clock.now))
    for _ in range(50):
        clock.now += 0.5
        timer.extend(1.0)
        wheel.run_due()
    assert fired == []
    clock.now += 1.0 + TICK_S
    wheel.run_due()
    assert len(fired) == 1


def test_a_long_budget_that_is_followed_by_a_short_one_fires_by_the_short_one(clock: ManualClock) -> None:
    wheel = TimerWheel(clock)
    fired: list[float] = []
    timer = wheel.timer()
    timer.set(30.0, lambda: fired.append(clock.now))
    timer.extend(1.0)
    clock.now += 0.99
    wheel.run_due()
    assert fired == []
    clock.now = 1001.0 + TICK_S
    wheel.run_due()
    assert fired == [1001.0 + TICK_S]
    clock.now += 30.0
    wheel.run_due()
    assert len(fired) == 1
    timer.extend(1.0)
    clock.now += 2.0
    wheel.run_due()
    assert len(fired) == 1


def test_a_cancelled_timer_never_fires_and_may_be_set_again(clock: ManualClock) -> None:
    wheel = TimerWheel(clock)
    fired: list[str] = []
    timer = wheel.timer()
    timer.set(1.0, lambda: fired.append("first"))
    timer.cancel()
    timer.set(2.0, lambda: fired.append("second"))
    clock.now += 1.5
    wheel.run_due()
    assert fired == []
    clock.now += 1.0
    wheel.run_due()
    assert fired == ["second"]


def test_a_timer_may_be_moved_to_an_earlier_time(clock: ManualClock) -> None:
    wheel = TimerWheel(clock)
    fired: list[str] = []
    timer = wheel.timer()
    timer.set(60.0, lambda: fired.append("late"))
    timer.set(1.0, lambda: fired.append("early"))
    clock.now += 1.0 + TICK_S
    wheel.run_due()
    assert fired == ["early"]
    clock.now += 100.0
    wheel.run_due()
    assert fired == ["early"]


async def test_a_callback_that_raises_does_not_stop_the_others(clock: ManualClock) -> None:
    import asyncio

    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    wheel = TimerWheel(clock)
    fired: list[str] = []

    def broken() -> None:
        raise ValueError("broken")

    wheel.timer().set(1.0, broken)
    wheel.timer().set(1.0, lambda: fired.append("next"))
    clock.now += 2.0
    wheel.run_due()
    assert fired == ["next"]
    assert len(reported) == 1


@given(
    st.lists(
        st.tuples(st.sampled_from(["set", "extend", "cancel", "tick"]), st.floats(0.0, 20.0, allow_nan=False)),
        max_size=60,
    )
)
def test_any_use_fires_when_a_plain_deadline_would(actions: list[tuple[str, float]]) -> None:
    """The wheel agrees with a variable that holds the deadline, to one tick."""
    clock = ManualClock()
    wheel = TimerWheel(clock)
    fired: list[float] = []
    timer = wheel.timer()
    deadline: float | None = None
    for action, seconds in actions:
        if action == "set":
            timer.set(seconds, lambda: fired.append(clock.now))
            deadline = clock.now + seconds
        elif action == "extend" and deadline is not None:
            timer.extend(seconds)
            deadline = max(clock.now + seconds, deadline) if seconds >= deadline - clock.now else clock.now + seconds
            if timer.at < deadline:
                deadline = timer.at
        elif action == "cancel":
            timer.cancel()
            deadline = None
        else:
            clock.now += seconds
            before = len(fired)
            wheel.run_due()
            if len(fired) > before:
                assert deadline is not None
                assert deadline <= clock.now
                deadline = None
    if deadline is not None:
        clock.now = max(clock.now, deadline) + 21.0 + TICK_S
        before = len(fired)
        wheel.run_due()
        assert len(fired) == before + 1
