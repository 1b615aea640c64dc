"""The sample upstream: pages for people, JSON, events, and endpoints that are slow or large on purpose.

It trusts nothing but the identity signature, as an upstream behind a gateway should. One event loop serves it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from dataplane.dev import views
from dataplane.dev.markup import asset, page
from dataplane.dev.seen import Seen, see

EVENT_INTERVAL_S = 1.0
SLOWEST_MS = 60_000
LARGEST_BYTES = 4 * 1024**3
_PIECE = b"wicketgate sample data, sixty-four bytes a line, nothing to see\n" * 1024


class SampleUpstream:
    """The upstream as an ASGI application, `app`. `provider` is the origin that a logout leads to."""

    def __init__(self, public_key_pem: str, provider: str, *, event_interval_s: float = EVENT_INTERVAL_S) -> None:
        self._public_key_pem = public_key_pem
        self._provider = provider
        self._event_interval_s = event_interval_s
        self._closing = asyncio.Event()
        self.app = Starlette(
            routes=[
                Route("/", self._overview),
                Route("/me", self._account),
                Route("/workspaces/{workspace}", self._workspace),
                Route("/stream", self._stream_page),
                Route("/events", self._events),
                Route("/api/echo", self._echo, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
                Route("/api/slow", self._slow),
                Route("/api/large", self._large),
                Route("/assets/{name}", asset),
            ],
            middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1"])],
            exception_handlers={404: self._not_found},
        )

    def close_streams(self) -> None:
        """End every open stream, so that a shutdown need not wait for a reader."""
        self._closing.set()

    def _see(self, request: Request) -> Seen:
        return see(request, self._public_key_pem)

    def _answer(self, request: Request, seen: Seen, markup: str, status: int = 200) -> Response:
        """The page for a browser, the same facts as JSON for a program."""
        if "text/html" not in request.headers.get("accept", ""):
            return JSONResponse(seen.as_json(), status, headers={"cache-control": "no-store"})
        return page(markup, form_targets=(self._provider,), status=status)

    async def _not_found(self, request: Request, _: Exception) -> Response:
        seen = self._see(request)
        return self._answer(request, seen, views.not_found(seen), 404)

    async def _overview(self, request: Request) -> Response:
        return self._answer(request, self._see(request), views.overview())

    async def _account(self, request: Request) -> Response:
        seen = self._see(request)
        return self._answer(request, seen, views.account(seen))

    async def _workspace(self, request: Request) -> Response:
        seen = self._see(request)
        return self._answer(request, seen, views.workspace(seen))

    async def _stream_page(self, request: Request) -> Response:
        seen = self._see(request)
        return self._answer(request, seen, views.stream(seen))

    async def _events(self, request: Request) -> Response:
        """Server-sent events, one an interval, for ever or for `count` of them."""
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        events = self._ticks(self._see(request).subject, _number(request, "count", 0, 1_000_000))
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    async def _ticks(self, subject: str, count: int) -> AsyncIterator[bytes]:
        number = 0
        while not self._closing.is_set():
            number += 1
            sent_at = time.strftime("%H:%M:%S UTC", time.gmtime())
            tick = json.dumps({"number": number, "subject": subject, "sentAt": sent_at})
            yield f"id: {number}\nevent: tick\ndata: {tick}\n\n".encode()
            if number == count:
                return
            await self._pause(self._event_interval_s)

    async def _pause(self, seconds: float) -> None:
        """Wait, but no longer than until the upstream closes."""
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            return

    async def _echo(self, request: Request) -> Response:
        """What arrived, and the length and digest of the body, however large: it is never held whole."""
        digest = hashlib.sha256()
        length = 0
        async for piece in request.stream():
            digest.update(piece)
            length += len(piece)
        body = {"bytes": length, "sha256": digest.hexdigest()}
        return JSONResponse({**self._see(request).as_json(), "body": body}, headers={"cache-control": "no-store"})

    async def _slow(self, request: Request) -> Response:
        """Answers after `ms` milliseconds."""
        wait_ms = _number(request, "ms", 1_000, SLOWEST_MS)
        await self._pause(wait_ms / 1_000)
        return JSONResponse({"waitedMs": wait_ms})

    async def _large(self, request: Request) -> Response:
        """A body of `bytes` bytes, made as it is sent."""
        size = _number(request, "bytes", 1_048_576, LARGEST_BYTES)

        async def pieces() -> AsyncIterator[bytes]:
            left = size
            while left > 0 and not self._closing.is_set():
                piece = _PIECE[:left]
                left -= len(piece)
                yield piece

        return StreamingResponse(pieces(), media_type="text/plain", headers={"content-length": str(size)})


def _number(request: Request, name: str, default: int, most: int) -> int:
    """A parameter between 0 and `most`; what cannot be read counts as the default."""
    sent = request.query_params.get(name, "")
    return min(int(sent), most) if sent.isascii() and sent.isdigit() and len(sent) < 16 else default
