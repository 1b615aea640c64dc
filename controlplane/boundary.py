"""The rim of the API: each request gets its id and its log line, each answer the same protective headers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import orjson
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from common.telemetry.redact import redact_target
from common.telemetry.request_id import request_id
from controlplane.record import Record, keep_record

if TYPE_CHECKING:
    from common.telemetry.log import Log

# An answer is data for whoever asked: never kept, never a page, a script or a frame of another one. A page of the
# control plane's own says otherwise for itself.
PROTECTION = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
PROBES = frozenset(("/healthz", "/readyz", "/metrics"))
"""Asked every few seconds: their answers are logged at `debug`, unless they are refusals."""


class Boundary:
    """Wraps the application, and is the only thing around it. `HEAD` is answered like `GET`, without a body."""

    def __init__(
        self,
        app: ASGIApp,
        log: Log,
        *,
        done: Callable[[Record, float], None] = lambda _record, _seconds: None,
        now_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`done` is told of each request that was answered, and how long it took."""
        self._app = app
        self._log = log
        self._done = done
        self._now_s = now_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        began = self._now_s()
        sent = [value for name, value in scope["headers"] if name == b"x-request-id"]
        client = scope.get("client")
        record = Record(request_id(sent), client[0] if client else "")
        headless = scope["method"] == "HEAD"
        inner = {**scope, "method": "GET" if headless else scope["method"]}
        keep_record(inner, record)
        answer = _Answer(record, receive, send, headless=headless)
        try:
            await self._app(inner, answer.receive, answer.send)
        except asyncio.CancelledError:
            # The time to drain is over.
            await answer.fail("The control plane ends. Whether the request took effect is not known.")
            raise
        except Exception as error:  # noqa: BLE001 - the handlers of errors have answered; here it is only told
            record.failure = record.failure or error
            await answer.fail("The control plane failed. Its log says why.")
        finally:
            seconds = self._now_s() - began
            self._tell(scope, record, seconds)
            self._done(record, seconds)

    def _tell(self, scope: Scope, record: Record, seconds: float) -> None:
        query = scope["query_string"].decode("latin-1")
        target = scope["path"] + (f"?{query}" if query else "")
        if record.failure is not None or record.status == 0:
            write = self._log.error
        elif record.status >= 500:
            write = self._log.warning
        else:
            write = self._log.debug if scope["path"] in PROBES and record.status < 400 else self._log.info
        agent = next((value for name, value in scope["headers"] if name == b"user-agent"), None)
        write(
            "request",
            requestId=record.request_id,
            client=record.client,
            method=scope["method"],
            path=redact_target(target),
            status=record.status or None,
            error=record.error or None,
            detail=record.detail or None,
            operator=record.operator or None,
            scope=record.scope or None,
            durationMs=int(seconds * 1e6) / 1000,
            bytesIn=record.bytes_in,
            bytesOut=record.bytes_out,
            userAgent=agent,
            **({} if record.failure is None else {"exc": record.failure}),
        )


class _Answer:
    """The channels of one request, counted on the way."""

    def __init__(self, record: Record, receive: Receive, send: Send, *, headless: bool) -> None:
        self._record = record
        self._receive = receive
        self._send = send
        self._headless = headless

    async def receive(self) -> Message:
        message = await self._receive()
        self._record.bytes_in += len(message.get("body", b""))
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._record.status = message["status"]
            headers = MutableHeaders(raw=message.setdefault("headers", []))
            headers["x-request-id"] = self._record.request_id
            for name, value in PROTECTION.items():
                headers.setdefault(name, value)
        elif self._headless:
            message = {**message, "body": b""}
        self._record.bytes_out += len(message.get("body", b""))
        await self._send(message)

    async def fail(self, message: str) -> None:
        """Answer what was left without one; behind a head nothing can be added."""
        if self._record.status:
            return
        self._record.error = "internal_error"
        body = orjson.dumps({"error": "internal_error", "message": message})
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self.send({"type": "http.response.start", "status": 500, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})
