"""The numbers of all workers as one text (§12.1): live ones as they last said, ended ones as far as they counted up."""

from __future__ import annotations

from collections.abc import Mapping

from common.telemetry.metrics import Numbers
from dataplane.metrics import WORKER_END_REASONS, GatewayMetrics


class Totals:
    """Adds up what workers tell of themselves. A counter that was shown never falls, whatever ends or is replaced.

    What a worker that was killed counted since it was last asked is lost: nobody has seen it.
    """

    def __init__(self) -> None:
        # One for every sum, for the bound on routes: one that has a series of its own keeps it.
        self._sum = GatewayMetrics()
        self._live: dict[int, Numbers] = {}
        self._ended: Numbers = {}
        self._ends = dict.fromkeys(WORKER_END_REASONS, 0)

    def tell(self, worker: int, numbers: Numbers) -> None:
        """What a worker says now replaces what it said before."""
        self._live[worker] = numbers

    def end(self, worker: int) -> None:
        """A worker has ended: what it counted stays, its gauges go."""
        numbers = self._live.pop(worker, None)
        if numbers is not None:
            registry = self._sum.registry
            registry.clear()
            registry.absorb(self._ended)
            registry.absorb(numbers)
            self._ended = registry.dump_rising()

    def count_end(self, reason: str) -> None:
        """Count a worker that ended by itself; `reason` is one of `WORKER_END_REASONS`."""
        self._ends[reason] += 1

    def render(self, states: Mapping[str, int]) -> bytes:
        """The Prometheus text of all together. `states` says how many workers are in which."""
        registry = self._sum.registry
        registry.clear()
        registry.absorb(self._ended)
        for numbers in self._live.values():
            registry.absorb(numbers)
        self._sum.workers.absorb([((state,), count) for state, count in states.items()])
        self._sum.worker_ends.absorb([((reason,), count) for reason, count in self._ends.items()])
        return registry.render()
