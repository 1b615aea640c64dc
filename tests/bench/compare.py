"""The comparison: start everyone, see that they answer rightly, then rounds of A B C …, A B C …"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench import report
from tests.bench.contenders import Contender, Field, ready
from tests.bench.load import SCENARIOS, Sample, Scenario, run
from tests.bench.machine import (
    BenchError,
    described,
    find,
    load_average,
    memory_bytes,
    raise_descriptor_limit,
    say,
    version_of,
)
from tests.bench.plots import Bar, bars
from tests.bench.stage import Started, stage
from tests.bench.targets import middle

MOSTLY_CACHED = 0.95
"""Of the decisions: one in five seconds is asked for anew, the rest is kept."""

EXPLANATION = """\
All figures are medians of the rounds. CPU is the contender's user and system time, a request. `core` is how much of its
core it had, `others` how much of the machine went to programs that are none of the benchmark's. A target's ratio is the
median of the rounds' ratios. A verdict needs both of its columns: `unclear` where they disagree, and a question mark
where others used more than a twentieth of the machine: then CPU is the figure to compare by, and the run one to
repeat."""


def compare(
    contenders: Sequence[Contender],
    *,
    rounds: int,
    seconds: int,
    short: bool,
    json_file: Path | None,
    plots: Path | None = None,
) -> None:
    """Measure and print. Raises `BenchError` as soon as something is not as it must be."""
    raise_descriptor_limit()
    programs = ["nginx", "wrk", *(each.name for each in contenders if each.name == "haproxy")]
    machine = described() | {name: version_of(find(name, name)) for name in programs}
    with stage() as bare_stage:
        on = Field(bare_stage)
        started = {}
        for contender in contenders:
            say(f"starting and checking: {contender.title}")
            started[contender.name] = ready(on, contender)
        if not short:
            for contender in contenders:
                run(on, contender, started[contender.name], SCENARIOS[0], 1)
        measured = _measure(on, contenders, started, rounds=rounds, seconds=seconds, short=short)
        for name, it in started.items():
            if it.log is not None and it.headers and (share := on.deployment.cached_share(it)) < MOSTLY_CACHED:
                raise BenchError(f"{name}: only {share:.0%} of the decisions were cached ones")
        peaks = {name: memory_bytes(it.pid, "VmHWM") for name, it in started.items()}
    machine |= {"load_average_after": load_average(), "rounds": f"{rounds} of {seconds} s"}
    report.publish(machine, report.as_json(machine, measured, peaks), json_file)
    if plots is not None:
        _draw(contenders, measured, plots)
    print(report.small_table(contenders, measured), end="\n\n")
    if not short:
        print(report.other_table(contenders, measured, peaks), end="\n\n")
    print(report.targets_table(measured), end="\n\n")
    print(EXPLANATION)


def _draw(contenders: Sequence[Contender], measured: Mapping[tuple[str, str], Sequence[Sample]], folder: Path) -> None:
    """Bars of what each contender does with the small answer over many connections."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, unit, of in (("requests", "requests a second", _rps), ("cpu", "CPU µs a request", _cpu)):
        values = [
            Bar(each.title, middle(measured[each.name, "small"], of), own=each.title.startswith("Wicketgate"))
            for each in contenders
        ]
        (folder / f"compare-{name}.svg").write_text(bars("191 bytes, 32 connections", unit, values))


def _rps(sample: Sample) -> float:
    return sample.rps


def _cpu(sample: Sample) -> float:
    return sample.cpu_us


def _measure(
    on: Field, contenders: Sequence[Contender], started: dict[str, Started], *, rounds: int, seconds: int, short: bool
) -> dict[tuple[str, str], list[Sample]]:
    """Every contender in every scenario, once a round, the contenders next to each other."""
    measured: dict[tuple[str, str], list[Sample]] = {}
    for number in range(1, rounds + 1):
        for scenario in SCENARIOS[:1] if short else SCENARIOS:
            for contender in contenders:
                if not contender.bodies and _is_body(scenario):
                    continue
                sample = run(on, contender, started[contender.name], scenario, seconds)
                measured.setdefault((contender.name, scenario.name), []).append(sample)
                figures = f"{sample.rps:.0f} req/s, {sample.cpu_us:.1f} µs"
                say(f"round {number}, {scenario.title}, {contender.name}: {figures}")
    return measured


def _is_body(scenario: Scenario) -> bool:
    return scenario.name in ("10kB", "1MB")
