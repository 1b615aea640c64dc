"""Instruments of plain numbers, read by a prometheus_client collector when they are scraped.

Counting costs one dictionary operation, and happens on the loop's thread alone: instruments take no lock.

    request -> counter.inc("app", "GET", 200)        a tuple key into a dict
    scrape  -> Registry.render() -> collectors        the dicts become metric families, in the text format

Several processes: each `dump`s its numbers, one `absorb`s them all and renders the sum. What a dump holds is plain
lists and numbers, as JSON carries them.

Labels are bounded by construction. A label's `Bound` maps any value to one of a bounded set. It runs only for a key
that is not known yet, and what it answers is the key that is counted: an odd value never becomes a series.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

LabelValue: TypeAlias = str | int
Key: TypeAlias = tuple[LabelValue, ...]
Bound: TypeAlias = Callable[[LabelValue], LabelValue]
Rows: TypeAlias = Sequence[tuple[Sequence[LabelValue], Any]]
"""The series of one metric: label values, and a number or, of a histogram, a list of numbers."""
Numbers: TypeAlias = dict[str, Rows]
"""Rows by the name of their metric."""

TEXT_CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

DURATION_BUCKETS: tuple[float, ...] = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
"""Seconds; from what the gateway itself adds to the longest response budget that is usual."""


class Instrument(Protocol):
    """What a registry renders."""

    name: str
    rises: bool
    """It only counts up: what a process counted stays counted when the process ends."""

    def family(self) -> Metric:
        """The values of this moment."""
        ...

    def dump(self) -> Rows:
        """The same as plain rows, for another process."""
        ...

    def clear(self) -> None:
        """Forget every series. What `absorb` finds from now on is all there is."""
        ...

    def absorb(self, rows: Rows) -> None:
        """Join the numbers of another process to those that are here. Labels are bounded as ever."""
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

    rises = True

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

    def dump(self) -> Rows:
        return list(self._values.items())

    def clear(self) -> None:
        self._values.clear()

    def absorb(self, rows: Rows) -> None:
        for values, count in rows:
            key = self._key(tuple(values))
            self._values[key] = self._values.get(key, 0) + count

    def family(self) -> Metric:
        family = CounterMetricFamily(self.name, self.description, labels=self.labels)
        for key, value in list(self._values.items()):
            family.add_metric([str(part) for part in key], value)
        return family


Joined = Literal["sum", "min", "max"]
_JOIN: dict[Joined, Callable[[float, float], float]] = {"sum": lambda one, other: one + other, "min": min, "max": max}


class Gauge(_Labelled):
    """A value that goes up and down. Without labels it is 0 until it is set.

    `joined` is what several processes' values are together.
    """

    rises = False

    def __init__(
        self,
        name: str,
        description: str,
        labels: Sequence[str] = (),
        *,
        bounds: dict[str, Bound] | None = None,
        joined: Joined = "sum",
    ) -> None:
        super().__init__(name, description, labels, bounds)
        self._join = _JOIN[joined]
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

    def dump(self) -> Rows:
        return list(self._values.items()) if self._reader is None else [((), self._reader())]

    def clear(self) -> None:
        self._values.clear()

    def absorb(self, rows: Rows) -> None:
        for values, value in rows:
            key = self._key(tuple(values))
            self._values[key] = self._join(self._values[key], value) if key in self._values else value

    def family(self) -> Metric:
        family = GaugeMetricFamily(self.name, self.description, labels=self.labels)
        for key, value in self.dump():
            family.add_metric([str(part) for part in key], value)
        return family


class Histogram(_Labelled):
    """Durations in seconds, in buckets with inclusive upper bounds."""

    rises = True

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

    def dump(self) -> Rows:
        return list(self._values.items())

    def clear(self) -> None:
        self._values.clear()

    def absorb(self, rows: Rows) -> None:
        for values, counts in rows:
            series = self._values.setdefault(self._key(tuple(values)), self._empty())
            for position, count in enumerate(counts):
                series[position] += count

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
        self._process = _Process()
        self._registry = CollectorRegistry()
        self._registry.register(_Instruments(self.instruments))
        self._registry.register(self._process)

    def render(self) -> bytes:
        """The Prometheus text format, version 0.0.4."""
        return generate_latest(self._registry)

    def dump(self) -> Numbers:
        """The numbers of this moment, for the process that adds them up."""
        numbers: Numbers = {instrument.name: instrument.dump() for instrument in self.instruments}
        return numbers | self._process.dump()

    def clear(self) -> None:
        """Forget what was counted and absorbed; the process's own figures go on."""
        for instrument in self.instruments:
            instrument.clear()
        self._process.others.clear()

    def absorb(self, numbers: Numbers) -> None:
        """Join the numbers of another process; what this one does not know is left out."""
        for instrument in self.instruments:
            instrument.absorb(numbers.get(instrument.name, ()))
        self._process.absorb(numbers)

    def dump_rising(self) -> Numbers:
        """Of what was absorbed, that which must not fall when the processes that counted it have ended."""
        numbers: Numbers = {each.name: each.dump() for each in self.instruments if each.rises}
        return numbers | self._process.dump_rising_of_others()


class _Instruments(Collector):
    def __init__(self, instruments: tuple[Instrument, ...]) -> None:
        self._instruments = instruments

    def collect(self) -> Iterable[Metric]:
        return (instrument.family() for instrument in self._instruments)


# Not a sum over processes: when this one began, the interpreter they share, and a bound that each has for itself.
_OF_ONE = ("process_start_time_seconds", "process_max_fds", "python_info")


class _Process(Collector):
    """CPU time, memory, descriptors and garbage collections of this process, and of others that were absorbed."""

    def __init__(self) -> None:
        self._own = CollectorRegistry()
        ProcessCollector(registry=self._own)
        PlatformCollector(registry=self._own)
        GCCollector(registry=self._own)
        self.others: dict[tuple[str, Key], float] = {}

    def collect(self) -> Iterable[Metric]:
        for family in self._own.collect():
            family.samples = [
                sample._replace(value=sample.value + self.others.get((sample.name, tuple(sample.labels.values())), 0))
                for sample in family.samples
            ]
            yield family

    def dump(self) -> Numbers:
        numbers: dict[str, list[tuple[Sequence[LabelValue], Any]]] = {}
        for family in self._own.collect():
            for sample in family.samples:
                if sample.name not in _OF_ONE:
                    numbers.setdefault(sample.name, []).append((tuple(sample.labels.values()), sample.value))
        return dict(numbers)

    def absorb(self, numbers: Numbers) -> None:
        for name, rows in numbers.items():
            if name.startswith(("process_", "python_")):
                for values, value in rows:
                    key = (name, tuple(values))
                    self.others[key] = self.others.get(key, 0) + value

    def dump_rising_of_others(self) -> Numbers:
        numbers: dict[str, list[tuple[Sequence[LabelValue], Any]]] = {}
        for (name, values), value in self.others.items():
            if name.endswith("_total"):
                numbers.setdefault(name, []).append((values, value))
        return dict(numbers)


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
