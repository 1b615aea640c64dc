"""A clock that a test moves, for a gateway that runs in the test's own loop."""

from __future__ import annotations

from tests.support.gateway import Running


class ManualClock:
    """Monotonic seconds that pass when a test lets them: `running(…, clock=clock)`."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def stop_ticking(gw: Running) -> None:
    """From now on no timer runs but in `pass_time`: what happens without it happens at once."""
    gw.gateway.wheel.stop()


def pass_time(gw: Running, clock: ManualClock, seconds: float) -> None:
    """Let time pass for the gateway's budgets, at most a second at a time."""
    until_s = clock.now_s + seconds
    while clock.now_s < until_s:
        clock.now_s = min(clock.now_s + 1.0, until_s)
        gw.gateway.wheel.run_due()
