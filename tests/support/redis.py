"""Real Redis servers on loopback, each in a folder of its own: one, a cluster, a master with sentinels."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.counterparts import require_program
from tests.support.ports import free_port
from tests.support.processes import Child, Children, eventually


@dataclass
class Redis:
    """A running server. `restart` starts it again on its port and folder."""

    children: Children
    folder: Path
    port: int
    options: tuple[str, ...]
    env: Mapping[str, str] | None
    child: Child

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def cli(self, *command: str, user: str = "", password: str = "", stdin: bytes = b"") -> str:
        """What redis-cli prints for a command."""
        login = ["--user", user, "--pass", password, "--no-auth-warning"] if user else []
        told = subprocess.run(
            ["redis-cli", "-p", str(self.port), *login, *(["-x"] if stdin else []), *command],
            capture_output=True, timeout=20, check=False, input=stdin or None,
        )  # fmt: skip
        return (told.stdout + told.stderr).decode("utf-8", "replace").strip()

    def restart(self) -> None:
        """Start it again, after `child` ended."""
        self.child = _start(self.children, self.folder, self.port, self.options, self.env)


def start_redis(
    children: Children, folder: Path, *options: str, port: int | None = None, env: Mapping[str, str] | None = None
) -> Redis:
    """Start a server; returns once it answers."""
    folder.mkdir(parents=True, exist_ok=True)
    port = port or free_port()
    return Redis(children, folder, port, options, env, _start(children, folder, port, options, env))


def _start(
    children: Children, folder: Path, port: int, options: tuple[str, ...], env: Mapping[str, str] | None
) -> Child:
    program = require_program("redis-server")
    require_program("redis-cli")
    argv = [
        program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", "", "--appendonly", "no",
        "--daemonize", "no", *options,
    ]  # fmt: skip
    child = children.start(argv, name="redis", env=None if env is None else {"PATH": "/usr/bin:/bin", **env})
    child.wait_for_port(port)
    eventually(lambda: b"PONG" in speak(port, b"PING\r\n") or b"NOAUTH" in speak(port, b"PING\r\n"))
    return child


def speak(port: int, data: bytes) -> bytes:
    """One inline command and the beginning of its answer; nothing where nobody answers."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as sock:
            sock.sendall(data)
            return sock.recv(65_536)
    except OSError:
        return b""


@dataclass
class RedisCluster:
    """Three masters with a replica each."""

    servers: list[Redis]

    @property
    def masters(self) -> list[Redis]:
        return [server for server in self.servers if "role:master" in server.cli("INFO", "replication")]

    @property
    def url(self) -> str:
        return "redis://" + ",".join(f"127.0.0.1:{server.port}" for server in self.servers) + "/0"

    def cli(self, *command: str) -> str:
        return self.servers[0].cli("-c", *command)

    def flush(self) -> None:
        for server in self.masters:
            server.cli("FLUSHALL")

    def master_of(self, key: str) -> Redis:
        """The server that holds a key's slot."""
        told = speak(self.servers[0].port, b"GET " + key.encode() + b"\r\n")
        if told.startswith(b"-MOVED"):
            port = int(told.split()[2].rpartition(b":")[2])
            return next(server for server in self.servers if server.port == port)
        return self.servers[0]


def start_cluster(
    children: Children,
    folder: Path,
    *,
    env: Mapping[str, str] | None = None,
    replicas: int = 0,
    node_timeout_ms: int = 1_000,
) -> RedisCluster:
    """Three masters that share the slots, and `replicas` more servers, one for each of the first masters."""
    options = (
        "--cluster-enabled", "yes", "--cluster-node-timeout", str(node_timeout_ms),
        "--cluster-config-file", "nodes.conf",
    )  # fmt: skip
    # Its own choice would be 10 000 above, among the ports that the kernel gives to outgoing connections.
    buses = [free_port() for _ in range(3 + replicas)]
    servers = [
        start_redis(children, folder / f"node-{number}", *options, "--cluster-port", str(bus), env=env)
        for number, bus in enumerate(buses)
    ]
    bounds = (0, 5_461, 10_923, 16_384)
    for number in range(3):
        assert servers[number].cli("CLUSTER", "ADDSLOTSRANGE", str(bounds[number]), str(bounds[number + 1] - 1)) == "OK"
    for number, server in enumerate(servers):
        assert server.cli("CLUSTER", "SET-CONFIG-EPOCH", str(number + 1)) == "OK"
        if number:
            assert server.cli("CLUSTER", "MEET", "127.0.0.1", str(servers[0].port), str(buses[0])) == "OK"
    eventually(lambda: all(_knows(server, len(servers)) for server in servers), within_s=60)
    for number in range(replicas):
        master = servers[number].cli("CLUSTER", "MYID")
        eventually(lambda m=master, n=number: servers[3 + n].cli("CLUSTER", "REPLICATE", m) == "OK", within_s=30)
    for number in range(replicas):
        eventually(lambda n=number: "master_link_status:up" in servers[3 + n].cli("INFO", "replication"), within_s=60)
    return RedisCluster(servers)


def _knows(server: Redis, count: int) -> bool:
    told = server.cli("CLUSTER", "INFO")
    return "cluster_state:ok" in told and f"cluster_known_nodes:{count}" in told


@dataclass
class SentinelGroup:
    """A master, its replica, and three sentinels that watch it under the name `main`."""

    first: Redis
    second: Redis
    sentinels: list[Redis]
    name: str = "main"

    @property
    def url(self) -> str:
        return "redis://" + ",".join(f"127.0.0.1:{server.port}" for server in self.sentinels) + "/0"

    def master(self) -> int:
        """The port of the master as the first sentinel has it."""
        told = self.sentinels[0].cli("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.name).split()
        return int(told[1])


def start_sentinels(children: Children, folder: Path, *, env: Mapping[str, str] | None = None) -> SentinelGroup:
    """A master with a replica and three sentinels that fail over after half a second."""
    # A clock that a test moves by hours is no reason to think that the other side is gone.
    patient = ("--repl-timeout", "2000000000")
    first = start_redis(children, folder / "first", *patient, env=env)
    second = start_redis(children, folder / "second", "--replicaof", "127.0.0.1", str(first.port), *patient, env=env)
    eventually(lambda: "master_link_status:up" in second.cli("INFO", "replication"), within_s=30)
    sentinels = []
    for number in range(3):
        place = folder / f"sentinel-{number}"
        place.mkdir(parents=True)
        port = free_port()
        configuration = place / "sentinel.conf"
        configuration.write_text(
            f"port {port}\nbind 127.0.0.1\ndir {place}\n"
            f"sentinel monitor main 127.0.0.1 {first.port} 2\n"
            "sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n"
        )
        child = children.start([require_program("redis-server"), str(configuration), "--sentinel"], name="sentinel")
        child.wait_for_port(port)
        sentinels.append(Redis(children, place, port, (), None, child))
    for known in ("num-other-sentinels\n2", "num-slaves\n1"):
        for sentinel in sentinels:
            eventually(lambda each=sentinel, line=known: line in each.cli("SENTINEL", "MASTER", "main"), within_s=30)
    return SentinelGroup(first, second, sentinels)
