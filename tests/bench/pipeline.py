"""A whole request through the real gateway, with the sockets taken away: what the gateway's own code costs.

    downstream transport (answers with the next request) <-> Gateway <-> upstream transport (answers at once)

The kernel's part and the load of other programs are missing from these figures, so a change of the code of a hundredth
shows, which it does not under wrk.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvloop

from common.routetable.compiled import Upstream
from common.settings.gateway import GatewaySettings
from common.settings.secret import Secret
from common.state.ports import NewSession
from common.telemetry.line_writer import LineWriter
from common.telemetry.log import Log
from dataplane.dev.accounts import MEMBER
from dataplane.gateway import Gateway
from dataplane.net.connection import DownstreamConnection
from dataplane.upstream.connection import UpstreamConnection
from tests.bench.steps import REQUEST, RESPONSE, SESSION_ID, document_of, services

CONNECTIONS = 32

ANSWER = RESPONSE + b"x" * 191
ALLOWED = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 15\r\n\r\n{"allow": true}'
NEW_PATH = REQUEST.index(b"?page=2") + len(b"?page=2")

BARE = {"id": "app", "match": {"path": "/"}, "upstream": "http://127.0.0.1:9", "auth": {"mode": "none"}}
FULL = BARE | {
    "match": {"path": "/workspaces/{workspaceId}/"},
    "auth": {"mode": "session", "workspace": {"param": "workspaceId", "requireUuid": True}},
}


class _Transport(asyncio.Transport):
    """A transport that answers what is written to it, when whoever waited for the write has had a turn of the loop: a
    peer is never faster.
    """

    def __init__(self, answer: Callable[[bytes], bytes | None]) -> None:
        super().__init__({"peername": ("192.0.2.7", 40_000)})
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self.protocol: asyncio.Protocol

    def connect(self, protocol: asyncio.Protocol) -> None:
        self.protocol = protocol
        protocol.connection_made(self)

    def write(self, data: Any) -> None:
        answer = self._answer(data)
        if answer is not None:
            self._loop.call_soon(self._loop.call_soon, self.protocol.data_received, answer)

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None: ...

    def close(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


@dataclass(frozen=True)
class Spent:
    """Microseconds a request: of this process's CPU time, and on the wall."""

    cpu_us: float
    wall_us: float


class Callers:
    """Connections that ask again as soon as they are answered, until enough answers came."""

    def __init__(self, *, vary: bool = False) -> None:
        self._vary = vary
        self._asked = 0
        self._left = 0
        self._done: asyncio.Future[None]

    async def run(self, gateway: Gateway, requests: int, connections: int = CONNECTIONS) -> Spent:
        """What each of `requests` requests took; `connections` of them are under way at a time."""
        self._left = requests
        self._done = asyncio.get_running_loop().create_future()
        transports = [_Transport(self._answered) for _ in range(connections)]
        for transport in transports:
            transport.connect(DownstreamConnection(gateway._listener))
        started, began = time.process_time_ns(), time.monotonic_ns()
        for transport in transports:
            transport.protocol.data_received(self._next())
        await self._done
        spent, passed = time.process_time_ns() - started, time.monotonic_ns() - began
        for transport in transports:
            transport.protocol.connection_lost(None)
        return Spent(spent / 1000 / requests, passed / 1000 / requests)

    def _answered(self, data: bytes) -> bytes | None:
        if not data.startswith(b"HTTP/1.1 200 "):
            self._done.set_exception(AssertionError(f"answered with {data[:300]!r}"))
            return None
        self._left -= 1
        if self._left <= 0:
            if not self._done.done():
                self._done.set_result(None)
            return None
        return self._next()

    def _next(self) -> bytes:
        if not self._vary:
            return REQUEST
        self._asked += 1
        return b"%b%d%b" % (REQUEST[:NEW_PATH], self._asked, REQUEST[NEW_PATH:])


