"""WebSockets of the data plane as a process: what an open one costs, and what a slow reader makes it hold."""

from __future__ import annotations

import json
import os
import re
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dataplane.websocket.handshake import accept_of
from dataplane.workers.serve import raise_descriptor_limit
from tests.support.processes import Children
from tests.support.websocket_frames import BINARY, frame
from tests.support.websocket_peers import handshake

ROOT = Path(__file__).parents[2]
OPEN = 5_000
WARM = 50
CONNECTION_MAX_BYTES = 16 * 1024
STREAM_BYTES = 256 * 1024**2
SLOW_GROWTH_MAX = 4 * 1024**2
MESSAGE = bytes(100_000)
METRICS_TOKEN = "m" * 40


class RawUpstream:
    """Switches on each connection, then hands the blocking socket to a function, in a thread of its own."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=OPEN)
        self.port: int = self._socket.getsockname()[1]
        self.kept: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.kept.append(connection)
            data = b""
            while b"\r\n\r\n" not in data:
                data += connection.recv(65_536)
            key = re.search(rb"sec-websocket-key: (\S+)", data)
            assert key is not None
            connection.sendall(
                b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
                b"sec-websocket-accept: " + accept_of(key[1]) + b"\r\n\r\n"
            )
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def close(self) -> None:
        self._socket.close()
        for connection in self.kept:
            connection.close()


@pytest.fixture
def gateway(tmp_path: Path, children: Children) -> Iterator[Callable[[RawUpstream], tuple[int, int]]]:
    """Starts `gateway run` in front of an upstream: its process id and port."""
    upstreams = []

    def start(upstream: RawUpstream) -> tuple[int, int]:
        upstreams.append(upstream)
        entry = {"id": "ws", "match": {"path": "/"}, "upstream": f"http://127.0.0.1:{upstream.port}", "websocket": True}
        file = tmp_path / "routes.json"
        file.write_text(json.dumps({"version": 2, "defaults": {"auth": {"mode": "none"}}, "routes": [entry]}))
        environment = {
            "PATH": os.environ["PATH"],
            "GATEWAY_HOST": "127.0.0.1",
            "GATEWAY_PORT": "0",
            "GATEWAY_CONFIG": str(file),
            "GATEWAY_PUBLIC_URL": "http://localhost",
            "GATEWAY_WS_MAX_CONNECTIONS": "0",
            "GATEWAY_WS_MAX_PER_PRINCIPAL": "0",
            "GATEWAY_RATE_LIMIT_ROUTE_MAX": "0",
            "GATEWAY_METRICS_TOKEN": METRICS_TOKEN,
        }
        child = children.start_python("-m", "dataplane.cli", "run", env=environment, cwd=ROOT)
        return child.pid, int(child.wait_for_line(r'"msg":"listening".*"port":(\d+)')[1])

    yield start
    for upstream in upstreams:
        upstream.close()


def open_websocket(port: int) -> socket.socket:
    caller = socket.create_connection(("127.0.0.1", port))
    caller.settimeout(30)
    caller.sendall(handshake())
    head = b""
    while (end := head.find(b"\r\n\r\n")) < 0:
        head = caller.recv(4_096, socket.MSG_PEEK)
        assert head
    assert head.startswith(b"HTTP/1.1 101")
    receive(caller, end + 4)
    return caller


def resident_bytes(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def websockets_open(port: int) -> int:
    with socket.create_connection(("127.0.0.1", port)) as caller:
        credential = f"authorization: Bearer {METRICS_TOKEN}\r\n"
        caller.sendall(f"GET /metrics HTTP/1.1\r\nhost: a\r\n{credential}connection: close\r\n\r\n".encode())
        text = b"".join(iter(lambda: caller.recv(65_536), b""))
    found = re.search(rb"^gateway_websockets (\d+)", text, re.MULTILINE)
    assert found is not None, text
    return int(found[1])


@pytest.mark.slow
def test_five_thousand_open_websockets_cost_less_than_their_bound_and_all_of_them_work(
    gateway: Callable[[RawUpstream], tuple[int, int]], record_property: Callable[[str, object], None]
) -> None:
    raise_descriptor_limit()
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 2 * (OPEN + WARM) + 200:
        pytest.skip("the system grants too few descriptors (ulimit -Hn)")
    upstream = RawUpstream(lambda _: None)
    pid, port = gateway(upstream)
    message = frame(BINARY, bytes(1_000))
    with ExitStack() as stack:
        callers = [stack.enter_context(open_websocket(port)) for _ in range(WARM)]
        before = resident_bytes(pid)
        callers += [stack.enter_context(open_websocket(port)) for _ in range(OPEN)]
        opened = (resident_bytes(pid) - before) / OPEN
        assert websockets_open(port) == len(callers) == len(upstream.kept)
        for end in upstream.kept:
            end.sendall(message)
        for caller in callers:
            receive(caller, len(message))
        used = (resident_bytes(pid) - before) / OPEN
    record_property("bytes_per_websocket", round(opened))
    record_property("bytes_per_used_websocket", round(used))
    print(f"{OPEN} open WebSockets: {opened / 1024:.1f} KiB each, {used / 1024:.1f} KiB after a message")
    assert max(opened, used) < CONNECTION_MAX_BYTES


@pytest.mark.slow
def test_a_side_that_reads_slowly_makes_the_gateway_hold_nothing(
    gateway: Callable[[RawUpstream], tuple[int, int]],
) -> None:
    block = frame(BINARY, MESSAGE)
    sent = threading.Event()
    count = STREAM_BYTES // len(MESSAGE)

    def floods(connection: socket.socket) -> None:
        for _ in range(count):
            connection.sendall(block)
        sent.set()

    pid, port = gateway(RawUpstream(floods))
    before = resident_bytes(pid)
    with open_websocket(port) as caller:
        for _ in range(20):
            receive(caller, len(block))
            assert not sent.wait(0.05)
            assert resident_bytes(pid) - before < SLOW_GROWTH_MAX
        receive(caller, (count - 20) * len(block))
        assert sent.wait(30)
        growth = resident_bytes(pid) - before
    print(f"{STREAM_BYTES >> 20} MiB to a slow reader: {growth / 1024:.0f} KiB more resident")
    assert growth < SLOW_GROWTH_MAX


def receive(caller: socket.socket, size: int) -> None:
    buffer = bytearray(1 << 20)
    while size:
        taken = caller.recv_into(buffer, min(size, len(buffer)))
        assert taken
        size -= taken
