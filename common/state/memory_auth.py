"""Failed authentication at the control plane, counted in this process's memory."""

from __future__ import annotations

from common.state.administration import AUTH_FAILURES_MAX, AUTH_FAILURES_WINDOW_MS


class AuthFailures:
    """Failed authentication by address, as the times of those that are in the window."""

    def __init__(self) -> None:
        self._times: dict[str, list[int]] = {}

    def count(self, address: str, now_ms: int) -> float:
        """See `AuthFailureStore.count_auth_failure`."""
        wait_s = self.wait(address, now_ms)
        if not wait_s:
            times = self._times.pop(address, [])
            # Whose last failure is longest ago stands first: what is out of the window goes from there.
            while self._times and now_ms - next(iter(self._times.values()))[-1] >= AUTH_FAILURES_WINDOW_MS:
                del self._times[next(iter(self._times))]
            self._times[address] = [*times, now_ms]
        return wait_s

    def wait(self, address: str, now_ms: int) -> float:
        """See `AuthFailureStore.auth_failure_wait`."""
        times = [time for time in self._times.get(address, ()) if abs(now_ms - time) < AUTH_FAILURES_WINDOW_MS]
        if not times:
            self._times.pop(address, None)
            return 0
        self._times[address] = times
        return (min(times) + AUTH_FAILURES_WINDOW_MS - now_ms) / 1000 if len(times) >= AUTH_FAILURES_MAX else 0
