"""A real gateway in the test's own loop, on a free port, with its log lines in a list; and callers that speak bytes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from common.settings.gateway import GatewaySettings
from common.state.ports import NewSession
from common.telemetry.log import Log
from dataplane.gateway import Gateway
from dataplane.spans import Spans

DEADLINE_S = 15.0

DEFAULTS: dict[str, Any] = {"auth": {"mode": "none"}}


def table(*routes: dict[str, Any], **top: Any) -> dict[str, Any]:
    """A version 2 table; each route gets an id and `auth.mode: none` where it has none."""
    filled = [{"id": f"r{index}", **route} for index, route in enumerate(routes)]
    return {"version": 2, "defaults": DEFAULTS, "routes": filled, **top}


def route(upstream: str | list[str], path: str = "/", **fields: Any) -> dict[str, Any]:
    match = {"path": path, **fields.pop("match", {})}
    return {"match": match, "upstream": upstream, **fields}


@dataclass
class Answer:
    """A response as a caller read it."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    raw_head: bytes

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]

    def value(self, name: str) -> str:
        (value,) = self.values(name)
        return value

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Caller:
    """One raw connection to the gateway."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, method: str = "GET") -> Answer:
        """The next response, read by its framing; interim responses are skipped."""
        while True:
            head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), DEADLINE_S)
            status, headers = parse_head(head)
            if status >= 200:
                break
        names = dict(headers)
        body = b""
        if method == "HEAD" or status in (204, 304):
            pass
        elif "content-length" in names:
            body = await asyncio.wait_for(self.reader.readexactly(int(names["content-length"])), DEADLINE_S)
        elif names.get("transfer-encoding") == "chunked":
            body = await self._chunked()
        else:
            body = await asyncio.wait_for(self.reader.read(-1), DEADLINE_S)
        return Answer(status, headers, body, head)

    async def _chunked(self) -> bytes:
        body = b""
        while True:
            size = int(await asyncio.wait_for(self.reader.readuntil(b"\r\n"), DEADLINE_S), 16)
            data = await asyncio.wait_for(self.reader.readexactly(size + 2), DEADLINE_S)
            assert data.endswith(b"\r\n")
            if size == 0:
                return body
            body += data[:-2]

    async def ask(self, data: bytes, method: str = "GET") -> Answer:
        await self.send(data)
        return await self.answer(method)

    async def rest(self) -> bytes:
        """Everything until the gateway closes."""
        try:
            return await asyncio.wait_for(self.reader.read(-1), DEADLINE_S)
        except ConnectionError:
            return b""

    def close(self) -> None:
        self.writer.close()

    def vanish(self) -> None:
        """Reset the connection, whatever is still on its way."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


def parse_head(head: bytes) -> tuple[int, list[tuple[str, str]]]:
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    return int(first.split(" ")[1]), headers


@dataclass
class Running:
    """A started gateway."""

    gateway: Gateway
    lines: list[dict[str, Any]] = field(default_factory=list)
    _callers: list[Caller] = field(default_factory=list)

    @property
    def port(self) -> int:
        return self.gateway.port

    async def connect(self) -> Caller:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**20)
        caller = Caller(reader, writer)
        self._callers.append(caller)
        return caller

    async def connect_tls(self, context: ssl.SSLContext, name: str = "app.test", **options: Any) -> Caller:
        """A TLS connection, after its handshake; `name` is asked for and looked for in the certificate."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.gateway.tls_port, limit=2**20, ssl=context, server_hostname=name, **options
        )
        caller = Caller(reader, writer)
        self._callers.append(caller)
        return caller

    async def raw(self, data: bytes, method: str = "GET") -> Answer:
        """One request on a connection of its own."""
        caller = await self.connect()
        return await caller.ask(data, method)

    async def get(self, target: str = "/", *headers: str, method: str = "GET", host: str = "app.test") -> Answer:
        lines = "".join(f"{line}\r\n" for line in (f"host: {host}", *headers))
        return await self.raw(f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1"), method)

    async def session(self, subject: str = "user-1", email: str = "", roles: tuple[str, ...] = ()) -> str:
        """Log a subject in behind the login's back; the `cookie` header line of its browser."""
        session_id = secrets.token_urlsafe(32)
        stored = hashlib.sha256(session_id.encode()).hexdigest()
        settings = self.gateway.settings
        await self.gateway.state.create_session(
            NewSession(stored, subject, email, roles, settings.session_idle_ms, settings.session_max_age_ms)
        )
        return f"cookie: gateway_session={session_id}"

    def requests(self) -> list[dict[str, Any]]:
        """The request lines of the log so far."""
        return [line for line in self.lines if line["msg"] == "request"]

    def permissive_settings(self) -> list[str]:
        """What the log has warned of so far (§12.2)."""
        return [line["setting"] for line in self.lines if line["msg"] == "permissive setting"]

    async def request_line(self, count: int = 1) -> dict[str, Any]:
        """The `count`-th request line, as soon as it is written."""
        async with asyncio.timeout(DEADLINE_S):
            while len(self.requests()) < count:
                await asyncio.sleep(0)
        return self.requests()[count - 1]

    def metric(self, name: str, **labels: str) -> float:
        """A sample of what `/metrics` says; 0 for a series that does not exist."""
        for family in text_string_to_metric_families(self.gateway.metrics.render().decode()):
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return sample.value
        return 0.0

    async def settled(self) -> None:
        """No exchange runs any more."""
        async with asyncio.timeout(DEADLINE_S):
            while self.metric("gateway_active_exchanges") or self.metric("gateway_active_requests"):
                await asyncio.sleep(0)


@asynccontextmanager
async def running(
    tmp_path: Path,
    document: dict[str, Any] | None,
    *,
    clock: Callable[[], float] = time.monotonic,
    spans: Spans | None = None,
    **settings: Any,
) -> AsyncIterator[Running]:
    """A gateway over a table (None: the file does not exist), with settings that suit a test where none are given.

    `clock` is what its budgets run by.
    """
    file = tmp_path / "routes.json"
    if document is not None:
        file.write_text(json.dumps(document))
    chosen = replace(
        GatewaySettings(
            host="127.0.0.1",
            port=0,
            config=file,
            public_url="http://app.test",
            shutdown_timeout_s=0.3,
            log_level="debug",
        ),
        **settings,
    )
    lines: list[dict[str, Any]] = []
    gateway = Gateway(
        chosen, Log(lambda line: lines.append(json.loads(line)), level=chosen.log_level), clock=clock, spans=spans
    )
    state = Running(gateway, lines)
    await gateway.start()
    try:
        yield state
    finally:
        for caller in state._callers:
            caller.close()
        await gateway.stop()
