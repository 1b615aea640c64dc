"""Instruments of plain numbers, read by a prometheus_client collector when they are scraped.

Counting costs one dictionary operation, and happens on the loop's thread alone: instruments take no lock.

    request -> counter.inc("app", "GET", 200)        a tuple key into a dict
    scrape  -> Registry.render() -> collectors        the dicts become metric families, in the text format

Labels are bounded by construction. A label's `Bound` maps any value to one of a bounded set. It runs only for a key
that is not known yet, and what it answers is the key that is counted: an odd value never becomes a series.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

LabelValue: TypeAlias = str | int
Key: TypeAlias = tuple[LabelValue, ...]
Bound: TypeAlias = Callable[[LabelValue], LabelValue]

TEXT_CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

DURATION_BUCKETS: tuple[float, ...] = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
"""Seconds; from what the gateway itself adds to the longest response budget that is usual."""


class Instrument(Protocol):
    """What a registry renders."""

    name: str

    def family(self) -> Metric:
        """The values of this moment."""
        ...


class _Labelled:
    """Name, help and the bounded keys of an instrument."""

    def __init__(self, name: str, description: str, labels: Sequence[str], bounds: dict[str, Bound] | None) -> None:
        self.name = name
        self.description = description
        self.labels = tuple(labels)
        self._bounds = tuple((bounds or {}).get(label) for label in self.labels)

    def _key(self, values: Key) -> Key:
        """The key that is counted for these values. A wrong number of them is a programming error: `ValueError`."""
        if len(values) != len(self.labels):
            raise ValueError(f"{self.name} takes the labels {self.labels}, not {len(values)} values")
        return tuple(
            value if bound is None else bound(value) for value, bound in zip(values, self._bounds, strict=True)
        )


class Counter(_Labelled):
    """Counts up. Its name ends with `_total`."""

    def __init__(
        self, name: str, description: str, labels: Sequence[str] = (), *, bounds: dict[str, Bound] | None = None
    ) -> None:
        super().__init__(name, description, labels, bounds)
        self._values: dict[Key, int] = {}
        if not self.labels:
            self._values[()] = 0

    def inc(self, *label_values: LabelValue) -> None:
        """Add 1 to the series of these label values."""
        try:
            self._values[label_values] += 1
        except KeyError:
            key = self._key(label_values)
            self._values[key] = self._values.get(key, 0) + 1

    def start(self, *series: Key) -> None:
        """Show these series as 0 from the start, so that a first event is a rise and not a new series."""
        for values in series:
            self._values.setdefault(self._key(values), 0)

    def value(self, *label_values: LabelValue) -> int:
        """The count of a series; 0 for one that was never counted."""
        return self._values.get(self._key(label_values), 0)

    def family(self) -> Metric:
        family = CounterMetricFamily(self.name, self.description, labels=self.labels)
        for key, value in list(self._values.items()):
            family.add_metric([str(part) for part in key], value)
        return family


class Gauge(_Labelled):
    """A value that goes up and down. Without labels it is 0 until it is set."""

    def __init__(
        self, name: str, description: str, labels: Sequence[str] = (), *, bounds: dict[str, Bound] | None = None
    ) -> None:
        super().__init__(name, description, labels, bounds)
        self._values: dict[Key, int | float] = {}
        self._reader: Callable[[], int | float] | None = None
        if not self.labels:
            self._values[()] = 0

    def set(self, value: int | float, *label_values: LabelValue) -> None:
        """Make the series this value."""
        self._values[label_values if label_values in self._values else self._key(label_values)] = value

    def replace(self, series: Iterable[tuple[Key, float]]) -> None:
        """Make these the only series; the others disappear. How many there are is the caller's to bound."""
        self._values = dict(series)

    def read_from(self, reader: Callable[[], int | float]) -> None:
        """Take the value of a gauge without labels from `reader` at each scrape. `reader` does not raise."""
        self._reader = reader

    def value(self, *label_values: LabelValue) -> int | float:
        """The value of a series; 0 for one that was never set."""
        if self._reader is not None:
            return self._reader()
        return self._values.get(self._key(label_values), 0)

    def family(self) -> Metric:
        family = GaugeMetricFamily(self.name, self.description, labels=self.labels)
        if self._reader is not None:
            family.add_metric([], self._reader())
            return family
        for key, value in list(self._values.items()):
            family.add_metric([str(part) for part in key], value)
        return family


