"""What the shared state tells of itself, as metrics and log lines (§12.1, §12.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from common.telemetry.outage import OutageLog

if TYPE_CHECKING:
    from common.state.watch import OperationResult
    from common.telemetry.log import Log
    from common.telemetry.metrics import Counter, Histogram


class StateInstruments(Protocol):
    """What operations of the state are counted by: `operation` and `result`, and the duration by `operation`."""

    state_operations: Counter
    state_duration: Histogram


class StateMetrics:
    """A `StateWatch`: counts and times operations, and logs one line for an outage and one for its end.

    A value that is not ours is logged too, once for each operation that meets one: it is a sign of two programs on one
    prefix, or of a damaged store, and the counter says how often.
    """

    def __init__(self, metrics: StateInstruments, log: Log, backend: str) -> None:
        self._metrics = metrics
        self._log = log
        self._backend = backend
        self._outage = OutageLog(
            log,
            gone=f"the shared state on {backend} does not answer; callers who need it are denied",
            back=f"the shared state on {backend} answers",
        )
        self._met: set[str] = set()

    def operation(self, name: str, result: OperationResult, seconds: float) -> None:
        """See `StateWatch`."""
        self._metrics.state_operations.inc(name, result)
        self._metrics.state_duration.observe(seconds, name)
        if result == "foreign" and name not in self._met:
            self._met.add(name)
            self._log.error(
                "the shared state holds a value that this software did not write; it counts as absent",
                operation=name,
                backend=self._backend,
            )

    def went_down(self, cause: str) -> None:
        """See `StateWatch`."""
        self._outage.failed(cause)

    def came_back(self) -> None:
        """See `StateWatch`."""
        self._outage.answered()
