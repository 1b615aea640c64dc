"""The server's end of TLS: handshakes bounded in number and time, and callers that speak something else told so."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from dataplane.net.client_hello import RECORD_HANDSHAKE, is_whole, offered_protocols
from dataplane.net.tls import TlsTransport, reason_of

if TYPE_CHECKING:
    from common.telemetry.log import Log
    from dataplane.net.timers import TimerWheel

HANDSHAKES_MAX = 1_000
"""Handshakes at once. One more ends the one that has taken longest: who stalls makes room for who does not."""
HTTP_1_1 = b"http/1.1"
OFFERS_HTTP_1_1 = b"\x08http/1.1"
"""As a ClientHello has it. Found anywhere in one it spares the walk through its extensions, for nearly all callers; to
be wrong about that means to go on without a protocol.
"""
NO_APPLICATION_PROTOCOL = b"\x15\x03\x03\x00\x02\x02\x78"
"""A fatal alert in clear (RFC 8446 §6, RFC 7301 §3.2): nothing is encrypted yet."""

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

    __slots__ = ("_hello", "_shared", "_timer")

    def __init__(self, shared: Handshakes) -> None:
        super().__init__()
        self._shared = shared
        self._timer = shared.wheel.timer()
        self._hello = b""
        """The first record, until it is whole."""

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
        if self._tls is None:
            data = self._hello = self._hello + data
            if self._raw.is_closing() or not self._begins_well(data):
                return
            self._hello = b""
            self._tls = self._shared.context().wrap_bio(self._incoming, self._outgoing, server_side=True)
        super()._shake_hands(data)

    def _begins_well(self, data: bytes) -> bool:
        """The first record is there, and may be OpenSSL's to read."""
        if data[0] != RECORD_HANDSHAKE:
            if data[:1].isalpha() and data[:1].isupper():
                self._raw.write(PLAIN_ANSWER)  # a method of HTTP: in clear, as its sender can read it
            self._refuse("it speaks no TLS")
            return False
        if not is_whole(data):
            return False
        offered = None if OFFERS_HTTP_1_1 in data else offered_protocols(data)
        if offered is not None and HTTP_1_1 not in offered:
            self._raw.write(NO_APPLICATION_PROTOCOL)
            self._refuse("it does not offer http/1.1")
            return False
        return True

    def _handshake_failed(self, error: ssl.SSLError) -> None:
        self._refuse(reason_of(error))

    def _handshake_over(self) -> None:
        self._timer.cancel()
        self._app = self._shared.make_protocol()
        self._app.connection_made(self)
        self._shared.over(self)

    def _refuse(self, reason: str) -> None:
        if not self._raw.is_closing():
            self._tell(reason)
            self._close_soon()

    def _too_slow(self) -> None:
        self._tell("it was not over in time")
        self._raw.abort()

    def _tell(self, reason: str) -> None:
        name = self._raw.get_extra_info("peername")
        client = name[0] if isinstance(name, tuple) else ""
        self._shared.log.debug("TLS handshake failed", client=client, error=reason)
