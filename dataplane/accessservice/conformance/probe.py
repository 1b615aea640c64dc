"""Requests to the service under test, and its answers as values."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import orjson

from dataplane.access.protocol import ANSWER_MAX_BYTES, DECISIONS_PATH

if TYPE_CHECKING:
    from common.settings.secret import Secret

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Pair:
    """A subject and a workspace whose decision is known; `workspace_id` None asks without one."""

    subject: str
    workspace_id: str | None


@dataclass(frozen=True, slots=True)
class Target:
    """The service under test, and what is known of its policy.

    `url` is the base, without `/v1/decisions`. `roles` are held by the subject of `allow`. `reason_code` is what the
    denial must carry, `""` for any. `timeout_s` is the gateway's `GATEWAY_ACCESS_TIMEOUT_MS`.
    """

    url: str
    token: Secret
    allow: Pair
    deny: Pair
    route_id: str = "conformance"
    roles: tuple[str, ...] = ()
    reason_code: str = ""
    timeout_s: float = 3.0
    tls: ssl.SSLContext | None = None


class Unanswered(Exception):
    """No whole answer came; the text says what came instead."""


class Unreachable(Unanswered):
    """No connection could be made: every other question would end the same way."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. `body` is cut behind the bound of the protocol."""

    status: int
    body: bytes
    media_type: str


class Probe:
    """Sends requests as the gateway would: kept-alive connections, no redirects, no proxy of the environment."""

    def __init__(self, target: Target, client: httpx.AsyncClient) -> None:
        self.target = target
        self._client = client

    def question(self, pair: Pair, roles: tuple[str, ...] | None = None, **more: Any) -> dict[str, Any]:
        """The request's body for a pair; without `roles` the target's for the allowed subject, none for others."""
        if roles is None:
            roles = self.target.roles if pair.subject == self.target.allow.subject else ()
        asked: dict[str, Any] = {"subject": pair.subject}
        if pair.workspace_id is not None:
            asked["workspaceId"] = pair.workspace_id
        return {**asked, "routeId": self.target.route_id, "roles": list(roles), **more}

    async def ask(self, body: Mapping[str, Any] | bytes, **given: Any) -> Answer:
        """`POST /v1/decisions` with the token."""
        content = body if isinstance(body, bytes) else orjson.dumps(body)
        return await self.send("POST", DECISIONS_PATH, content, **given)

    async def send(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        *,
        authorization: str | None = "",
        media_type: str = JSON,
    ) -> Answer:
        """Any request; `authorization` `""` is the target's token, None sends none. Raises `Unanswered`."""
        headers = {}
        if authorization is not None:
            headers["authorization"] = authorization or f"Bearer {self.target.token.reveal()}"
        if content is not None:
            headers["content-type"] = media_type
        started = time.monotonic()
        try:
            async with asyncio.timeout(self.target.timeout_s):
                return await self._exchange(
                    httpx.Request(method, self.target.url + path, headers=headers, content=content)
                )
        except TimeoutError:
            waited = time.monotonic() - started
            raise Unanswered(f"no whole answer within {waited:.1f} s") from None
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Unreachable(f"no connection: {error}") from error
        except httpx.HTTPError as error:
            raise Unanswered(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from error

    async def _exchange(self, request: httpx.Request) -> Answer:
        response = await self._client.send(request, stream=True)
        body = bytearray()
        try:
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > ANSWER_MAX_BYTES:
                    break
        finally:
            await response.aclose()
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        return Answer(response.status_code, bytes(body), media_type)


def new_client(target: Target) -> httpx.AsyncClient:
    """A client for one run. A connection that cannot be made is told from an answer that does not come."""
    return httpx.AsyncClient(
        verify=True if target.tls is None else target.tls,
        trust_env=False,
        follow_redirects=False,
        timeout=httpx.Timeout(target.timeout_s, connect=0.9 * target.timeout_s),
    )
