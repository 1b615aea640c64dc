"""ASGI applications on uvicorn, for every program but the data plane, which speaks HTTP itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import time
from collections.abc import Callable, Generator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar

import h11
import orjson
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from common.connections import Places, connections_max, host_of
from common.telemetry.request_id import new_request_id

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from common.telemetry.log import Log

_BACKLOG = 1_024

HEAD_TIMEOUT_S = 10.0
"""What a caller gets for a request's head, and for the rest of a body that nobody reads any more."""


PIECES_FREE = 1_024
PIECE_LEAST_BYTES = 64
"""Chunks of a body, on average, once there are many: smaller ones cost a thousand times the work of their bytes."""

STALLED_S = 10.0
STALLED_BYTES = 65_536
"""A caller takes that much of an answer in that time, or all of it; else the connection would be held for ever."""

_REFUSED_STAY_S = 1.0
_REFUSED_STAY_MAX = 64
"""Refused connections that are held for a moment, so that their callers read why; beyond these they are just ended."""


class JsonProtocol(H11Protocol):
    """HTTP/1.1 whose answer to what is no HTTP is JSON with an id, like every other; it waits for no head for ever."""

    _late: asyncio.TimerHandle | None = None
    _unsent = 0

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.conn = _Connection(h11.SERVER)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def look(self) -> None:
        """End the connection if its caller took too little of an answer since the last look."""
        before, self._unsent = self._unsent, self.transport.get_write_buffer_size()
        if before and before - STALLED_BYTES < self._unsent <= before:
            self.transport.abort()

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
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(_answer(self.conn, 400, "bad_request", msg))
        self.transport.close()


class _Connection(h11.Connection):
    """Refuses bodies in many tiny chunks, whose taking apart would hold up everybody, and such that another reader may
    end elsewhere (RFC 9112 §6.1).
    """

    _pieces = 0
    _piece_bytes = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Data):
            self._pieces += 1
            self._piece_bytes += len(event.data)
            if self._pieces > PIECES_FREE and self._piece_bytes < self._pieces * PIECE_LEAST_BYTES:
                raise h11.RemoteProtocolError("the chunks of the body are too small")
        elif isinstance(event, h11.Request):
            self._pieces = self._piece_bytes = 0
            names = {name for name, _ in event.headers}
            if b"transfer-encoding" in names and (b"content-length" in names or event.http_version < b"1.1"):
                # A proxy in front may have read the other length, and then what follows as another request.
                raise h11.RemoteProtocolError("a body whose end is stated in two ways")
        return event


class _Refused(asyncio.Protocol):
    """A connection that there is no place for: told so, and ended."""

    staying: ClassVar[set[_Refused]] = set()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        conn = h11.Connection(h11.SERVER)
        message = "There is no room for another connection. Nothing was read; try again."
        transport.write(_answer(conn, 503, "overloaded", message, (b"retry-after", b"1")))
        if len(self.staying) >= _REFUSED_STAY_MAX:
            transport.close()
            return
        # Ended at once, what the caller sends would be answered with a reset, and the answer lost.
        transport.write_eof()
        self.staying.add(self)
        self._end = asyncio.get_running_loop().call_later(_REFUSED_STAY_S, transport.abort)

    def connection_lost(self, _: Exception | None) -> None:
        if self in self.staying:
            self.staying.discard(self)
            self._end.cancel()


class _Placed(JsonProtocol):
    """A connection that leaves its place when it ends."""

    places: Places
    host: str

    def connection_lost(self, exc: Exception | None) -> None:
        self.places.leave(self.host)
        super().connection_lost(exc)


class _Door(asyncio.Protocol):
    """What a connection is until it is known whether there is a place for it."""

    def __init__(self, places: Places, made: Callable[[], _Placed]) -> None:
        self._places = places
        self._made = made

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        peer = transport.get_extra_info("peername")
        host = host_of(peer[0]) if isinstance(peer, tuple) else ""
        inside: asyncio.Protocol = _Refused()
        if self._places.take(host):
            inside = self._made()
            inside.places, inside.host = self._places, host
        transport.set_protocol(inside)
        inside.connection_made(transport)


def _answer(conn: h11.Connection, status: int, code: str, message: str, *more: tuple[bytes, bytes]) -> bytes:
    """An answer below the application, after which the connection closes."""
    body = orjson.dumps({"error": code, "message": message})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-request-id", new_request_id().encode()),
        (b"connection", b"close"),
        *more,
    ]
    head = h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase.encode())
    return b"".join(conn.send(event) or b"" for event in (head, h11.Data(data=body), h11.EndOfMessage()))


class Server(uvicorn.Server):
    """Serves one application until it is told to end, and leaves the process's signals to whoever runs the loop.

    No header changes the address of a caller, none says what serves, and nothing is logged: that is the application's.
    """

    def __init__(self, app: ASGIApp, *, drain_s: float, of_one_host: float = 1.0) -> None:
        """`drain_s` (at least 1) is what open requests get when it ends; then they are cut off. `of_one_host` is the
        share of all connections that one host may have.
        """
        most = connections_max()
        self._places = Places(most, max(1, int(most * of_one_host)))
        config = uvicorn.Config(
            app,
            http=self._door,  # type: ignore[arg-type]
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=max(1, round(drain_s)),
        )
        super().__init__(config)
        self._looked_at = time.monotonic()
        self.listening = asyncio.Event()
        """Set once it accepts connections."""

    def _door(self, **named: Any) -> _Door:
        return _Door(self._places, lambda: _Placed(**named))

    async def on_tick(self, counter: int) -> bool:
        if time.monotonic() - self._looked_at >= STALLED_S:
            self._looked_at = time.monotonic()
            for connection in list(self.server_state.connections):
                if isinstance(connection, JsonProtocol):
                    connection.look()
        return await super().on_tick(counter)

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
