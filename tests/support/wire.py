"""Conversations in bytes: what a connection to the gateway brought, cut into responses by their own framing."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from tests.support.gateway import DEADLINE_S, Answer, Caller, Running, parse_head
from tests.support.upstreams import Peer, Request, ok


@dataclass
class Recorded:
    """What an upstream got: every request of which a head came, and those that came whole."""

    begun: list[Request] = field(default_factory=list)
    whole: list[Request] = field(default_factory=list)
    connections: int = 0

    @property
    def lines(self) -> list[str]:
        """The request lines, in order of arrival."""
        return [request.line for request in self.begun]

    @property
    def raw(self) -> bytes:
        """Every byte of every request, bodies decoded."""
        return b"".join(request.head + request.body for request in self.begun)

    def clear(self) -> None:
        self.begun.clear()
        self.whole.clear()

    async def script(self, peer: Peer) -> None:
        """Answers each whole request with its own request line and the length of its body."""
        self.connections += 1
        while True:
            request = await peer.read_head()
            self.begun.append(request)
            length = request.values(b"content-length")
            if length:
                request.body = await asyncio.wait_for(peer.reader.readexactly(int(length[0])), DEADLINE_S)
            elif request.values(b"transfer-encoding"):
                request.body = await peer.read_chunked()
            self.whole.append(request)
            body = f"{request.line}|{len(request.body)}".encode()
            await peer.write(ok(b"" if request.line.startswith("HEAD ") else body))


def responses(raw: bytes, methods: tuple[str, ...] = ()) -> list[Answer]:
    """The final responses in `raw`, one behind the other; an `AssertionError` when it is anything else.

    `methods` are those of the requests, in order, where one was `HEAD`.
    """
    found: list[Answer] = []
    at = 0
    while at < len(raw):
        end = raw.find(b"\r\n\r\n", at) + 4
        assert end > 3, raw[at : at + 200]
        head = raw[at:end]
        status, headers = parse_head(head)
        at = end
        if status < 200:
            continue
        names = dict(headers)
        if status in (204, 304) or (len(methods) > len(found) and methods[len(found)] == "HEAD"):
            size = 0
        elif "content-length" in names:
            assert "transfer-encoding" not in names
            size = int(names["content-length"])
        else:
            size = len(raw) - at
        body = raw[at : at + size]
        assert len(body) == size, "a response that is cut short"
        found.append(Answer(status, headers, body, head))
        at += size
    return found


async def everything(gw: Running, raw: bytes) -> bytes:
    """Send `raw` on a connection of its own; what comes back until the gateway closes it."""
    caller = await gw.connect()
    with contextlib.suppress(ConnectionError):  # it may have answered and closed before all was sent
        await caller.send(raw)
    received = await caller.rest()
    caller.close()
    return received


async def still_open(caller: Caller, *, host: str = "app.test") -> bool:
    """Whether the connection carries another request, which is then answered like any other."""
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        return (await caller.ask(f"GET /healthz HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())).json == {"status": "ok"}
    return False


def total(gw: Running, name: str, **labels: str) -> float:
    """The sum of a metric's samples that have these labels among theirs."""
    return sum(value for sample, value in samples(gw, name) if labels.items() <= sample.items())


def samples(gw: Running, name: str) -> list[tuple[dict[str, str], float]]:
    """Labels and value of every sample of this name in what `/metrics` says."""
    return [
        (dict(sample.labels), sample.value)
        for family in text_string_to_metric_families(gw.gateway.metrics.render().decode())
        for sample in family.samples
        if sample.name == name
    ]
