"""A small request with a whole answer over the pooled connections: how the gateway itself calls Access."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dataplane.http1.heads import ResponseHead
from dataplane.http1.write import request_head
from dataplane.upstream.failure import Failure, UpstreamUnreachable

if TYPE_CHECKING:
    from common.routetable.compiled import Upstream
    from dataplane.net.timers import TimerWheel
    from dataplane.upstream.connection import UpstreamConnection
    from dataplane.upstream.pool import UpstreamPool


class CallFailed(Exception):
    """No answer: `failure` says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class AnswerTooLarge(Exception):
    """The answer's body is over the bound; it was not read on."""


class PooledClient:
    """POSTs to one service. A stale connection is replaced once; nothing else is ever sent twice."""

    def __init__(self, pool: UpstreamPool, wheel: TimerWheel, upstream: Upstream, *, timeout_s: float) -> None:
        self._pool = pool
        self._wheel = wheel
        self._upstream = upstream
        self._timeout_s = timeout_s

    async def post(
        self, path: str, headers: Sequence[tuple[bytes, bytes]], body: bytes, *, max_bytes: int
    ) -> tuple[int, bytes]:
        """Status and body of the answer. Raises `CallFailed`, `AnswerTooLarge`; `timeout_s` bounds the whole call."""
        message = (
            request_head(
                "POST",
                self._upstream.base_path + path,
                [(b"host", self._upstream.authority.encode()), *headers, (b"content-length", b"%d" % len(body))],
            )
            + body
        )
        due = self._wheel.clock() + self._timeout_s
        connection = self._pool.take(self._upstream)
        if connection is not None:
            call = await self._call(connection, message, max_bytes, due)
            if call.failure is None or not call.failure.stale:
                return call.answer()
        try:
            connection = await self._pool.dial(self._upstream, max(due - self._wheel.clock(), 0.001))
        except UpstreamUnreachable as error:
            raise CallFailed(error.failure) from error
        return (await self._call(connection, message, max_bytes, due)).answer()

    async def _call(self, connection: UpstreamConnection, message: bytes, max_bytes: int, due: float) -> _Call:
        timer = self._wheel.timer()
        call = _Call(max_bytes)
        timer.set(max(due - self._wheel.clock(), 0.0), call.timed_out)
        connection.begin("POST", call, message)
        try:
            await call.done
        finally:
            timer.cancel()
            if call.whole and connection.reusable:
                self._pool.give_back(connection)
            else:
                connection.abort()
        return call


class _Call:
    """Receives one answer whole."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self._status = 0
        self._pieces: list[bytes] = []
        self._too_large = False
        self.whole = False
        self.failure: Failure | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answer(self) -> tuple[int, bytes]:
        if self.failure is not None:
            raise CallFailed(self.failure)
        if self._too_large:
            raise AnswerTooLarge
        return self._status, b"".join(self._pieces)

    def on_head(self, head: ResponseHead) -> None:
        self._status = head.status
        if head.body_length > self._max_bytes:
            self._refuse_size()

    def on_whole(self, head: ResponseHead, body: bytes) -> None:
        self.on_head(head)
        self.on_piece(body)
        self.on_end()

    def on_piece(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._max_bytes:
            self._refuse_size()
        else:
            self._pieces.append(piece)

    def on_end(self) -> None:
        self.whole = not self._too_large
        self._finish()

    def on_batch(self) -> None: ...

    def on_failure(self, failure: Failure) -> None:
        self.failure = failure
        self._finish()

    def upstream_paused(self) -> None: ...

    def upstream_resumed(self) -> None: ...

    def timed_out(self) -> None:
        self.on_failure(Failure("timeout", "no whole answer within the call's budget"))

    def _refuse_size(self) -> None:
        self._too_large = True
        self._pieces.clear()
        self._finish()

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)
