"""The results for a reader: tables of contenders and of targets; and all of it, round by round, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.bench.contenders import Contender
from tests.bench.load import SCENARIOS, Sample
from tests.bench.targets import Rounds, judged, middle

Row = Sequence[str]


def publish(machine: Mapping[str, object], told: object, json_file: Path | None) -> None:
    """Print what it was measured on, and write all that was found to a file where one is named."""
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps(told, indent=1) + "\n")
    print("\n".join(f"{name.replace('_', ' ')}: {value}" for name, value in machine.items()), end="\n\n")


def small_table(contenders: Sequence[Contender], rounds: Rounds) -> str:
    """The short answer over many connections: medians of the rounds, in brackets the least and the most."""
    head = (
        "191 bytes, 32 connections",
        "req/s",
        "(least-most)",
        "/nginx",
        "CPU µs",
        "/nginx",
        "core",
        "others",
        "p50 ms",
        "p99 ms",
    )
    rows: list[Row] = [head]
    nginx = rounds.get(("nginx", "small"))
    for contender in contenders:
        samples = rounds[contender.name, "small"]
        rps, cpu = middle(samples, _rps), middle(samples, _cpu)
        rows.append(
            (
                contender.title,
                f"{rps:.0f}",
                f"({min(map(_rps, samples)):.0f}-{max(map(_rps, samples)):.0f})",
                f"{rps / middle(nginx, _rps):.3f}" if nginx else "",
                f"{cpu:.1f}",
                f"{cpu / middle(nginx, _cpu):.1f}" if nginx else "",
                f"{middle(samples, lambda s: s.core):.0%}",
                f"{middle(samples, lambda s: s.others):.0%}",
                f"{middle(samples, lambda s: s.p50_us) / 1000:.2f}",
                f"{middle(samples, lambda s: s.p99_us) / 1000:.2f}",
            )
        )
    return aligned(rows)


def other_table(contenders: Sequence[Contender], rounds: Rounds, peaks: Mapping[str, int]) -> str:
    """One connection alone, longer answers, and the most memory that each contender ever held."""
    head = ("", "1 conn. p50 µs", "p99 µs", "10 kB req/s", "CPU µs", "1 MB req/s", "CPU µs", "peak MiB")
    rows: list[Row] = [head]
    for contender in contenders:
        cells = []
        for scenario, fields in (("one", (_p50, _p99)), ("10kB", (_rps, _cpu)), ("1MB", (_rps, _cpu))):
            samples = rounds.get((contender.name, scenario))
            cells += [f"{middle(samples, field):.0f}" if samples else "" for field in fields]
        rows.append((contender.title, *cells, f"{peaks[contender.name] / 2**20:.0f}"))
    return aligned(rows)


def targets_table(rounds: Rounds) -> str:
    """Each target with what was measured; the ratio of a round is between runs that followed each other."""
    rows: list[Row] = [("target", "must", "reach for", "by req/s", "(least-most)", "by CPU", "")]
    for found in judged(rounds):
        target = found.target
        form = "{:.0f}" if target.added_us else "{:.3f}"
        rows.append(
            (
                target.title,
                f"{target.must:g}",
                f"{target.reach:g}",
                form.format(found.value),
                f"({form.format(found.least)}-{form.format(found.most)})",
                "" if found.by_cpu is None else f"{found.by_cpu:.3f}",
                found.verdict,
            )
        )
    return aligned(rows)


def aligned(rows: Sequence[Row]) -> str:
    """Rows as columns, the first to the left and numbers to the right; a rule under the first row."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()  # the first is a name
        for row in rows
    ]
    return "\n".join((lines[0], "-" * max(map(len, lines)), *lines[1:]))


def as_json(machine: Mapping[str, str], rounds: Rounds, peaks: Mapping[str, int]) -> dict[str, Any]:
    """Everything measured: `results[contender][scenario]` is the list of its rounds."""
    results: dict[str, dict[str, Any]] = {}
    for (name, scenario), samples in rounds.items():
        results.setdefault(name, {})[scenario] = [asdict(sample) for sample in samples]
    return {
        "machine": dict(machine),
        "scenarios": {scenario.name: asdict(scenario) for scenario in SCENARIOS},
        "results": results,
        "peak_rss_bytes": dict(peaks),
        "targets": [{**asdict(found), "verdict": found.verdict} for found in judged(rounds)],
    }


def _rps(sample: Sample) -> float:
    return sample.rps


def _cpu(sample: Sample) -> float:
    return sample.cpu_us


def _p50(sample: Sample) -> float:
    return sample.p50_us


def _p99(sample: Sample) -> float:
    return sample.p99_us
