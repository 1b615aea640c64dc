"""`gateway run` with certificates: what stops its start, what a reload says, and several workers on one port."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
from pathlib import Path

import pytest

from tests.support.certificates import Issued, client_context, expired, handmade, issue, replace
from tests.support.gateway import Caller, route, table
from tests.support.processes import Child, Children, eventually
from tests.support.redis import start_redis
from tests.support.tls import certified, hello_for
from tests.support.upstreams import answers, upstream
from tests.support.workers import ready, start_workers

ROOT = Path(__file__).parents[2]
OTHER = issue("other.test")


def start(children: Children, folder: Path, **variables: str) -> Child:
    file = folder / "routes.json"
    if not file.exists():
        file.write_text(json.dumps(table()))
    settings = {"HOST": "127.0.0.1", "PORT": "0", "TLS_PORT": "0", "CONFIG": str(file), "LOG_LEVEL": "debug"}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
    env = inherited | {f"GATEWAY_{name}": value for name, value in (settings | variables).items() if value}
    return children.start_python("-m", "dataplane.cli", "run", name="gateway", env=env, cwd=ROOT)


def pair(folder: Path, issued: Issued, name: str = "tls") -> dict[str, str]:
    chain, key = issued.write(folder, name)
    return {"TLS_CERT": str(chain), "TLS_KEY": str(key)}


def key_lines(issued: Issued) -> list[str]:
    """What must never be printed."""
    return [line for line in issued.key.decode().splitlines() if "-----" not in line and len(line) > 20]


@pytest.mark.parametrize(
    ("issued", "file", "reason"),
    [
        (expired("app.test"), "tls.crt", "the certificate expired at 20"),
        (Issued(issue("app.test").chain, OTHER.key), "tls.key", "is not the key of the certificate in"),
        (Issued(b"nonsense", OTHER.key), "tls.crt", "is not PEM"),
        (Issued(OTHER.chain, b"nonsense"), "tls.key", "is not a PEM"),
        (handmade(), "tls.crt", "certifies no name"),
    ],
    ids=["expired", "foreign key", "no certificate", "no key", "no name"],
)
def test_a_certificate_that_cannot_be_served_stops_the_start_and_names_the_file(
    children: Children, tmp_path: Path, issued: Issued, file: str, reason: str
) -> None:
    child = start(children, tmp_path, **pair(tmp_path, issued))
    assert child.wait(within_s=60.0) == 1
    assert re.search(
        rf"a certificate cannot be used: {re.escape(str(tmp_path / file))}: {re.escape(reason)}", child.output
    )
    assert "listening" not in child.output
    assert not [line for line in key_lines(issued) if line in child.output]


def test_every_file_that_cannot_be_served_is_named_at_once(children: Children, tmp_path: Path) -> None:
    one, two = pair(tmp_path, expired("a.test"), "one"), pair(tmp_path, handmade(), "two")
    both = {name: f"{one[name]},{two[name]}" for name in one}
    child = start(children, tmp_path, **both)
    assert child.wait(within_s=60.0) == 1
    assert "one.crt: the certificate expired" in child.output
    assert "two.crt: certifies no name" in child.output


def test_settings_that_contradict_each_other_stop_the_start(children: Children, tmp_path: Path) -> None:
    child = start(children, tmp_path, **(pair(tmp_path, issue("app.test")) | {"TLS_KEY": ""}))
    assert child.wait(within_s=60.0) == 1
    assert "GATEWAY_TLS_KEY: is not set, and GATEWAY_TLS_CERT is; set both, or neither" in child.output


def test_a_port_that_is_taken_is_told(children: Children, tmp_path: Path) -> None:
    first = start(children, tmp_path, **pair(tmp_path, issue("app.test")))
    port = first.wait_for_line(r'"msg":"listening for TLS".*"port":(\d+)')[1]
    second = start(children, tmp_path, **pair(tmp_path, issue("app.test")), TLS_PORT=port)
    assert second.wait(within_s=60.0) == 1
    assert "GATEWAY_TLS_PORT" in second.output


def test_a_bad_file_on_reload_is_told_and_no_key_is_ever_printed(children: Children, tmp_path: Path) -> None:
    good, other = issue("app.test"), issue("app.test")
    child = start(children, tmp_path, **pair(tmp_path, good))
    child.wait_for_line('"msg":"listening for TLS"')
    replace(tmp_path / "tls.key", other.key)
    child.send(signal.SIGHUP)
    refused = child.wait_for_line('"msg":"certificates refused, the last valid ones serve on".*')[0]
    assert "tls.key: is not the key of the certificate in" in refused
    replace(tmp_path / "tls.crt", other.chain)
    child.wait_for_line('"msg":"certificates replaced"')
    child.send(signal.SIGTERM)
    assert child.wait(within_s=60.0) == 0
    assert not [line for line in (*key_lines(good), *key_lines(other)) if line in child.output]


def test_a_name_that_is_not_ascii_is_refused_and_fills_no_log(children: Children, tmp_path: Path) -> None:
    """Python's `ssl` would write what it cannot decode to standard error, for each caller that sends it."""
    child = start(children, tmp_path, **pair(tmp_path, issue("app.test")))
    port = int(child.wait_for_line(r'"msg":"listening for TLS".*"port":(\d+)')[1])
    hello = hello_for("zzzz.test").replace(b"zzzz.test", b"zz\xff\xfe.test")
    with socket.create_connection(("127.0.0.1", port), timeout=15) as caller:
        caller.sendall(hello)
        assert caller.recv(7)[:1] == b"\x15", "an alert"
    child.wait_for_line('"msg":"an error that nothing could take","error":"UnicodeDecodeError"')
    child.send(signal.SIGTERM)
    assert child.wait(within_s=60.0) == 0
    assert all(line.startswith("{") for line in child.lines), "every line is an event"


