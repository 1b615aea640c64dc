"""What signals do to `gateway run` as one process."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway import route, table
from tests.support.ports import bound_socket, port_of
from tests.support.processes import Child, Children, eventually

ROOT = Path(__file__).parents[2]


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """An upstream that listens, and never answers by itself."""
    with bound_socket() as sock:
        sock.listen()
        sock.settimeout(15)
        yield sock


@pytest.fixture
def children() -> Iterator[Children]:
    with Children() as started:
        yield started


def start(children: Children, file: Path) -> tuple[Child, int]:
    """A gateway on a free port, listening."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
    settings = {"GATEWAY_HOST": "127.0.0.1", "GATEWAY_PORT": "0", "GATEWAY_CONFIG": str(file)}
    child = children.start_python("-m", "dataplane.cli", "run", name="gateway", env={**inherited, **settings}, cwd=ROOT)
    return child, int(child.wait_for_line(r'"msg":"listening".*"port":(\d+)')[1])


def test_a_second_signal_ends_at_once_what_the_first_would_wait_for(
    children: Children, silent: socket.socket, tmp_path: Path
) -> None:
    file = tmp_path / "routes.json"
    file.write_text(json.dumps(table(route(f"http://127.0.0.1:{port_of(silent)}"))))
    child, port = start(children, file)
    with socket.create_connection(("127.0.0.1", port)) as caller:
        caller.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        upstream, _ = silent.accept()
        child.send(signal.SIGTERM)
        child.wait_for_line('"msg":"draining"')
        assert child.returncode is None
        child.send(signal.SIGINT)
        assert child.wait() == 128 + signal.SIGINT
        assert "second signal" in child.output
        upstream.close()
        assert caller.recv(1_000) == b""


def test_sighup_reads_the_route_table_again(children: Children, tmp_path: Path) -> None:
    """A broken table is reported once, and again only when somebody asks for it."""
    file = tmp_path / "routes.json"
    file.write_text("{")
    child, _ = start(children, file)
    refused = [line for line in child.lines if '"configuration refused' in line]
    assert len(refused) == 1
    child.send(signal.SIGHUP)
    eventually(lambda: len([line for line in child.lines if '"configuration refused' in line]) == 2)
    child.send(signal.SIGTERM)
    assert child.wait() == 0
