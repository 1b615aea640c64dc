"""The server's end of TLS: handshakes bounded in number and time, and callers that speak something else told so."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from dataplane.net.client_hello import RECORD_HANDSHAKE, HelloReader, NoHello, could_choose_finite_field, read_hello
from dataplane.net.tls import TlsTransport, reason_of

if TYPE_CHECKING:
    from common.telemetry.log import Log
    from dataplane.net.timers import TimerWheel

HANDSHAKES_MAX = 1_000
"""Handshakes at once. One more ends the one that has taken longest: who stalls makes room for who does not."""
HTTP_1_1 = b"http/1.1"
# Fatal alerts in clear, as nothing is encrypted yet (RFC 8446 §6, RFC 7301 §3.2).
NO_APPLICATION_PROTOCOL = b"\x15\x03\x03\x00\x02\x02\x78"
HANDSHAKE_FAILURE = b"\x15\x03\x03\x00\x02\x02\x28"
DECODE_ERROR = b"\x15\x03\x03\x00\x02\x02\x32"

_PLAIN_BODY = b'{"error":"bad_request","message":"This port speaks TLS. Use https."}'
PLAIN_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncache-control: no-store\r\n"
    b"proxy-status: wicketgate; error=http_request_error\r\nconnection: close\r\n"
    b"content-length: " + str(len(_PLAIN_BODY)).encode() + b"\r\n\r\n" + _PLAIN_BODY
)


class Handshakes:
    """What the TLS connections of one listener share; it bounds their handshakes in number and time."""

    def __init__(
        self,
        make_protocol: Callable[[], asyncio.Protocol],
        context: Callable[[], ssl.SSLContext],
        wheel: TimerWheel,
        log: Log,
        *,
        handshake_s: float,
        on_over: Callable[[], None] = lambda: None,
        most: int = HANDSHAKES_MAX,
    ) -> None:
        """`context` is asked for each handshake. `handshake_s` runs from accepting to the end of the handshake, and
        `on_over` is called then.
        """
        self.make_protocol = make_protocol
        self.context = context
        self.wheel = wheel
        self.log = log
        self.handshake_s = handshake_s
        self.most = most
        self._on_over = on_over
        self._open: dict[ServerTls, None] = {}

    def __len__(self) -> int:
        """Callers that were accepted and have not finished their handshake."""
        return len(self._open)

    def begin(self, connection: ServerTls) -> None:
        if len(self._open) >= self.most:
            longest = next(iter(self._open))
            self.over(longest)
            longest.abort()
        self._open[connection] = None

    def over(self, connection: ServerTls) -> None:
        if connection in self._open:
            del self._open[connection]
            self._on_over()

    def abort_all(self) -> None:
        """End those that are not over."""
        for connection in list(self._open):
            connection.abort()


class ServerTls(TlsTransport):
    """The gateway's end of one caller's TLS connection."""

    __slots__ = ("_reader", "_shared", "_timer")

    def __init__(self, shared: Handshakes) -> None:
        super().__init__()
        self._shared = shared
        self._timer = shared.wheel.timer()
        self._reader: HelloReader | None = None
        """Of the ClientHello, until it is whole."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._timer.set(self._shared.handshake_s, self._too_slow)
        self._shared.begin(self)

    def eof_received(self) -> bool:
        if self._app is None:
            self._refuse("the caller left")
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._shared.over(self)
        super().connection_lost(exc)

    def _shake_hands(self, data: bytes = b"") -> None:
        if self._tls is not None:
            super()._shake_hands(data)
        elif not self._raw.is_closing():
            self._take(data)
            if self._begins_well(data):
                self._tls = self._shared.context().wrap_bio(self._incoming, self._outgoing, server_side=True)
                super()._shake_hands()

    def _begins_well(self, data: bytes) -> bool:
        """The ClientHello is there, and may be OpenSSL's to answer."""
        if self._reader is None:
            if data[0] != RECORD_HANDSHAKE:
                # A method of HTTP is told in clear, as its sender can read it.
                self._refuse("it speaks no TLS", PLAIN_ANSWER if data[:1].isalpha() and data[:1].isupper() else b"")
                return False
            self._reader = HelloReader()
        try:
            message = self._reader.feed(data)
        except NoHello:
            self._refuse("it sends no ClientHello", DECODE_ERROR)
            return False
        if message is None:
            return False
        self._reader = None
        hello = read_hello(message)
        if hello is None:
            return True
        if hello.protocols is not None and HTTP_1_1 not in hello.protocols:
            self._refuse("it does not offer http/1.1", NO_APPLICATION_PROTOCOL)
            return False
        if could_choose_finite_field(hello):
            self._refuse("it wants a group of a finite field", HANDSHAKE_FAILURE)
            return False
        return True

    def _handshake_failed(self, error: ssl.SSLError) -> None:
        self._refuse(reason_of(error))

    def _handshake_over(self) -> None:
        self._timer.cancel()
        self._app = self._shared.make_protocol()
        self._app.connection_made(self)
        self._shared.over(self)

    def _refuse(self, reason: str, answer: bytes = b"") -> None:
        if not self._raw.is_closing():
            self._tell(reason)
            if answer:
                self._raw.write(answer)
            self._close_soon()

    def _too_slow(self) -> None:
        self._tell("it was not over in time")
        self._raw.abort()

    def _tell(self, reason: str) -> None:
        name = self._raw.get_extra_info("peername")
        client = name[0] if isinstance(name, tuple) else ""
        self._shared.log.debug("TLS handshake failed", client=client, error=reason)
