"""How soon a worker that ended is replaced."""

from __future__ import annotations

STEADY_S = 10.0
"""A worker that ran so long is replaced at once: callers wait in its queue. Less may be one crash after another."""
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0


class Restarts:
    """Of one worker's place. A pause doubles with each end that follows its start closely."""

    def __init__(self) -> None:
        self._quick = 0

    def pause_s(self, ran_s: float) -> float:
        """How long to wait now that a worker ended which had run for `ran_s`."""
        if ran_s >= STEADY_S:
            self._quick = 0
            return 0.0
        pause: float = min(FIRST_PAUSE_S * 2**self._quick, LONGEST_PAUSE_S)
        self._quick = min(self._quick + 1, 16)
        return pause
