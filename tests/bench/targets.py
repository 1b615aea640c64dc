"""What the gateway should reach, each as a figure of one interleaved run, and what a run made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tests.bench.load import Sample

DISTURBED = 0.05
"""Share of the machine that other programs may have before a verdict is doubtful."""

Rounds = Mapping[tuple[str, str], Sequence[Sample]]
"""The samples of each contender and scenario, one a round."""


@dataclass(frozen=True)
class Target:
    """`subject` against `peer` in one scenario. A ratio is to be at least `must`; a delay (`added_us`) at most."""

    title: str
    subject: str
    peer: str
    scenario: str
    must: float
    reach: float
    added_us: bool = False


@dataclass(frozen=True)
class Found:
    """The figure by requests a second, paired round by round, with its spread; and the ratio by CPU time a request,
    which other programs on the machine disturb least (None where it has no meaning).
    """

    target: Target
    value: float
    least: float
    most: float
    by_cpu: float | None
    others: float

    @property
    def verdict(self) -> str:
        """`reached`, `met` or `missed`; `unclear` where requests a second and CPU time do not agree on whether it is
        met; all of them with a question mark where other programs used the machine.
        """
        return self._agreed() + ("?" if self.others > DISTURBED else "")

    def _agreed(self) -> str:
        marks = [self._mark(self.value), *([] if self.by_cpu is None else [self._mark(self.by_cpu)])]
        if "missed" in marks:
            return "missed" if len(set(marks)) == 1 else "unclear"
        return "met" if "met" in marks else "reached"

    def _mark(self, value: float) -> str:
        return mark(value, self.target.must, self.target.reach)


def mark(value: float, must: float, reach: float) -> str:
    """`reached`, `met` or `missed`. More is better where `reach` lies above `must`, else less is."""
    sign = 1 if reach > must else -1
    return "reached" if sign * value >= sign * reach else "met" if sign * value >= sign * must else "missed"


TARGETS = (
    Target("h11 alone, signature cached / nginx", "full-h11", "nginx", "small", 0.05, 0.07),
    Target("signature cached / nginx", "full", "nginx", "small", 0.22, 0.36),
    Target("signature computed / nginx", "new", "nginx", "small", 0.11, 0.16),
    Target("signature cached / Caddy forward_auth", "full", "caddy-auth", "small", 2.8, 4.0),
    Target("signature computed / Caddy forward_auth", "new", "caddy-auth", "small", 1.4, 2.0),
    Target("signature cached / aiohttp proxy", "full", "aiohttp", "small", 3.0, 5.0),
    Target("signature computed / aiohttp proxy", "new", "aiohttp", "small", 1.5, 2.0),
    Target("bare proxy / nginx", "bare", "nginx", "small", 0.45, 0.65),
    Target("10 kB, signature cached / nginx", "full", "nginx", "10kB", 0.5, 0.8),
    Target("1 MB, signature cached / nginx", "full", "nginx", "1MB", 0.7, 0.9),
    Target("added at one connection, p50, µs", "full", "nginx", "one", 100.0, 30.0, added_us=True),
)


def judged(rounds: Rounds) -> list[Found]:
    """Every target whose two sides were measured."""
    found = []
    for target in TARGETS:
        ours, theirs = (rounds.get((name, target.scenario), ()) for name in (target.subject, target.peer))
        pairs = list(zip(ours, theirs, strict=False))
        if not pairs:
            continue
        if target.added_us:
            values = [float(our.p50_us - their.p50_us) for our, their in pairs]
            by_cpu = None
        else:
            values = [our.rps / their.rps for our, their in pairs]
            by_cpu = median(their.cpu_us / our.cpu_us for our, their in pairs if our.cpu_us)
        others = median(sample.others for sample in (*ours, *theirs))
        found.append(Found(target, median(values), min(values), max(values), by_cpu, others))
    return found


def middle(samples: Sequence[Sample], of: Callable[[Sample], float]) -> float:
    """The median over the rounds."""
    return median(of(sample) for sample in samples)
