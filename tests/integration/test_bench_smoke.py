"""The benchmark works, and refuses to time anything but right answers. What it measures is not judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench.load import judge
from tests.bench.machine import BenchError
from tests.bench.targets import Found, Target
from tests.support.counterparts import require_program

ROOT = Path(__file__).parents[2]

TOLD: dict[str, Any] = {
    "requests": 1000,
    "bytes": 400_000,
    "errors": {"connect": 0, "read": 0, "write": 0, "status": 0, "timeout": 0},
}


def bench(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.bench", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


@pytest.mark.real
@pytest.mark.slow
def test_a_short_comparison_measures_the_whole_pipeline_beside_nginx(tmp_path: Path) -> None:
    require_program("nginx")
    require_program("wrk")
    file = tmp_path / "results" / "bench.json"
    done = bench("--short", "--only", "nginx,full", "--json", file)
    assert done.returncode == 0, done.stderr
    results = json.loads(file.read_text())["results"]
    assert set(results) == {"nginx", "full"}
    for scenarios in results.values():
        (sample,) = scenarios["small"]
        assert sample["requests"] > 0
        assert sample["cpu_us"] > 0
    assert "signature cached / nginx" in done.stdout


@pytest.mark.real
@pytest.mark.slow
def test_a_short_run_measures_two_workers_beside_one(tmp_path: Path) -> None:
    for program in ("nginx", "wrk", "redis-server"):
        require_program(program)
    file = tmp_path / "workers.json"
    done = bench("workers", "--short", "--json", file)
    assert done.returncode == 0, done.stderr
    results = json.loads(file.read_text())["results"]["bare"]
    assert set(results) == {"one", "two", "apart"}
    for (sample,) in results.values():
        assert sample["requests"] > 0
        assert sample["cpu_us"] > 0
        assert 0.5 <= sample["busiest"] <= 1
    assert "two workers, same core" in done.stdout


@pytest.mark.real
@pytest.mark.slow
def test_a_short_flood_is_refused_beyond_the_slots_and_nothing_is_left_of_it(tmp_path: Path) -> None:
    for program in ("nginx", "wrk"):
        require_program(program)
    file = tmp_path / "overload.json"
    done = bench("overload", "--short", "--slots", "10", "--json", file)
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    (at, twice) = found["steps"]
    assert (at["factor"], twice["factor"]) == (1.0, 2.0)
    assert twice["served"] > 0
    assert twice["refused"] > 0
    assert twice["lost"] == at["lost"] == 0
    assert found["left"] == {
        "gateway_active_requests": 0,
        "gateway_active_exchanges": 0,
        "gateway_connections": 1,
    }


@pytest.mark.real
@pytest.mark.slow
def test_short_micro_benchmarks_measure_every_step(tmp_path: Path) -> None:
    require_program("nginx")
    file = tmp_path / "micro.json"
    done = bench("micro", "--short", "--json", file)
    assert done.returncode == 0, done.stderr
    told = json.loads(file.read_text())
    assert all(figure > 0 for figures in told["us"].values() for figure in figures)
    assert all(size > 0 for size in told["bytes"].values())


def test_an_unknown_contender_is_named_with_those_that_exist() -> None:
    done = bench("--only", "nginx,apache")
    assert done.returncode == 1
    assert "apache" in done.stderr
    assert "caddy-auth" in done.stderr


def test_a_run_of_whole_answers_from_the_upstream_counts() -> None:
    judge(TOLD, reached_upstream=1032, expected_bytes=400, connections=32)


@pytest.mark.parametrize("kind", ["connect", "read", "write", "status", "timeout"])
def test_one_error_while_timed_ends_the_benchmark(kind: str) -> None:
    with pytest.raises(BenchError, match="errors"):
        judge(TOLD | {"errors": TOLD["errors"] | {kind: 1}}, 1000, 400, 32)


@pytest.mark.parametrize("reached", [0, 999, 1065])
def test_answers_that_the_upstream_did_not_give_end_the_benchmark(reached: int) -> None:
    with pytest.raises(BenchError, match="asked"):
        judge(TOLD, reached, 400, 32)


@pytest.mark.parametrize("received", [0, 350_000, 450_000])
def test_answers_of_another_size_end_the_benchmark(received: int) -> None:
    with pytest.raises(BenchError, match="bytes"):
        judge(TOLD | {"bytes": received}, 1000, 400, 32)


def test_a_run_without_an_answer_ends_the_benchmark() -> None:
    with pytest.raises(BenchError, match="not one"):
        judge(TOLD | {"requests": 0, "bytes": 0}, 0, 400, 32)


@pytest.mark.parametrize(
    ("by_speed", "by_cpu", "verdict"),
    [
        (0.5, 0.5, "reached"),
        (0.5, 0.3, "met"),
        (0.3, 0.3, "met"),
        (0.5, 0.1, "unclear"),
        (0.1, 0.5, "unclear"),
        (0.1, 0.1, "missed"),
    ],
)
def test_a_target_counts_as_met_only_where_speed_and_cpu_time_agree_on_an_idle_machine(
    by_speed: float, by_cpu: float, verdict: str
) -> None:
    target = Target("x / y", "x", "y", "small", must=0.2, reach=0.4)
    assert Found(target, by_speed, by_speed, by_speed, by_cpu, 0.0).verdict == verdict
    assert Found(target, by_speed, by_speed, by_speed, by_cpu, 0.2).verdict == f"{verdict}?"


@pytest.mark.parametrize(("added_us", "verdict"), [(20, "reached"), (30, "reached"), (90, "met"), (101, "missed")])
def test_an_added_delay_is_better_the_smaller_it_is(added_us: float, verdict: str) -> None:
    target = Target("added", "x", "y", "one", must=100, reach=30, added_us=True)
    assert Found(target, added_us, added_us, added_us, None, 0.0).verdict == verdict


@pytest.mark.slow
def test_a_short_run_of_tls_measures_handshakes_records_and_memory(tmp_path: Path) -> None:
    file = tmp_path / "tls.json"
    done = bench("tls", "--short", "--json", file)
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    assert len(found["us"]) == 8
    assert all(each > 0 for figures in found["us"].values() for each in figures)
    assert "TLS connection, used once" in done.stdout


@pytest.mark.real
@pytest.mark.slow
def test_a_short_run_over_the_state_measures_every_store_beside_the_servers_own_tools(tmp_path: Path) -> None:
    require_program("redis-server")
    require_program("pgbench", *map(str, Path("/usr/lib/postgresql").glob("*/bin")))
    file = tmp_path / "state.json"
    done = bench("state", "--short", "--json", file)
    assert done.returncode == 0, done.stderr
    results = json.loads(file.read_text())["results"]
    for what in ("session read", "four budgets", "decision written", "whole request"):
        assert set(results[what]) == {"memory", "redis", "postgres"}
        for by_width in results[what].values():
            assert all(sample["rate"] > 0 for samples in by_width.values() for sample in samples)
    # A request alone asks for its session and its budget.
    (alone,) = results["whole request"]["redis"]["1"]
    assert 1.9 < alone["asked"] < 2.5
    assert results["redis-benchmark GET"]["redis"]["32"][0]["rate"] > 0
    assert results["pgbench SELECT 1"]["postgres"]["32"][0]["rate"] > 0


@pytest.mark.real
@pytest.mark.slow
def test_a_short_run_of_many_entries_measures_their_memory_and_their_end(tmp_path: Path) -> None:
    require_program("redis-server")
    file = tmp_path / "scale.json"
    done = bench("scale", "--short", "--json", file)
    assert done.returncode == 0, done.stderr
    told = json.loads(file.read_text())["results"]
    assert [(each["kind"], each["store"]) for each in told] == [
        ("session", "redis"),
        ("session", "postgres"),
        ("budget", "redis"),
        ("budget", "postgres"),
    ]
    assert all(each["bytes_each"] > 0 for each in told)