async def _dial(gateway: Gateway, upstream: Upstream) -> UpstreamConnection:
    transport = _Transport(lambda data: ALLOWED if data.startswith(b"POST ") else ANSWER)
    connection = UpstreamConnection(upstream.origin, gateway._pool.read_head)
    transport.connect(connection)
    return connection


@asynccontextmanager
async def gateway(folder: Path, *, full: bool, others: int = 0, **settings: Any) -> AsyncIterator[Gateway]:
    """A gateway whose upstream and Access answer at once, and that knows the session of the member's requests. Its
    table has so many `others` beside their route.
    """
    (folder / "routes.json").write_bytes(document_of([*services(others), FULL if full else BARE]))
    chosen = replace(
        GatewaySettings(host="127.0.0.1", port=0, config=folder / "routes.json", public_url="http://app.example.com"),
        access_url="http://127.0.0.1:10",
        access_token=Secret("the token of a benchmark"),
        **settings,
    )
    with Path("/dev/null").open("wb") as null:
        writer = LineWriter(null.fileno())
        writer.attach(asyncio.get_running_loop())
        it = Gateway(chosen, Log(writer.write))
        it._pool.dial = lambda upstream, timeout_s: _dial(it, upstream)  # type: ignore[method-assign]
        await it.start()
        await it.state.create_session(
            NewSession(_hash(), MEMBER.subject, MEMBER.email, MEMBER.roles, 28_800_000, 86_400_000)
        )
        yield it
        await it.stop()
        writer.close()


async def idle_connection_bytes(it: Gateway, count: int) -> dict[str, float]:
    """What Python allocated for each of `count` connections, by tracemalloc: none of them used, and each used once."""
    loop = asyncio.get_running_loop()
    waiting: set[_Transport] = set()
    done: asyncio.Future[None]

    def answered(transport: _Transport, data: bytes) -> None:
        assert data.startswith(b"HTTP/1.1 200 "), data[:300]
        waiting.discard(transport)
        if not waiting:
            done.set_result(None)

    transports = [_Transport(lambda _: None) for _ in range(count)]
    for transport in transports:
        transport._answer = partial(answered, transport)
    await spent_on(it, requests=2 * CONNECTIONS)
    gc.collect()
    tracemalloc.start()
    for transport in transports:
        transport.connect(DownstreamConnection(it._listener))
    await asyncio.sleep(0)
    gc.collect()
    unused = tracemalloc.get_traced_memory()[0]
    for transport in transports:
        done = loop.create_future()
        waiting.add(transport)
        transport.protocol.data_received(REQUEST)
        await done
    await asyncio.sleep(0)
    gc.collect()
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    for transport in transports:
        transport.protocol.connection_lost(None)
    return {"unused": unused / count, "used once": used / count}


async def spent_on(it: Gateway, *, requests: int, connections: int = CONNECTIONS) -> Spent:
    """What each of as many requests of the member's takes."""
    return await Callers().run(it, requests, connections)


async def _measure(
    folder: Path, *, full: bool, vary: bool, requests: int, repeats: int, **settings: Any
) -> list[float]:
    async with gateway(folder, full=full, rate_limit_route_max=0, **settings) as it:
        callers = Callers(vary=vary)
        await callers.run(it, max(requests // 4, CONNECTIONS))
        return [(await callers.run(it, requests)).cpu_us for _ in range(repeats)]


def pipeline_us(
    *, full: bool, vary: bool = False, fast_lane: bool = True, others: int = 0, requests: int, repeats: int
) -> list[float]:
    """CPU microseconds a request, one figure a repetition; with `full`, session, decision, signature and log line."""
    with (
        TemporaryDirectory(prefix="wicketgate-bench-") as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        settings = {"http_fast_lane": fast_lane, "others": others}
        return runner.run(_measure(Path(folder), full=full, vary=vary, requests=requests, repeats=repeats, **settings))


def _hash() -> str:
    return hashlib.sha256(SESSION_ID.encode()).hexdigest()
