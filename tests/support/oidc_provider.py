"""Providers for tests: the certified one from npm with a person who logs in at it, and one that misbehaves."""

from __future__ import annotations

import asyncio
import json
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote_plus, urljoin, urlsplit

import httpx

from tests.support.node import MODULES, node_environment, require_module, require_node
from tests.support.processes import Child, Children

AUDIENCE = "urn:gateway"
"""The resource whose access tokens are signed with ES256; with `:rsa` behind it, with RS256."""

_HOPS_MAX = 12


def client_secret(client_id: str) -> str:
    """The secret that the provider knows of a client: with characters that must be form-encoded."""
    return f"secret of {client_id}: 100% + &"


@dataclass
class RealProvider:
    """The certified provider, running in Node.js. `stop` and `start` make an outage at one address."""

    children: Children
    public_url: str
    client_keys: Sequence[Mapping[str, Any]] = ()
    """What the client `gateway-key` may sign with."""
    port: int = 0
    issuer: str = ""
    _child: Child | None = field(default=None, repr=False)

    def start(self) -> RealProvider:
        """Start it, on the port that it had before where it was stopped."""
        require_module("oidc-provider")
        options = {
            "port": self.port,
            "redirectUris": [f"{self.public_url}/auth/callback"],
            "postLogoutRedirectUris": [f"{self.public_url}/"],
            "clientKeys": self.client_keys,
        }
        self._child = self.children.start(
            [require_node(), MODULES / "provider.mjs", json.dumps(options)],
            name="oidc-provider",
            env=node_environment(),
            cwd=Path(MODULES),
        )
        self.issuer = self._child.wait_for_line(r"listening (http://\S+)")[1]
        self.port = int(self.issuer.rpartition(":")[2])
        return self

    def stop(self) -> None:
        """Take it away, as a crash would; it forgets its keys, sessions and codes."""
        assert self._child is not None
        self._child.kill()

    async def rotate(self, *, withdraw: bool = False) -> None:
        """Sign with new keys from now on; `withdraw` takes the old ones out of the key set."""
        async with httpx.AsyncClient(trust_env=False) as client:
            query = "?withdraw" if withdraw else ""
            (await client.post(f"{self.issuer}/test/rotate{query}")).raise_for_status()

    async def take_secrets(self, *secrets: str) -> None:
        """Take these from the client `gateway` from now on, and no other; a start takes its first one alone."""
        async with httpx.AsyncClient(trust_env=False) as client:
            (await client.post(f"{self.issuer}/test/secrets", params={"secret": secrets})).raise_for_status()

    async def machine_token(self, audience: str = AUDIENCE) -> bytes:
        """An access token of the client credentials grant."""
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.post(
                f"{self.issuer}/token",
                data={"grant_type": "client_credentials", "resource": audience, "scope": "api"},
                headers={"authorization": _basic("machine", client_secret("machine"))},
            )
        answer.raise_for_status()
        token: str = answer.json()["access_token"]
        return token.encode()


def _basic(client_id: str, secret: str) -> str:
    return "Basic " + b64encode(f"{quote_plus(client_id)}:{quote_plus(secret)}".encode()).decode()


class Person:
    """Somebody's browser at the provider: keeps its cookies, fills in its forms, and stops where it leaves for us."""

    def __init__(self, name: str = "alice") -> None:
        self.name = name
        self._client = httpx.AsyncClient(trust_env=False, follow_redirects=False)

    async def visit(self, address: str, *, until: str) -> str:
        """Follow redirects and submit forms from `address` on; the first address that begins with `until`."""
        answer = await self._client.get(address)
        for _ in range(_HOPS_MAX):
            if answer.is_redirect:
                target = urljoin(str(answer.url), answer.headers["location"])
                if target.startswith(until):
                    return target
                answer = await self._client.get(target)
                continue
            form = re.search(r'<form[^>]*action="([^"]+)"', answer.text)
            assert form is not None, f"{answer.status_code} without a form: {answer.text[:2000]}"
            fields = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', answer.text))
            if 'name="login"' in answer.text:
                fields |= {"login": self.name, "password": "of no interest"}
            if "op.logoutForm" in answer.text:
                fields |= {"logout": "yes"}
            answer = await self._client.post(urljoin(str(answer.url), form[1].replace("&amp;", "&")), data=fields)
        raise AssertionError(f"{address} did not lead to {until}")

    async def close(self) -> None:
        await self._client.aclose()


@dataclass
class OddRequest:
    """A request as the odd provider got it."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(self.body.decode(), keep_blank_values=True).items()}


Write = Callable[[bytes], Awaitable[None]]
Behaviour = Callable[[OddRequest, Write], Awaitable[None]]


class OddProvider:
    """A raw HTTP server whose every path misbehaves as it is told. Counts and keeps what it was asked."""

    def __init__(self) -> None:
        self.behaviours: dict[str, Behaviour] = {}
        self.requests: list[OddRequest] = []
        self.asked = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.origin = ""

    async def __aenter__(self) -> OddProvider:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.origin = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def count(self, path: str) -> int:
        """How often a path was asked for."""
        return sum(urlsplit(request.target).path == path for request in self.requests)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def write(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            request = await _read(reader)
            self.requests.append(request)
            self.asked.set()
            await self.behaviours[urlsplit(request.target).path](request, write)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the other side left, or the test is over
        finally:
            self._tasks.discard(task)
            writer.close()


async def _read(reader: asyncio.StreamReader) -> OddRequest:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    return OddRequest(method, target, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


def answers(body: bytes, *, status: str = "200 OK", headers: str = "content-type: application/json\r\n") -> Behaviour:
    """Answers properly, whatever the content is worth."""

    async def behave(_: OddRequest, write: Write) -> None:
        await write(f"HTTP/1.1 {status}\r\n{headers}content-length: {len(body)}\r\n\r\n".encode() + body)

    return behave


def answers_json(value: object, *, status: str = "200 OK") -> Behaviour:
    """Answers with this value as JSON."""
    return answers(json.dumps(value).encode(), status=status)


async def hangs(_: OddRequest, write: Write) -> None:
    """Takes the request and says nothing until the other side leaves."""
    await write(b"")
    await asyncio.Event().wait()


async def resets(_: OddRequest, write: Write) -> None:
    """Closes without an answer."""


async def breaks_off(_: OddRequest, write: Write) -> None:
    """Promises more than it sends."""
    await write(b'HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{"keys"')


async def trickles(_: OddRequest, write: Write) -> None:
    """Sends a byte now and then, so that no single read takes long."""
    await write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    while True:
        await write(b" ")
        await asyncio.sleep(0.01)


async def never_ends(_: OddRequest, write: Write) -> None:
    """Sends as much as anyone will read."""
    await write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        await write(b" " * 65_536)
