"""The WebSocket relay beside nginx on the same echo: rounds of A B C, A B C …, every message that comes back compared.

The echo and the load share one core, the contender has the other. `direct` is the load at the echo with nobody between:
what the load could bring if the contender cost nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.load import Sample
from tests.bench.machine import (
    BenchError,
    busy_s,
    cpu_s,
    described,
    find,
    load_average,
    memory_bytes,
    pinned,
    raise_descriptor_limit,
    say,
    version_of,
)
from tests.bench.report import aligned, publish
from tests.bench.stage import ROOT, Stage, Started, stage
from tests.support.ports import free_port

EXPLANATION = """\
All figures are medians of the rounds. A message is one that went to the echo and came back. CPU is the contender's user
and system time, a message; p50 and p99 run from a connection's write to the last of its messages back. `core` is how
much of its core the contender had: where it is below 90 %, the load was the bound, and CPU is the figure to compare by.
`others` is how much of the machine went to programs that are none of the benchmark's."""


@dataclass(frozen=True)
class Shape:
    """`in_flight` messages of `payload_bytes` at a time, on each of `connections`."""

    name: str
    connections: int
    payload_bytes: int
    in_flight: int

    @property
    def title(self) -> str:
        return f"{self.payload_bytes} bytes, {self.connections} conn., {self.in_flight} in flight"


SHAPES = (
    Shape("one", 1, 64, 1),
    Shape("small", 32, 64, 1),
    Shape("stream", 32, 64, 16),
    Shape("16kB", 32, 16_384, 1),
)
NAMES = ("nginx", "wicketgate", "direct")


def websocket(*, rounds: int, seconds: int, short: bool, json_file: Path | None) -> None:
    """Measure and print. Raises `BenchError` as soon as a message is lost or another comes back."""
    raise_descriptor_limit()
    machine = described() | {"nginx": version_of(find("nginx", "nginx-light"))}
    shapes = SHAPES[1:2] if short else SHAPES
    measured: dict[tuple[str, str], list[Sample]] = {}
    with stage() as on:
        started = _start(on)
        for name, it in started.items():
            timed(on, name, it, SHAPES[1], 1)
        for number in range(1, rounds + 1):
            for shape in shapes:
                for name, it in started.items():
                    sample = timed(on, name, it, shape, seconds)
                    measured.setdefault((name, shape.name), []).append(sample)
                    say(f"round {number}, {shape.title}, {name}: {sample.rps:.0f} msg/s, {sample.cpu_us:.1f} µs")
        peaks = {name: memory_bytes(it.pid, "VmHWM") for name, it in started.items()}
    machine |= {"load_average_after": load_average(), "rounds": f"{rounds} of {seconds} s"}
    publish(machine, _as_json(machine, measured, peaks), json_file)
    for shape in shapes:
        print(_table(shape, measured), end="\n\n")
    print(EXPLANATION)


def timed(on: Stage, name: str, it: Started, shape: Shape, seconds: int) -> Sample:
    """Time one contender; opening and closing its connections is not part of it."""
    argv = [sys.executable, "-m", "tests.bench.peers.websocket_load", it.origin.rpartition(":")[2]]
    argv += [str(shape.connections), str(shape.payload_bytes), str(shape.in_flight)]
    command = pinned(argv, on.other_core)
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
        assert load.stdin is not None
        assert load.stdout is not None
        if load.stdout.readline() != "ready\n":
            raise BenchError(f"{name}: no WebSocket could be opened\n{it.child.output[-2000:]}")
        # What a child used is in the benchmark's own time only when it has ended.
        others_before, load_before = busy_s() - on.spent_s(), cpu_s_of(load.pid)
        cpu_before, began = cpu_s(it.pid), time.monotonic()
        load.stdin.write(f"{seconds}\n")
        load.stdin.flush()
        told = load.stdout.readline()
        cpu, wall = cpu_s(it.pid) - cpu_before, time.monotonic() - began
        busy, load_s = busy_s() - on.spent_s(), cpu_s_of(load.pid) - load_before
        load.stdin.close()
    if not told:
        raise BenchError(f"{name}, {shape.title}: the load failed\n{it.child.output[-2000:]}")
    result: dict[str, Any] = json.loads(told)
    messages = int(result["messages"])
    return Sample(
        requests=messages,
        rps=messages / result["seconds"],
        cpu_us=cpu * 1e6 / messages,
        p50_us=round(result["p50_us"]),
        p99_us=round(result["p99_us"]),
        core=cpu / wall,
        others=max(busy - load_s - others_before, 0.0) / wall / (os.cpu_count() or 1),
    )


