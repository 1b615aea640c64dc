"""The benchmark of WebSockets works, and counts no message but those that came back as they were sent."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from dataplane.websocket.handshake import accept_of
from tests.support.counterparts import require_program
from tests.support.websocket_frames import BINARY, frame, parse
from tests.support.websocket_peers import KEY

ROOT = Path(__file__).parents[2]
Echo = Callable[[bytes], bytes]


@pytest.mark.real
@pytest.mark.slow
def test_a_short_run_measures_the_relay_beside_nginx(tmp_path: Path) -> None:
    require_program("nginx")
    file = tmp_path / "results" / "websocket.json"
    argv = [sys.executable, "-m", "tests.bench", "websocket", "--short", "--json", str(file)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(file.read_text())["results"]
    assert set(results) == {"nginx", "wicketgate", "direct"}
    for name, shapes in results.items():
        (sample,) = shapes["small"]
        assert sample["requests"] > 0
        assert 0 < sample["p50_us"] <= sample["p99_us"]
        assert name == "direct" or sample["cpu_us"] > 0


def echo_once(answer: Echo, port_is: Callable[[int], None]) -> None:
    """One WebSocket whose every message is answered with what `answer` makes of it; an empty answer ends it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port_is(listener.getsockname()[1])
        connection, _ = listener.accept()
        with connection:
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(4_096)
            accept = accept_of(KEY.encode())
            connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nsec-websocket-accept: %b\r\n\r\n" % accept)
            while data := connection.recv(4_096):
                (sent,) = parse(data)
                answered = answer(sent.payload)
                if not answered:
                    return
                connection.sendall(frame(BINARY, answered))


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (lambda payload: payload[:-1] + bytes((payload[-1] ^ 1,)), "another message"),
        (lambda payload: payload + b"x", "another message"),
        (lambda payload: b"", "closed"),
    ],
    ids=["one bit", "one byte more", "an end"],
)
def test_a_message_that_comes_back_otherwise_ends_the_benchmark(answer: Echo, complaint: str) -> None:
    ports: list[int] = []
    known = threading.Event()

    def port_is(port: int) -> None:
        ports.append(port)
        known.set()

    server = threading.Thread(target=echo_once, args=(answer, port_is))
    server.start()
    assert known.wait(10)
    argv = [sys.executable, "-m", "tests.bench.peers.websocket_load", str(ports[0]), "1", "64", "1"]
    done = subprocess.run(argv, cwd=ROOT, input="1\n", capture_output=True, text=True, timeout=60, check=False)
    server.join(10)
    assert done.returncode != 0
    assert done.stdout == "ready\n"
    assert complaint in done.stderr
