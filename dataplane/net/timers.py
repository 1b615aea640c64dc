"""One coarse timer wheel for every budget: setting, moving and cancelling a timer are attribute writes.

A timer fires at most one tick late and never early. A budget that is pushed back again and again (idle budgets, once a
chunk) costs nothing: its entry is looked at when its old slot comes up, and moved on.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

TICK_S = 0.1
NEVER = math.inf


class Timer:
    """One budget at a time: `set` starts or moves it, `cancel` stops it; it may be set again after either."""

    __slots__ = ("_from", "_slot", "_wheel", "at", "callback")

    def __init__(self, wheel: TimerWheel) -> None:
        self._wheel = wheel
        self._slot = -1
        self._from = NEVER  # its entry is looked at in time for whatever is due from then on
        self.at = NEVER
        self.callback: Callable[[], None] | None = None

    def set(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call `callback` once when `seconds` have passed, in place of what was set before."""
        self.callback = callback
        self.at = at = self._wheel.clock() + seconds
        if at < self._from:
            self._wheel.place(self)

    def extend(self, seconds: float) -> None:
        """Move a running timer to `seconds` from now, keeping its callback."""
        self.at = at = self._wheel.clock() + seconds
        if at < self._from:  # to an earlier time: what follows a long budget may be a short one
            self._wheel.place(self)

    def cancel(self) -> None:
        """Stop it; nothing happens when it is not running."""
        self.at = NEVER
        self.callback = None

    @property
    def running(self) -> bool:
        return self.callback is not None


class TimerWheel:
    """Timers by slots of one tick. `run_due` is plain; `start` lets the running loop call it once a tick."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._slots: dict[int, list[Timer]] = {}
        self._next = int(clock() / TICK_S)
        self._handle: asyncio.TimerHandle | None = None

    def timer(self) -> Timer:
        return Timer(self)

    def place(self, timer: Timer) -> None:
        """Look at the timer in the slot behind its time."""
        slot = max(int(timer.at / TICK_S) + 1, self._next)
        timer._slot = slot
        timer._from = (slot - 1) * TICK_S
        entries = self._slots.get(slot)
        if entries is None:
            self._slots[slot] = [timer]
        else:
            entries.append(timer)

    def run_due(self) -> None:
        """Fire every timer whose time has come. A callback that raises is the loop's to report; the rest still run."""
        now = self.clock()
        last = int(now / TICK_S)
        while self._next <= last:
            slot = self._next
            self._next += 1
            for timer in self._slots.pop(slot, ()):
                if timer._slot == slot:
                    self._visit(timer, now)

    def _visit(self, timer: Timer, now: float) -> None:
        timer._slot = -1
        timer._from = NEVER
        callback = timer.callback
        if callback is None:
            return
        if timer.at > now:
            self.place(timer)
            return
        timer.cancel()
        try:
            callback()
        except Exception as error:  # noqa: BLE001 (one broken budget must not stop the others)
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a timer's callback failed", "exception": error}
            )

    def start(self) -> None:
        """Tick on the running loop until `stop`."""
        if self._handle is None:
            self._tick()

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _tick(self) -> None:
        self._handle = asyncio.get_running_loop().call_later(TICK_S, self._tick)
        self.run_due()
