"""Memory of the data plane as a process: what streams through it does not stay in it."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import Children

ROOT = Path(__file__).parents[2]
TWO_GIB = 2 * 1024**3
GROWTH_MAX = 16 * 1024**2
BLOCK = bytes(1 << 20)


class BulkUpstream:
    """Takes an upload of any size, or sends two GiB, on blocking sockets in threads."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            data = b""
            while b"\r\n\r\n" not in data:
                data += connection.recv(65_536)
            head, _, rest = data.partition(b"\r\n\r\n")
            if head.startswith(b"GET"):
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % TWO_GIB)
                for _ in range(TWO_GIB // len(BLOCK)):
                    connection.sendall(BLOCK)
                return
            taken = len(rest)
            buffer = bytearray(1 << 20)
            while taken < TWO_GIB:
                taken += connection.recv_into(buffer)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def gateway(tmp_path: Path, children: Children) -> Iterator[tuple[int, int]]:
    """Process id and port of `gateway run` in front of a bulk upstream."""
    upstream = BulkUpstream()
    table = {
        "version": 2,
        "defaults": {"auth": {"mode": "none"}, "maxBodyBytes": 0},
        "routes": [{"id": "bulk", "match": {"path": "/"}, "upstream": f"http://127.0.0.1:{upstream.port}"}],
    }
    file = tmp_path / "routes.json"
    file.write_text(json.dumps(table))
    environment = {
        "PATH": os.environ["PATH"],
        "GATEWAY_HOST": "127.0.0.1",
        "GATEWAY_PORT": "0",
        "GATEWAY_CONFIG": str(file),
        "GATEWAY_PUBLIC_URL": "http://localhost",
    }
    child = children.start_python("-m", "dataplane.cli", "run", env=environment, cwd=ROOT)
    yield child.pid, int(child.wait_for_line(r'"msg":"listening".*"port":(\d+)')[1])
    upstream.close()


def peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def small_request(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as caller:
        caller.sendall(b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        assert caller.recv(65_536).startswith(b"HTTP/1.1 200")


def drain(caller: socket.socket) -> int:
    buffer = bytearray(1 << 20)
    taken = 0
    while size := caller.recv_into(buffer):
        taken += size
    return taken


@pytest.mark.slow
def test_two_gib_up_and_down_grow_the_peak_by_less_than_16_mib(gateway: tuple[int, int]) -> None:
    pid, port = gateway
    small_request(port)
    before = peak_bytes(pid)
    with socket.create_connection(("127.0.0.1", port)) as caller:
        caller.sendall(b"POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % TWO_GIB)
        for _ in range(TWO_GIB // len(BLOCK)):
            caller.sendall(BLOCK)
        assert caller.recv(65_536).startswith(b"HTTP/1.1 200")
    with socket.create_connection(("127.0.0.1", port)) as caller:
        caller.sendall(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        assert drain(caller) > TWO_GIB
    small_request(port)
    assert peak_bytes(pid) - before < GROWTH_MAX
