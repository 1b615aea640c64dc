"""Budgets of requests (§9): the port that counts them, the sliding window, and a table of windows.

    steps -> BudgetStore.check_budgets(up to four) -> one result each
                └── BudgetTable: key -> window, in this process

A window of `window_ms` is counted in buckets of `bucket_ms`. Bucket `n` covers `[n * bucket_ms, (n + 1) * bucket_ms)`
of the store's clock, so whoever shares the clock counts in the same buckets. A request stays counted until its whole
bucket has left the window; that is up to one bucket longer than `window_ms`, never shorter, and this is why no
`window_ms` anywhere on the time line holds more than the limit.

Concurrency: a check is one plain call on the loop's thread; nothing comes between the budgets of one check. Failure:
the table cannot fail. It holds a bounded number of keys, and gives no key up while requests are counted in it.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from common.ready import Ready

MAX_BUDGETS = 4
"""Budgets of one check: one request meets no more (§9)."""
MAX_BUCKETS = 60
"""Buckets that a window spans: what one key may cost in memory and in a walk over its buckets (§9)."""
MAX_KEYS = 10_000
"""Keys of a table (§9)."""


class BudgetCheck(NamedTuple):
    """One budget of a check: at most `max_requests` (1 or more) of `key` in any `window_ms`.

    The counted window belongs to `key`, `window_ms` and `bucket_ms` together: a limit may change while its requests
    stay counted, but under another window they are counted anew.
    """

    key: str
    max_requests: int
    window_ms: int
    bucket_ms: int


class BudgetResult(NamedTuple):
    """What a budget says. `remaining` is what it has left after this request.

    `retry_after_ms` is 0 for a request that was allowed, else when the count falls below the limit. `reset_ms` is how
    long no more than `remaining` is left: until the oldest counted bucket leaves the window; for a refused request it
    is `retry_after_ms`.
    """

    allowed: bool
    remaining: int
    retry_after_ms: int
    reset_ms: int


class BudgetStore(Protocol):
    """Counts requests against budgets."""

    def check_budgets(self, checks: Sequence[BudgetCheck]) -> Awaitable[Sequence[BudgetResult]]:
        """Count one request against up to `MAX_BUDGETS` budgets; one result each, in their order.

        The budgets are independent: each counts the request unless that very budget refuses it, whatever the others
        say. So a request that any of them refuses was still made, for the others, and a caller that goes on asking
        after a refusal does not push its own window further out.

        One operation of the server, by the server's clock: two replicas that check one key at the same time see one
        order, and together stay within the limit. Raises `StateUnavailable` when the server does not answer within
        its budget (it may have counted by then: the error is on the safe side), and `ValueError` for more budgets or
        buckets than the bounds above.
        """
        ...


WIDTHS = (8, 15, 30)
"""Bits in which a bucket's count is kept: the least that hold the whole window's."""
MAX_COUNT = (1 << WIDTHS[-1]) - 2
"""The highest limit a window can count to; a higher one is counted as this."""


class WindowShape(NamedTuple):
    """A window's arithmetic. A request counts from its own bucket to the one before `lasts` buckets later.

    `masks` are those of `lasts` buckets, by width.
    """

    window_ms: int
    bucket_ms: int
    lasts: int
    masks: tuple[int, ...]


def window_shape(window_ms: int, bucket_ms: int) -> WindowShape:
    """The shape of a window; `ValueError` when it is empty or holds more than `MAX_BUCKETS` buckets."""
    if window_ms < 1 or bucket_ms < 1:
        raise ValueError(f"a window of {window_ms} ms in buckets of {bucket_ms} ms is no window")
    # A window that is no multiple of its buckets rounds up: counted a little longer rather than too short.
    buckets = -(-window_ms // bucket_ms)
    if buckets > MAX_BUCKETS:
        raise ValueError(f"a window of {window_ms} ms holds more than {MAX_BUCKETS} buckets of {bucket_ms} ms")
    # One more than the window holds: it begins inside a bucket and ends inside another.
    lasts = buckets + 1
    return WindowShape(window_ms, bucket_ms, lasts, tuple((1 << lasts * bits) - 1 for bits in WIDTHS))


# Packed counts are one integer of so many bits a bucket, the newest lowest. To slide the window is a shift, what left
# it is masked off, and the oldest counted bucket is where the highest bit is.


def packed_total(counts: int, bits: int) -> int:
    """The requests in packed counts: right for fewer than 2^bits - 1.

    The digits of a number to base 2^bits add up to the number modulo 2^bits - 1, as with casting out nines to base 10.
    """
    return counts % ((1 << bits) - 1)


def packed_age(counts: int, bits: int) -> int:
    """How many buckets before the newest the oldest counted one is; -1 for no counts."""
    return (counts.bit_length() + bits - 1) // bits - 1


def packed_wider(counts: int, bits: int, wider: int) -> int:
    """The same counts in wider fields."""
    field = (1 << bits) - 1
    return sum(((counts >> n * bits) & field) << n * wider for n in range(packed_age(counts, bits) + 1))


def buckets_until_below(counts: int, bits: int, limit: int, shape: WindowShape) -> int:
    """After how many buckets fewer than `limit` of the counted requests are left, when no other comes."""
    left = packed_total(counts, bits)
    age = -1
    while counts and left >= limit:
        age = packed_age(counts, bits)
        left -= counts >> age * bits
        counts &= (1 << age * bits) - 1
    return shape.lasts - age


class Window:
    """The requests of one key, by bucket.

    `newest` is the bucket of its last request; `stays` is for how many buckets from it the oldest counted one remains,
    and `used` how many are counted. `older` are the packed counts before the newest bucket; what the newest holds is
    what is missing to `used`. So a request in the same bucket as the one before it, the common case, changes one small
    number. `width` is that of `older`, a place in `WIDTHS`: a table is mostly of callers who ask for little.
    """

    __slots__ = ("newest", "older", "stays", "used")
    width = 0

    def __init__(self, newest: int, stays: int, used: int, older: int) -> None:
        self.newest = newest
        self.stays = stays
        self.used = used
        self.older = older

    def counts(self) -> int:
        """The packed counts of the whole window, in fields that hold them from now on."""
        bits = WIDTHS[self.width]
        while self.used >= (1 << bits) - 1:
            self.older = packed_wider(self.older, bits, WIDTHS[self.width + 1])
            self.__class__ = _BY_WIDTH[self.width + 1]
            bits = WIDTHS[self.width]
        return self.older + self.used - packed_total(self.older, bits)

    def slide(self, bucket: int, shape: WindowShape) -> None:
        """Move to a later bucket; what has left the window is counted no more."""
        passed = bucket - self.newest
        self.newest = bucket
        # Compared first: a clock may leap by years, and a shift by that would make a number of gigabytes.
        if passed >= shape.lasts:
            self.__class__ = Window
            self.older, self.used, self.stays = 0, 0, shape.lasts
            return
        counts = self.counts()
        bits = WIDTHS[self.width]
        self.older = older = (counts << passed * bits) & shape.masks[self.width]
        self.used = packed_total(older, bits)
        self.stays = shape.lasts - packed_age(older, bits) if older else shape.lasts

    def copy(self) -> Window:
        return self.__class__(self.newest, self.stays, self.used, self.older)


class _Wide(Window):
    __slots__ = ()
    width = 1


class _Widest(Window):
    __slots__ = ()
    width = 2


_BY_WIDTH: tuple[type[Window], ...] = (Window, _Wide, _Widest)


def monotonic_ms() -> int:
    """The clock of a table: milliseconds that only rise."""
    return time.monotonic_ns() // 1_000_000


# A result a budget and request: this makes one in half the time of the class's own constructor.
_result: Callable[[tuple[bool, int, int, int]], BudgetResult] = partial(tuple.__new__, BudgetResult)


class _Pool:
    """The windows of one shape, those whose last request is longest ago first: in the order in which they end."""

    __slots__ = ("bucket", "shape", "shared", "windows")

    def __init__(self, shape: WindowShape) -> None:
        self.shape = shape
        self.bucket = -1
        self.windows: OrderedDict[str, Window] = OrderedDict()
        self.shared: dict[int, Window] = {}
        """By limit: where requests are counted whose key finds no room."""

    def same(self, bucket: int) -> int:
        """The bucket as one object for all windows that it is the newest of."""
        if bucket != self.bucket:
            self.bucket = bucket
        return self.bucket

    def drop_ended(self, now_ms: int, at_most: int) -> int:
        """Drop windows in which nothing can be counted any more, `at_most` so many; how many there were."""
        windows = self.windows
        ended = now_ms // self.shape.bucket_ms - self.shape.lasts
        for dropped in range(at_most):
            first = next(iter(windows), None)
            if first is None or windows[first].newest > ended:
                return dropped
            del windows[first]
        return at_most


class BudgetTable:
    """Budgets counted in this process: a `BudgetStore` of at most `max_keys` keys.

    A key leaves the table when its window has ended and never to make room: a caller that sprays keys would otherwise
    get its own budget back. When there is no room, requests of new keys are counted together, in one window for each
    limit and shape, so all of them together have one budget. A key that finds room afterwards starts with what that
    window holds: its own earlier requests are among them.

    `now_ms` is meant to be monotonic. Should it step back, time stands still until it has caught up, so no step of the
    clock returns a budget early.
    """

    def __init__(self, now_ms: Callable[[], int] = monotonic_ms, *, max_keys: int = MAX_KEYS) -> None:
        self._now_ms = now_ms
        self._latest_ms = 0
        self._max_keys = max_keys
        self._keys = 0
        self._pools: dict[tuple[int, int], _Pool] = {}

    def __len__(self) -> int:
        """Keys in the table, those included whose window ended and that no request has swept out yet."""
        return self._keys

    def check_budgets(self, checks: Sequence[BudgetCheck]) -> Ready[Sequence[BudgetResult]]:
        """See `BudgetStore`; never raises `StateUnavailable`."""
        if len(checks) > MAX_BUDGETS:
            raise ValueError(f"{len(checks)} budgets in one check, of at most {MAX_BUDGETS}")
        now_ms = self._now_ms()
        if now_ms < self._latest_ms:
            now_ms = self._latest_ms
        else:
            self._latest_ms = now_ms
        results: list[BudgetResult] = []
        for key, limit, window_ms, bucket_ms in checks:
            if limit > MAX_COUNT:
                limit = MAX_COUNT
            pool = self._pools.get((window_ms, bucket_ms)) or self._new_pool(window_ms, bucket_ms)
            bucket = now_ms // bucket_ms
            window = pool.windows.get(key)
            if window is None:
                window = self._new_window(pool, key, limit, now_ms)
            elif window.newest != bucket:
                window.slide(pool.same(bucket), pool.shape)
                pool.windows.move_to_end(key)
            used = window.used
            if used < limit:
                window.used = used + 1
                leaves_ms = (bucket + window.stays) * bucket_ms - now_ms
                results.append(_result((True, limit - used - 1, 0, leaves_ms)))
            else:
                results.append(_refused(window, limit, pool.shape, now_ms))
        return Ready((results,))

    def _new_window(self, pool: _Pool, key: str, limit: int, now_ms: int) -> Window:
        """The window of a key that is not in the table: its own where there is room, else the shared one."""
        bucket = pool.same(now_ms // pool.shape.bucket_ms)
        shared = pool.shared.get(limit)
        if shared is not None and shared.newest != bucket:
            shared.slide(bucket, pool.shape)
        if self._makes_room(pool, now_ms):
            own = shared.copy() if shared is not None else Window(bucket, pool.shape.lasts, 0, 0)
            pool.windows[key] = own
            self._keys += 1
            return own
        if shared is None:
            shared = pool.shared[limit] = Window(bucket, pool.shape.lasts, 0, 0)
        return shared

    def _makes_room(self, pool: _Pool, now_ms: int) -> bool:
        # Two for the one that comes: ended keys go faster than new ones arrive, and no request pays for all of them.
        self._keys -= pool.drop_ended(now_ms, 2)
        if self._keys < self._max_keys:
            return True
        # Pools are as many as there are different windows in the configuration.
        for other in self._pools.values():
            if other.drop_ended(now_ms, 1):
                self._keys -= 1
                return True
        return False

    def _new_pool(self, window_ms: int, bucket_ms: int) -> _Pool:
        shape = window_shape(window_ms, bucket_ms)
        # A new shape comes with a new configuration: the moment to forget those that hold nothing any more.
        for unused in [each for each, pool in self._pools.items() if not pool.windows and not pool.shared]:
            del self._pools[unused]
        pool = self._pools[window_ms, bucket_ms] = _Pool(shape)
        return pool


def _refused(window: Window, limit: int, shape: WindowShape, now_ms: int) -> BudgetResult:
    if window.used == limit:
        buckets = window.stays
    else:  # The limit was lowered since.
        counts = window.counts()
        buckets = buckets_until_below(counts, WIDTHS[window.width], limit, shape)
    wait_ms = (window.newest + buckets) * shape.bucket_ms - now_ms
    return _result((False, 0, wait_ms, wait_ms))
