"""The window and its table against a plain list of requests, under any interleaving, clock step and bucket size."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from common.state.budgets import BudgetCheck, BudgetResult, BudgetTable
from tests.support.limits import ManualClock, check_now

SHAPES = st.one_of(
    st.sampled_from([(60_000, 1_000), (1_000, 1_000), (1, 1), (60, 1), (10_000, 200), (1_500, 1_000), (7, 3)]),
    st.integers(1, 2_000).flatmap(
        lambda bucket_ms: st.tuples(st.integers(1, bucket_ms * 60), st.just(bucket_ms)),
    ),
)


@dataclass
class Listed:
    """The plain list: when each request was counted, rounded to its bucket."""

    window_ms: int
    bucket_ms: int
    times: list[int] = field(default_factory=list)

    def leaves_at(self, time_ms: int) -> int:
        """The first bucket's begin at which nothing of the request's bucket is in the window any more."""
        bucket_ends = (time_ms // self.bucket_ms + 1) * self.bucket_ms
        return -(-(bucket_ends + self.window_ms) // self.bucket_ms) * self.bucket_ms

    def counted(self, now_ms: int) -> int:
        return sum(1 for time_ms in self.times if self.leaves_at(time_ms) > now_ms)

    def check(self, limit: int, now_ms: int) -> BudgetResult:
        used = self.counted(now_ms)
        if used < limit:
            self.times.append(now_ms)
            return BudgetResult(True, limit - used - 1, 0, min(self._leaving(now_ms)) - now_ms)
        wait_ms = next(at for at in sorted(self._leaving(now_ms)) if self.counted(at) < limit) - now_ms
        return BudgetResult(False, 0, wait_ms, wait_ms)

    def _leaving(self, now_ms: int) -> list[int]:
        return [at for at in map(self.leaves_at, self.times) if at > now_ms]


def most_in_any_window(times: list[int], window_ms: int) -> int:
    """The most of these (rising) times that lie in any `window_ms`: every fullest window ends with one of them."""
    return max(
        (sum(1 for other in times[: place + 1] if now - other < window_ms) for place, now in enumerate(times)),
        default=0,
    )


def steps_of(shape: tuple[int, int]) -> st.SearchStrategy[int]:
    """Clock steps that matter to a shape: within a bucket, across few, to the edge of the window, and back."""
    window_ms, bucket_ms = shape
    return st.one_of(
        st.just(0),
        st.integers(0, bucket_ms),
        st.integers(0, window_ms + 2 * bucket_ms),
        st.integers(-window_ms - bucket_ms, 0),
        st.sampled_from([bucket_ms - 1, bucket_ms, window_ms - 1, window_ms, window_ms + bucket_ms, 10**12, -(10**12)]),
    )


@st.composite
def histories(draw: st.DrawFn, keys: int) -> tuple[tuple[int, int], list[tuple[int, int, int]]]:
    """A shape, and requests: clock step, key, limit."""
    shape = draw(SHAPES)
    request = st.tuples(steps_of(shape), st.integers(0, keys - 1), st.integers(1, 6))
    return shape, draw(st.lists(request, min_size=1, max_size=60))


@given(histories(keys=3), st.integers(0, 10**13))
@settings(max_examples=400, deadline=None)
def test_the_answers_are_those_of_a_plain_list(
    history: tuple[tuple[int, int], list[tuple[int, int, int]]], start_ms: int
) -> None:
    shape, requests = history
    clock, latest_ms = ManualClock(start_ms), 0
    table = BudgetTable(clock)
    lists = {key: Listed(*shape) for key in range(3)}
    for step_ms, key, limit in requests:
        clock.now_ms = max(0, clock.now_ms + step_ms)
        latest_ms = max(latest_ms, clock.now_ms)
        [result] = check_now(table, BudgetCheck(f"k{key}", limit, *shape))
        assert result == lists[key].check(limit, latest_ms)


@given(histories(keys=8), st.integers(1, 6), st.integers(1, 4))
@settings(max_examples=400, deadline=None)
def test_no_window_ever_holds_more_than_the_limit_in_a_table_of_any_size(
    history: tuple[tuple[int, int], list[tuple[int, int, int]]], limit: int, max_keys: int
) -> None:
    """The guarantee holds for each key however many others there are: spraying keys frees no budget."""
    shape, requests = history
    clock, latest_ms = ManualClock(), 0
    table = BudgetTable(clock, max_keys=max_keys)
    counted: dict[int, list[int]] = {}
    for step_ms, key, _ in requests:
        clock.now_ms = max(0, clock.now_ms + step_ms)
        latest_ms = max(latest_ms, clock.now_ms)
        if check_now(table, BudgetCheck(f"k{key}", limit, *shape))[0].allowed:
            counted.setdefault(key, []).append(latest_ms)
        assert len(table) <= max_keys
    for times in counted.values():
        assert most_in_any_window(times, shape[0]) <= limit


@given(
    SHAPES.flatmap(
        lambda shape: st.tuples(
            st.just(shape),
            st.lists(st.tuples(steps_of(shape), st.lists(st.integers(0, 5), max_size=4, unique=True)), max_size=40),
        )
    ),
    st.lists(st.integers(1, 5), min_size=6, max_size=6),
)
@settings(max_examples=200, deadline=None)
def test_budgets_that_are_checked_together_answer_as_if_alone(
    history: tuple[tuple[int, int], list[tuple[int, list[int]]]], limits: list[int]
) -> None:
    shape, requests = history
    clock = ManualClock()
    together, alone = BudgetTable(clock), [BudgetTable(clock) for _ in limits]
    checks = [BudgetCheck(f"k{n}", limit, *shape) for n, limit in enumerate(limits)]
    for step_ms, keys in requests:
        clock.now_ms = max(clock.now_ms, clock.now_ms + step_ms)
        results = check_now(together, *(checks[key] for key in keys))
        assert results == [check_now(alone[key], checks[key])[0] for key in keys]


@given(
    st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 40), st.booleans()), max_size=120),
    st.integers(1, 5),
)
@settings(max_examples=200, deadline=None)
def test_different_windows_in_one_table_never_mix(requests: list[tuple[int, int, bool]], limit: int) -> None:
    """Keys of two shapes compete for the same few places; each still keeps its limit."""
    shapes = ((60_000, 1_000), (5_000, 500))
    clock = ManualClock()
    table = BudgetTable(clock, max_keys=5)
    counted: dict[tuple[int, bool], list[int]] = {}
    for step_ms, key, which in requests:
        clock.now_ms += step_ms
        if check_now(table, BudgetCheck(f"k{key}", limit, *shapes[which]))[0].allowed:
            counted.setdefault((key, which), []).append(clock.now_ms)
        assert len(table) <= 5
    for (_, which), times in counted.items():
        assert most_in_any_window(times, shapes[which][0]) <= limit
