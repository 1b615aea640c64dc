"""What TLS costs the gateway: handshakes and records without sockets, and the memory of open connections.

Only the gateway's end is timed: it and a caller of Python's `ssl` pass bytes to each other in this process.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import trustme
import uvloop

from common.telemetry.log import Log
from dataplane.metrics import GatewayMetrics
from dataplane.net.timers import TimerWheel
from dataplane.net.tls_server import Handshakes, ServerTls
from dataplane.tls.certificate import read_certificate
from dataplane.tls.store import CertificateStore
from tests.bench.machine import BenchError, described, load_average, memory_bytes, raise_descriptor_limit, say
from tests.bench.pipeline import ANSWER
from tests.bench.report import Row, aligned, publish
from tests.bench.steps import REQUEST
from tests.support.certificates import Issued, client_context, issue
from tests.support.gateway import table
from tests.support.processes import Children

HANDSHAKES = 400
EXCHANGES = 20_000
CONNECTIONS = 2_000
NAME = "app.example.com"
BIG = b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n" + bytes(100_000)
ROOT = Path(__file__).parents[2]


def tls(*, short: bool, json_file: Path | None) -> None:
    """Measure and print; `short` shows that it works, and nothing of the speed."""
    raise_descriptor_limit()
    machine = described()
    scale = 100 if short else 1
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        times = runner.run(_times(HANDSHAKES // scale, EXCHANGES // scale))
    kept = _memory(CONNECTIONS // scale)
    machine["load_average_after"] = load_average()
    publish(machine, {"machine": machine, "us": times, "bytes": kept}, json_file)
    rows: list[Row] = [("the gateway's end", "µs", "(least-most)")]
    rows += [(name, f"{median(each):.0f}", f"({min(each):.0f}-{max(each):.0f})") for name, each in times.items()]
    print(aligned(rows), end="\n\n")
    print(aligned([("kept", "bytes each"), *((name, f"{size:.0f}") for name, size in kept.items())]))


class _Raw(asyncio.Transport):
    """A socket's transport that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.7", 40_000)})
        self.written = bytearray()

    def write(self, data: Any) -> None:
        self.written += data

    def taken(self) -> bytes:
        written = bytes(self.written)
        self.written.clear()
        return written

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0


class _Answering(asyncio.Protocol):
    """Answers whatever comes."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(self._answer)


class _Ends:
    """Both ends of one connection; `spent_us` is the gateway's own time."""

    def __init__(self, store: CertificateStore, context: ssl.SSLContext, answer: bytes, session: Any = None) -> None:
        wheel = TimerWheel(time.monotonic)
        shared = Handshakes(
            lambda: _Answering(answer), lambda: store.context, wheel, Log(lambda _: None), handshake_s=10
        )
        self.spent_us = 0.0
        self._to_client, self._to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = context.wrap_bio(self._to_client, self._to_server, server_hostname=NAME, session=session)
        self._raw = _Raw()
        self._server = self._timed(lambda: ServerTls(shared))
        self._timed(lambda: self._server.connection_made(self._raw))
        while not self._shake():
            self._pass()
        self._pass()

    def ask(self, size: int) -> None:
        """One request, and an answer of `size` bytes."""
        self.client.write(REQUEST)
        self._pass()
        while size > 0:
            size -= len(self.client.read(65_536))

    def _shake(self) -> bool:
        try:
            self.client.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def _pass(self) -> None:
        data = self._to_server.read()
        if data:
            self._timed(lambda: self._server.data_received(data))
        self._to_client.write(self._raw.taken())

    def _timed(self, call: Callable[[], Any]) -> Any:
        started = time.process_time_ns()
        result = call()
        self.spent_us += (time.process_time_ns() - started) / 1000
        return result


async def _times(handshakes: int, exchanges: int) -> dict[str, list[float]]:
    """Microseconds; some figures each."""
    found: dict[str, list[float]] = {}
    for kind in (trustme.KeyType.ECDSA, trustme.KeyType.RSA):
        store = _store(issue(NAME, key_type=kind))
        for version in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2):
            context = client_context()
            context.maximum_version = version
            name = f"handshake, {'P-256' if kind is trustme.KeyType.ECDSA else 'RSA 2048'}, TLS 1.{version.name[-1]}"
            say(name)
            found[name] = [_Ends(store, context, ANSWER).spent_us for _ in range(max(handshakes, 2))]
            if kind is trustme.KeyType.ECDSA:
                first = _Ends(store, context, ANSWER)
                first.ask(len(ANSWER))
                found[f"{name}, resumed"] = [
                    _Ends(store, context, ANSWER, first.client.session).spent_us for _ in range(max(handshakes, 2))
                ]
    for what, answer in (("a request and 0.5 kB", ANSWER), ("a request and 100 kB", BIG)):
        ends = _Ends(store, client_context(), answer)
        found[what] = []
        for _ in range(10):
            ends.spent_us = 0.0
            for _ in range(max(exchanges // 10, 1)):
                ends.ask(len(answer))
            found[what].append(ends.spent_us / max(exchanges // 10, 1))
    return found


def _store(issued: Issued) -> CertificateStore:
    store = CertificateStore(GatewayMetrics())
    store.install([read_certificate(issued.chain, issued.key, now_s=time.time(), chain_source="bench")])
    return store


def _memory(count: int) -> dict[str, float]:
    """Resident bytes that open TLS connections add to a gateway, each used once."""
    say(f"memory of {count} connections")
    with TemporaryDirectory() as folder, Children() as children:
        chain, key = issue(NAME).write(Path(folder))
        config = Path(folder) / "routes.json"
        config.write_text(json.dumps(table()))
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
        own = {"HOST": "127.0.0.1", "PORT": "0", "TLS_PORT": "0", "CONFIG": config, "TLS_CERT": chain, "TLS_KEY": key}
        env = inherited | {f"GATEWAY_{name}": str(value) for name, value in own.items()}
        child = children.start_python("-m", "dataplane.cli", "run", name="gateway", env=env, cwd=ROOT)
        port = int(child.wait_for_line(r'"msg":"listening for TLS".*"port":(\d+)', within_s=60.0)[1])
        context = client_context()
        _close([_opened(port, context) for _ in range(min(count, 200))])
        before = memory_bytes(child.pid)
        opened = [_opened(port, context) for _ in range(count)]
        used = memory_bytes(child.pid) - before
        _close(opened)
        return {"TLS connection, used once": used / count}


def _opened(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    sock = context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=30), server_hostname=NAME)
    sock.sendall(f"GET /healthz HTTP/1.1\r\nhost: {NAME}\r\n\r\n".encode())
    answer = sock.recv(65_536)
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise BenchError(f"a TLS connection was answered: {answer[:200]!r}")
    return sock


def _close(sockets: list[ssl.SSLSocket]) -> None:
    for sock in sockets:
        sock.close()