async def shown(port: int) -> set[str]:
    """The names of the certificate that a new connection is shown."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_context(), server_hostname="app.test")
    names = certified(Caller(reader, writer))
    writer.close()
    return names


async def test_several_workers_serve_tls_on_one_port_and_all_take_a_new_certificate(
    children: Children, tmp_path: Path
) -> None:
    redis = start_redis(children, tmp_path / "redis")
    certificate = pair(tmp_path, issue("app.test", "old.test"))
    async with upstream(answers) as up:
        child = start_workers(children, tmp_path / "run", table(route(up.url)), redis.url, TLS_PORT="0", **certificate)
        fleet = await asyncio.to_thread(ready, child)
        said = await asyncio.to_thread(child.wait_for_line, r'"msg":"listening for TLS".*"port":(\d+)')
        port = int(said[1])
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=client_context(), server_hostname="app.test", ssl_handshake_timeout=15
        )
        writer.write(b"GET / HTTP/1.1\r\nhost: app.test\r\nconnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 OK\r\n")
        writer.close()
        new = issue("app.test", "new.test")
        new.write(tmp_path, "tls")
        await asyncio.to_thread(
            eventually, lambda: len([line for line in child.lines if '"certificates replaced"' in line]) == 2
        )
        assert {frozenset(await shown(port)) for _ in range(8)} == {frozenset({"app.test", "new.test"})}
        series = await fleet.metrics()
        expiry = series['gateway_certificate_expiry_timestamp_seconds{name="new.test"}']
        assert expiry == new.leaf.not_valid_after_utc.timestamp(), "the earliest, not a sum"
        child.send(signal.SIGTERM)
        assert await asyncio.to_thread(child.wait, within_s=30.0) == 0
    with pytest.raises(ConnectionRefusedError):
        await shown(port)


async def test_a_certificate_that_cannot_be_served_stops_all_workers(children: Children, tmp_path: Path) -> None:
    redis = start_redis(children, tmp_path / "redis")
    child = start_workers(children, tmp_path / "run", table(), redis.url, **pair(tmp_path, expired("app.test")))
    assert await asyncio.to_thread(child.wait, within_s=60.0) == 1
    assert "the certificate expired" in child.output