class Histogram(_Labelled):
    """Durations in seconds, in buckets with inclusive upper bounds."""

    def __init__(
        self,
        name: str,
        description: str,
        labels: Sequence[str] = (),
        buckets: Sequence[float] = DURATION_BUCKETS,
        *,
        bounds: dict[str, Bound] | None = None,
    ) -> None:
        super().__init__(name, description, labels, bounds)
        self._uppers = tuple(buckets)
        if list(self._uppers) != sorted(set(self._uppers)):
            raise ValueError(f"the buckets of {name} do not rise")
        self._overflow = len(self._uppers)
        # One list a series: the count of each bucket, that of everything above, and the sum of all values.
        self._values: dict[Key, list[float]] = {}
        if not self.labels:
            self._values[()] = self._empty()

    def observe(self, seconds: float, *label_values: LabelValue) -> None:
        """Count one duration in the series of these label values."""
        series = self._values.get(label_values)
        if series is None:
            series = self._values.setdefault(self._key(label_values), self._empty())
        series[bisect_left(self._uppers, seconds)] += 1
        series[-1] += seconds

    def count(self, *label_values: LabelValue) -> int:
        """How many durations a series counted."""
        series = self._values.get(self._key(label_values))
        return 0 if series is None else int(sum(series[:-1]))

    def family(self) -> Metric:
        family = HistogramMetricFamily(self.name, self.description, labels=self.labels)
        for key, series in list(self._values.items()):
            family.add_metric([str(part) for part in key], self._cumulative(series), series[-1])
        return family

    def _empty(self) -> list[float]:
        return [0.0] * (self._overflow + 2)

    def _cumulative(self, series: list[float]) -> list[tuple[str, float]]:
        rows: list[tuple[str, float]] = []
        total = 0.0
        for upper, count in zip(self._uppers, series[: self._overflow], strict=True):
            total += count
            rows.append((str(upper), total))
        rows.append(("+Inf", total + series[self._overflow]))
        return rows


class Registry:
    """Everything that one process publishes: its instruments, and the interpreter's and process's own figures."""

    def __init__(self, instruments: Iterable[Instrument]) -> None:
        self.instruments = tuple(instruments)
        self._registry = CollectorRegistry()
        self._registry.register(_Instruments(self.instruments))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def render(self) -> bytes:
        """The Prometheus text format, version 0.0.4."""
        return generate_latest(self._registry)


class _Instruments(Collector):
    def __init__(self, instruments: tuple[Instrument, ...]) -> None:
        self._instruments = instruments

    def collect(self) -> Iterable[Metric]:
        return (instrument.family() for instrument in self._instruments)


def one_of(allowed: Iterable[LabelValue], other: LabelValue = "other") -> Bound:
    """A bound that keeps what is allowed and answers `other` for the rest."""
    known = frozenset(allowed)
    return lambda value: value if value in known else other


class AtMost:
    """A bound that keeps the first `limit` different values it is asked about; later ones become `overflow`."""

    def __init__(self, limit: int, overflow: LabelValue = "overflow", *, always: Iterable[LabelValue] = ()) -> None:
        self._left = limit
        self._overflow = overflow
        self._known: set[LabelValue] = {overflow, *always}

    def __call__(self, value: LabelValue) -> LabelValue:
        if value in self._known:
            return value
        if self._left <= 0:
            return self._overflow
        self._left -= 1
        self._known.add(value)
        return value
