"""A gateway of several workers as a program, on a free port, and a look at which of them serves a connection."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.gateway import Caller
from tests.support.processes import Child, Children

ROOT = Path(__file__).parents[2]
METRICS_TOKEN = "metrics-of-all-workers-" + "x" * 24
GET = b"GET / HTTP/1.1\r\nhost: app.test\r\n\r\n"
SCRAPE = f"GET /metrics HTTP/1.1\r\nhost: app.test\r\nauthorization: Bearer {METRICS_TOKEN}\r\n\r\n".encode()


@dataclass
class Fleet:
    """A running supervisor with its workers."""

    child: Child
    port: int
    callers: list[Caller] = field(default_factory=list)

    @property
    def workers(self) -> list[int]:
        """The process ids of the workers that run now."""
        return [pid for pid in workers_of(self.child.pid) if not is_zombie(pid)]

    def lines(self, msg: str) -> list[dict[str, Any]]:
        """The log's events of one text so far."""
        found = []
        for line in self.child.lines:
            with suppress(ValueError):
                event = json.loads(line)
                if event.get("msg", "").startswith(msg):
                    found.append(event)
        return found

    async def connect(self) -> Caller:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**20)
        caller = Caller(reader, writer)
        self.callers.append(caller)
        return caller

    async def at_each(self, request: bytes | None = GET) -> dict[int, Caller]:
        """A connection to each worker, on which `request` was answered; None: the request is left to the caller."""
        workers = set(self.workers)
        found: dict[int, Caller] = {}
        async with asyncio.timeout(30):
            while set(found) != workers:
                caller = await self.connect()
                if request is not None:
                    await caller.ask(request)
                pid = await self.owner(caller)
                if pid in found:
                    caller.close()
                found.setdefault(pid, caller)
        return found

    async def owner(self, caller: Caller) -> int:
        """The worker that has accepted a connection."""
        ours: int = caller.writer.get_extra_info("sockname")[1]
        async with asyncio.timeout(15):
            while True:
                held = f"socket:[{_inode(self.port, ours)}]"
                for pid in self.workers:
                    if held in _descriptors(pid):
                        return pid
                await asyncio.sleep(0.01)

    async def metrics(self) -> dict[str, float]:
        """Every series of `/metrics`, asked for on a connection of its own."""
        caller = await self.connect()
        answer = await caller.ask(SCRAPE)
        caller.close()
        assert answer.status == 200, answer.body
        text = (line for line in answer.body.decode().splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in text)}


def start_workers(
    children: Children,
    folder: Path,
    document: dict[str, Any],
    state_url: str,
    *,
    workers: int = 2,
    program: tuple[str, ...] = ("-m", "dataplane.cli", "run"),
    **variables: str,
) -> Child:
    """Start `gateway run` with several workers; variables without their prefix."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "routes.json").write_text(json.dumps(document))
    settings = {
        "HOST": "127.0.0.1",
        "PORT": "0",
        "CONFIG": str(folder / "routes.json"),
        "STATE_URL": state_url,
        "WORKERS": str(workers),
        "METRICS_TOKEN": METRICS_TOKEN,
        "RATE_LIMIT_ROUTE_MAX": "0",
        **variables,
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
    env = inherited | {f"GATEWAY_{name}": value for name, value in settings.items()}
    return children.start([sys.executable, *program], name="gateway", env=env, cwd=ROOT)


def ready(child: Child, *, within_s: float = 60.0) -> Fleet:
    """Once every worker listens."""
    found = child.wait_for_line(r'"msg":"all workers are ready".*"port":(\d+)', within_s=within_s)
    return Fleet(child, int(found[1]))


def workers_of(supervisor: int) -> list[int]:
    """The process ids of what a program with one thread has forked, ended ones that it has not noted included."""
    return sorted(map(int, Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()))


def is_gone(pid: int) -> bool:
    """The process has ended, whether or not its end was taken note of."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return is_zombie(pid)


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def stop(pid: int) -> None:
    """Have a process stand still, whatever it is doing."""
    os.kill(pid, signal.SIGSTOP)


def _inode(port: int, peer_port: int) -> str:
    """Of the socket at `port` that is connected to `peer_port` (proc_net_tcp)."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        local, peer = (int(address.rpartition(":")[2], 16) for address in fields[1:3])
        if (local, peer) == (port, peer_port):
            return fields[9]
    return ""


def _descriptors(pid: int) -> set[str]:
    held = set()
    with suppress(FileNotFoundError, ProcessLookupError):
        for each in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                held.add(str(each.readlink()))
    return held


def refuses(port: int) -> bool:
    """Nothing listens on the port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
