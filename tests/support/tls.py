"""TLS callers of a gateway in the test's loop, the openssl program as one, and a server with OpenSSL's own manners."""

from __future__ import annotations

import asyncio
import asyncio.subprocess
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.certificates import Issued, client_context, issue
from tests.support.counterparts import require_program
from tests.support.gateway import Answer, Caller, Running, running

DEADLINE_S = 15.0


@asynccontextmanager
async def secured(tmp_path: Path, document: dict[str, Any], *issued: Issued, **settings: Any) -> AsyncIterator[Running]:
    """A gateway that serves these certificates (one for `app.test` where none is given) from files."""
    pairs = [each.write(tmp_path, f"tls{index}") for index, each in enumerate(issued or (issue("app.test"),))]
    certificates, keys = zip(*pairs, strict=True)
    async with running(tmp_path, document, tls_cert=certificates, tls_key=keys, tls_port=0, **settings) as gw:
        yield gw


async def get(
    gw: Running, target: str = "/", *headers: str, host: str = "app.test", context: ssl.SSLContext | None = None
) -> Answer:
    """One request over a TLS connection of its own, which closes in order."""
    caller = await gw.connect_tls(context or client_context(), host)
    lines = "".join(f"{line}\r\n" for line in (f"host: {host}", "connection: close", *headers))
    answer = await caller.ask(f"GET {target} HTTP/1.1\r\n{lines}\r\n".encode())
    assert await caller.rest() == b""
    return answer


def certified(caller: Caller) -> set[str]:
    """The names of the certificate that a caller was shown."""
    shown = caller.writer.get_extra_info("peercert")
    return {value for _, value in shown["subjectAltName"]}


def hello_for(name: str) -> bytes:
    """The ClientHello of a caller, in one record."""
    sent = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        client_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname=name).do_handshake()
    return sent.read()


@asynccontextmanager
async def s_client_running(port: int, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`openssl s_client` at a server of this machine; its output and errors are one stream."""
    process = await asyncio.create_subprocess_exec(
        require_program("openssl"),
        "s_client",
        "-connect",
        f"127.0.0.1:{port}",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def s_client(port: int, *arguments: str, stdin: bytes = b"") -> str:
    """All that it says when it is given this input."""
    async with s_client_running(port, *arguments) as process:
        said, _ = await asyncio.wait_for(process.communicate(stdin), DEADLINE_S)
    return said.decode("utf-8", "replace")


@contextmanager
def openssl_server(context: ssl.SSLContext) -> Iterator[Served]:
    """A server of OpenSSL's own manners, in a thread: it sends its alerts, and answers each request with 200."""
    served = Served(socket.create_server(("127.0.0.1", 0)))
    thread = threading.Thread(target=_serve_connections, args=(served, context), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        served.listening.shutdown(socket.SHUT_RDWR)
        thread.join(DEADLINE_S)
        served.listening.close()


@dataclass
class Served:
    """What such a server has seen."""

    listening: socket.socket
    requests: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.listening.getsockname()[1]}"


def _serve_connections(served: Served, context: ssl.SSLContext) -> None:
    while True:
        try:
            accepted, _ = served.listening.accept()
        except OSError:
            return
        accepted.settimeout(DEADLINE_S)
        try:
            with context.wrap_socket(accepted, server_side=True) as connection:
                served.requests.append(connection.recv(65_536))
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
        except OSError:
            accepted.close()
