"""ASGI applications on uvicorn, for every program but the data plane, which speaks HTTP itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Generator
from typing import TYPE_CHECKING

import h11
import orjson
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from common.telemetry.request_id import new_request_id

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from common.telemetry.log import Log

_BACKLOG = 1_024

HEAD_TIMEOUT_S = 10.0
"""What a caller gets for a request's head, and for the rest of a body that nobody reads any more."""


class JsonProtocol(H11Protocol):
    """HTTP/1.1 whose answer to what is no HTTP is JSON with an id, like every other; it waits for no head for ever."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # The time runs from the first byte on: a byte now and then does not prolong it.
        if self.conn.their_state is not h11.IDLE and self.conn.our_state is not h11.DONE:
            self._expect_no_more()
        elif self._late is None:
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_no_more()
        super().connection_lost(exc)

    def _expect(self) -> None:
        self._late = self.loop.call_later(HEAD_TIMEOUT_S, self.transport.close)

    def _expect_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request, and close: where the next one would begin is not known."""
        body = orjson.dumps({"error": "bad_request", "message": msg})
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
            (b"x-request-id", new_request_id().encode()),
            (b"connection", b"close"),
        ]
        head = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
        for event in (head, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class Server(uvicorn.Server):
    """Serves one application until it is told to end, and leaves the process's signals to whoever runs the loop.

    No header changes the address of a caller, none says what serves, and nothing is logged: that is the application's.
    """

    def __init__(self, app: ASGIApp, *, drain_s: float) -> None:
        """`drain_s` (at least 1) is what open requests get when it ends; then they are cut off."""
        config = uvicorn.Config(
            app,
            http=JsonProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=max(1, round(drain_s)),
        )
        super().__init__(config)
        self.listening = asyncio.Event()
        """Set once it accepts connections."""

    def end(self) -> None:
        """Let open requests finish; told a second time, wait for none."""
        self.force_exit = self.should_exit
        self.should_exit = True

    def end_at_signals(self) -> None:
        """`end` at SIGTERM and SIGINT, so that a stop that was asked for is no failure of the process."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.end)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


class _HandedOn(logging.Handler):
    """Writes what uvicorn logs as events."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        write = self._log.debug if record.levelno < logging.WARNING else self._log.warning
        write(record.getMessage().strip(), **({} if error is None else {"cause": type(error).__name__}))


def hand_on_logs(log: Log) -> None:
    """Let uvicorn's own messages be events of this log, in the whole process."""
    logger = logging.getLogger("uvicorn")
    logger.handlers = [_HandedOn(log)]
    logger.propagate = False


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at the first address of a host, so that callers may come before its server runs; raises
    `OSError`. Port 0 is any free one.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock
