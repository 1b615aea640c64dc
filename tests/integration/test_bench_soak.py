"""The soak works, and what it says of growth and of leftovers is right."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.bench.soak.files import open_files
from tests.bench.soak.run import EXECUTOR, GAUGES, Sample, judged
from tests.integration.test_bench_smoke import bench
from tests.support.counterparts import require_program

AT_REST = {"listener": 2, "pipe": 18}


def sample(minute: float, **more: object) -> Sample:
    gauges = dict.fromkeys(GAUGES, 0.0) | {"gateway_connections": 1.0}
    figures: dict[str, object] = {
        "rss": 100, "blocks": 1_000, "objects": 50, "tasks": 0, "threads": 5, "files": AT_REST, "cpu_s": 1.0,
        "malloc_held": 60, "malloc_used": 50,
    }  # fmt: skip
    return Sample(minute=minute, gauges=gauges, waiting={}, kinds={}, lines={}, **(figures | more))  # type: ignore[arg-type]


STEADY = [sample(n / 2) for n in range(1, 121)]


def missed(samples: list[Sample], after: Sample) -> list[str]:
    return [text for met, text in judged(sample(0), samples, after, 60.0) if not met]


def test_a_gateway_that_holds_what_it_held_passes() -> None:
    assert missed(STEADY, sample(60)) == []


def test_what_the_first_minutes_fill_is_not_growth() -> None:
    filling = [replace(each, rss=70) if each.minute < 4 else each for each in STEADY]
    assert missed(filling, sample(60)) == []


@pytest.mark.parametrize("name", ["rss", "blocks"])
def test_a_twentieth_more_than_in_the_fifth_minute_is_growth(name: str) -> None:
    grown = [*STEADY[:-3], *(replace(each, **{name: round(getattr(each, name) * 1.06)}) for each in STEADY[-3:])]
    (text,) = missed(grown, sample(60))
    assert text.startswith(f"{name} at the end +6.0%")


@pytest.mark.parametrize(
    "left",
    [
        {"tasks": 1},
        {"files": AT_REST | {"connection to port 80": 1}},
        {"threads": 5 + EXECUTOR + 1},
        {"gauges": dict.fromkeys(GAUGES, 0.0) | {"gateway_connections": 2.0}},
    ],
)
def test_whatever_is_left_is_told(left: dict[str, object]) -> None:
    assert len(missed(STEADY, replace(sample(60), **left))) == 1  # type: ignore[arg-type]


def test_open_files_are_told_by_kind_and_can_be_written_down() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)), listener.accept()[0]:
            written = json.dumps(asdict(sample(1, files=open_files(os.getpid()))))
    found = json.loads(written)["files"]
    assert found["listener"] >= 1
    assert found["accepted connection"] == found[f"connection to port {port}"] == 1


@pytest.mark.real
@pytest.mark.slow
def test_a_short_soak_leaves_nothing_behind(tmp_path: Path) -> None:
    for program in ("nginx", "wrk"):
        require_program(program)
    file = tmp_path / "soak.json"
    done = bench("soak", "--minutes", "0.2", "--json", file)
    found = json.loads(file.read_text()) if file.exists() else {}
    assert found, done.stderr
    assert found["wrk"]["requests"] > found["wrk"]["refused"] > 0
    assert sum(found["habits"].values()) > 0
    assert found["after"]["tasks"] == 0
    assert sum(found["after"]["gauges"].values()) == 1