def cpu_s_of(pid: int) -> float:
    """CPU seconds of one process alone (proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _start(on: Stage) -> dict[str, Started]:
    port = free_port()
    argv = [sys.executable, "-m", "tests.bench.peers.websocket_echo", str(port)]
    echo = Started(on.start("echo", argv, on.other_core, port=port), f"http://127.0.0.1:{port}")
    return {"nginx": _nginx(on, echo), "wicketgate": _wicketgate(on, echo), "direct": echo}


def _nginx(on: Stage, echo: Started) -> Started:
    """With buffers as large as the gateway's: its usual ones of a page take a message of 16 kB in four reads."""
    server = f"""
    location / {{
      proxy_pass {echo.origin};
      proxy_http_version 1.1;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection "Upgrade";
      proxy_read_timeout 600s;
      proxy_buffer_size 64k;
      proxy_buffers 4 64k;
      proxy_busy_buffers_size 64k;
    }}"""
    nginx = on.nginx("nginx", on.contender_core, server)
    return Started(nginx.child, nginx.origin)


def _wicketgate(on: Stage, echo: Started) -> Started:
    """The gateway as `gateway run` serves it, with the usual guards of a WebSocket; only how many is not bounded."""
    folder, port = on.folder / "gateway", free_port()
    folder.mkdir()
    route = {"id": "echo", "match": {"path": "/"}, "upstream": echo.origin, "auth": {"mode": "none"}, "websocket": True}
    (folder / "routes.json").write_text(json.dumps({"version": 2, "routes": [route]}))
    environment = {
        "GATEWAY_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "GATEWAY_CONFIG": str(folder / "routes.json"),
        "GATEWAY_PUBLIC_URL": f"http://127.0.0.1:{port}",
        "GATEWAY_RATE_LIMIT_ROUTE_MAX": "0",
        "GATEWAY_WS_MAX_PER_PRINCIPAL": "0",
    }
    argv = [sys.executable, "-m", "dataplane.cli", "run"]
    child = on.start("gateway", argv, on.contender_core, port=port, env=environment, output=on.folder / "gateway.log")
    return Started(child, f"http://127.0.0.1:{port}")


def _table(shape: Shape, measured: dict[tuple[str, str], list[Sample]]) -> str:
    rows: list[Sequence[str]] = [
        (shape.title, "msg/s", "(least-most)", "/nginx", "CPU µs", "/nginx", "core", "others", "p50 µs", "p99 µs")
    ]
    nginx = measured["nginx", shape.name]
    for name in NAMES:
        samples = measured[name, shape.name]
        rate, cpu = [sample.rps for sample in samples], [sample.cpu_us for sample in samples]
        between = name != "direct"
        pairs = list(zip(samples, nginx, strict=True))
        rows.append(
            (
                name,
                f"{median(rate):.0f}",
                f"({min(rate):.0f}-{max(rate):.0f})",
                f"{median(ours.rps / theirs.rps for ours, theirs in pairs):.3f}",
                f"{median(cpu):.1f}" if between else "",
                f"{median(ours.cpu_us / theirs.cpu_us for ours, theirs in pairs):.1f}" if between else "",
                f"{median(sample.core for sample in samples):.0%}" if between else "",
                f"{median(sample.others for sample in samples):.0%}",
                f"{median(sample.p50_us for sample in samples):.0f}",
                f"{median(sample.p99_us for sample in samples):.0f}",
            )
        )
    return aligned(rows)


def _as_json(
    machine: dict[str, str], measured: dict[tuple[str, str], list[Sample]], peaks: dict[str, int]
) -> dict[str, Any]:
    """Everything measured: `results[contender][shape]` is the list of its rounds; a `request` is a message."""
    results: dict[str, dict[str, Any]] = {}
    for (name, shape), samples in measured.items():
        results.setdefault(name, {})[shape] = [asdict(sample) for sample in samples]
    shapes = {shape.name: asdict(shape) for shape in SHAPES}
    return {"machine": machine, "shapes": shapes, "results": results, "peak_rss_bytes": peaks}
