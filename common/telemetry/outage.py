"""A dependency that goes away and comes back, in two log lines however many requests meet it meanwhile (§9, §12.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from common.telemetry.log import Log


class OutageLog:
    """Logs the first failure of an outage and the first answer after it. Failures are told by their cause alone."""

    __slots__ = ("_back", "_gone", "_log", "down")

    def __init__(self, log: Log, *, gone: str, back: str) -> None:
        self._log = log
        self._gone = gone
        self._back = back
        self.down = False

    def failed(self, cause: str) -> None:
        """Something was asked and did not answer."""
        if not self.down:
            self.down = True
            self._log.warning(self._gone, error=cause)

    def answered(self) -> None:
        """It answered."""
        if self.down:
            self.down = False
            self._log.info(self._back)
