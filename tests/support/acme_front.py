"""A front before the authority: counts what it is asked, holds requests, and answers some in the authority's place."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import trustme

from tests.support.pebble import Pebble

NOT_PASSED = {"content-length", "transfer-encoding", "connection"}


@dataclass
class Told:
    """An answer of the front."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def json(value: object, status: int = 200, **headers: str) -> Told:
        kind = "application/json" if status < 400 else "application/problem+json"
        return Told(status, json.dumps(value).encode(), {"content-type": kind, **headers})


Rule = Callable[[str, str], Awaitable[Told | None]]
"""From a method and a path to an answer; None passes the request on."""


async def pass_on(method: str, path: str) -> Told | None:
    return None


@dataclass
class Front:
    """Its address is `directory`; it passes on what `rule` does not answer."""

    pebble: Pebble
    ca: Path
    port: int = 0
    rule: Rule = pass_on
    asked: list[str] = field(default_factory=list)
    changed: Callable[[str, httpx.Response], bytes] | None = None
    """May replace a body on its way back."""

    @property
    def directory(self) -> str:
        return f"https://127.0.0.1:{self.port}/dir"

    def count(self, path: str) -> int:
        return sum(path in each for each in self.asked)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.split("\r\n")
            method, path, _ = first.split(" ")
            headers = {
                name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
            }
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.asked.append(f"{method} {path}")
            told = await self.rule(method, path) or await self._pass(method, path, headers, body)
            lines = [f"{name}: {value}" for name, value in told.headers.items() if name.lower() not in NOT_PASSED]
            start = "\r\n".join([f"HTTP/1.1 {told.status} X", *lines, f"content-length: {len(told.body)}"])
            writer.write(f"{start}\r\nconnection: close\r\n\r\n".encode() + (b"" if method == "HEAD" else told.body))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, httpx.HTTPError):
            pass  # the other side left, or the authority is down
        finally:
            writer.close()

    async def _pass(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Told:
        # With the caller's own `Host`: the authority makes its addresses of it.
        async with httpx.AsyncClient(
            verify=ssl.create_default_context(cafile=self.pebble.ca), trust_env=False
        ) as client:
            answer = await client.request(
                method, f"https://127.0.0.1:{self.pebble.port}{path}", headers=headers, content=body
            )
        content = answer.content if self.changed is None else self.changed(path, answer)
        return Told(answer.status_code, content, dict(answer.headers))


@asynccontextmanager
async def front(pebble: Pebble, folder: Path) -> AsyncIterator[Front]:
    """A front on a free port, with a certificate of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "front-ca.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    state = Front(pebble, folder / "front-ca.pem")
    tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await state.serve(reader, writer)
        except asyncio.CancelledError:
            pass  # the test is over
        finally:
            tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    state.port = server.sockets[0].getsockname()[1]
    try:
        yield state
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
