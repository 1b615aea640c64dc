"""TLS between a socket of the loop and the protocol of a plain connection, with OpenSSL's memory buffers.

    socket -> transport -> TlsTransport.data_received -> decrypted -> protocol
    protocol -> TlsTransport.write -> encrypted -> transport -> socket

The loops' own TLS is not used: it drops the alert that tells a peer why its handshake failed, cannot tell a
connection's end from its being cut, knows no half of one, holds 256 KiB for each, and tells nothing of a connection
before its handshake is over.

Nothing is held here but records that are not whole and, while reading is paused, what came with the read before. What
is written goes to the transport at once, so its water marks are the protocol's. OpenSSL is handed little at a time,
either way: its buffers grow by a third over what is put into them, and keep that size as long as the connection lasts.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Any, TypeVar, cast

T = TypeVar("T")

RECORD_MAX_BYTES = 16_384  # RFC 8446 §5.1, of plain text
HANDED_BYTES = 2 * RECORD_MAX_BYTES
"""So much is in OpenSSL's hands at once: more than the longest record as it travels (RFC 5246 §6.2.3)."""
# A peer that asks for new keys and does not read the answers makes them pile up; no honest one comes near.
UNREAD_ANSWERS_MAX_BYTES = 1_048_576
NOTHING = memoryview(b"")
TELL_S = 1.0
"""How long a peer may take to read why it is cut off."""


class TlsTransport(asyncio.Protocol, asyncio.Transport):
    """One end of a TLS connection: the protocol of its socket's transport, and the transport of the protocol that
    comes into play when the handshake is over.

    The end of the peer's stream is told alike for its close_notify and for a bare FIN; `said_goodbye` tells them apart.
    Subclasses begin the handshake, and hear of its end.
    """

    __slots__ = (
        "_app",
        "_error",
        "_held",
        "_incoming",
        "_keep_open",
        "_outgoing",
        "_paused",
        "_raw",
        "_said_all",
        "_tls",
        "said_goodbye",
    )

    def __init__(self) -> None:
        super().__init__()
        self._raw: asyncio.Transport
        self._app: asyncio.BaseProtocol | None = None
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._held = NOTHING
        """What came and is not in `_incoming` yet."""
        self._tls: ssl.SSLObject | None = None
        self._error: ssl.SSLError | None = None
        self._paused = False
        self._said_all = False
        """close_notify went out."""
        self._keep_open: bool | None = None
        """What the protocol answered to the end of the peer's stream; None before it."""
        self.said_goodbye = False
        """close_notify came: nothing was cut off."""

    # The handshake

    def _shake_hands(self, data: bytes = b"") -> None:
        """One step of it, with what has come."""
        tls = cast(ssl.SSLObject, self._tls)
        self._take(data)
        try:
            self._step(tls.do_handshake)
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            self._flush()  # the alert that says why
            self._handshake_failed(error)
        else:
            self._flush()
            self._handshake_over()

    def _handshake_failed(self, error: ssl.SSLError) -> None:
        raise NotImplementedError

    def _handshake_over(self) -> None:
        """Make the protocol, and tell it of its connection."""
        raise NotImplementedError

    # asyncio.Protocol, towards the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._app is None:
            self._shake_hands(data)
        else:
            self._take(data)
        if self._app is not None:
            self._deliver()

    def eof_received(self) -> bool:
        return self._app is not None and self._ended()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._app is not None:
            self._app.connection_lost(self._error or exc)
            # They hold each other, and with this what OpenSSL holds: let go of, it is freed now, not when collected.
            self._app = None

    def pause_writing(self) -> None:
        if self._app is not None:
            self._app.pause_writing()

    def resume_writing(self) -> None:
        if self._app is not None:
            self._app.resume_writing()

    # What comes

    def _take(self, data: bytes) -> None:
        """Keep what has come for OpenSSL, in its order."""
        if not self._held and len(data) <= HANDED_BYTES:
            self._incoming.write(data)
        else:
            self._held = memoryview(bytes(self._held) + data)

    def _step(self, step: Callable[..., T], *arguments: Any) -> T:
        """One of OpenSSL's steps, given what has come as it is wanted; `SSLWantReadError` when all is not enough."""
        while True:
            room = HANDED_BYTES - self._incoming.pending
            if self._held and room > 0:
                self._incoming.write(self._held[:room])
                self._held = self._held[room:] or NOTHING  # an empty view would keep all that was read
            try:
                return step(*arguments)
            except ssl.SSLWantReadError:
                if not self._held:
                    raise

    def _deliver(self) -> None:
        """Hand on all that has come, as far as the protocol reads."""
        try:
            if isinstance(self._app, asyncio.BufferedProtocol):
                self._fill(self._app)
            else:
                self._gather(cast(asyncio.Protocol, self._app))
        except ssl.SSLError as error:
            self._break_off(error)
            return
        if self._outgoing.pending:
            self._flush()
            if self._raw.get_write_buffer_size() > UNREAD_ANSWERS_MAX_BYTES:
                self._raw.abort()
        if self.said_goodbye and self._keep_open is None and not self._ended():
            self.close()

    def _gather(self, app: asyncio.Protocol) -> None:
        """In one piece, as one read of a socket brings it."""
        pieces = []
        while not self._paused:
            data = self._read()
            if not data:
                break
            pieces.append(data)
            if self._drained:
                break
        if pieces:
            app.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def _read(self) -> bytes | None:
        """One record's data; None when there is no whole one, empty for close_notify."""
        try:
            tls = cast(ssl.SSLObject, self._tls)
            data = self._step(tls.read, RECORD_MAX_BYTES) if self._held else tls.read(RECORD_MAX_BYTES)
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLZeroReturnError:  # what Python makes of close_notify where it was said here before
            data = b""
        self.said_goodbye = not data
        return data

    def _fill(self, app: asyncio.BufferedProtocol) -> None:
        """Buffer by buffer, until it pauses."""
        tls = cast(ssl.SSLObject, self._tls)
        while not self._paused:
            buffer = cast(bytearray, app.get_buffer(-1))
            try:
                size = self._step(tls.read, len(buffer), buffer) if self._held else tls.read(len(buffer), buffer)
            except ssl.SSLWantReadError:
                return
            except ssl.SSLZeroReturnError:
                self.said_goodbye = True
                return
            if not size:
                self.said_goodbye = True
                return
            app.buffer_updated(cast(int, size))  # typeshed knows the form without a buffer only
            if self._drained:
                return

    @property
    def _drained(self) -> bool:
        """Nothing is left to decrypt; asked because OpenSSL's own answer is an exception, which costs more."""
        return not self._held and not self._incoming.pending and not cast(ssl.SSLObject, self._tls).pending()

    def _ended(self) -> bool:
        """The peer sends nothing more; whether its connection stays open for what it is still sent."""
        if self._keep_open is None:
            self._keep_open = bool(cast(asyncio.Protocol, self._app).eof_received())
        return self._keep_open

    def _break_off(self, error: ssl.SSLError) -> None:
        """The records cannot be read any more, or an alert came: the end, with an alert where one is due."""
        if not self._raw.is_closing():
            self._error = error
            self._flush()
            self._close_soon()

    def _close_soon(self) -> None:
        """Close with what is written; a peer that does not read it is cut."""
        asyncio.get_running_loop().call_later(TELL_S, self._raw.abort)
        self._raw.close()

    # asyncio.Transport, towards the protocol

    def write(self, data: Any) -> None:
        if self._said_all or not data or self._raw.is_closing():
            return
        tls = cast(ssl.SSLObject, self._tls)
        if len(data) <= RECORD_MAX_BYTES:
            tls.write(data)
            self._raw.write(self._outgoing.read())
            return
        records, rest = [], memoryview(data)
        while rest:
            rest = rest[tls.write(rest[:HANDED_BYTES]) :]
            records.append(self._outgoing.read())
        self._raw.write(b"".join(records))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """close_notify and FIN: the peer sees the end of what it is sent, and may still send."""
        self._say_all()
        if not self._raw.is_closing():
            self._raw.write_eof()

    def close(self) -> None:
        """Say close_notify, and close when everything written has gone out. The peer's agreement is not waited for
        (RFC 8446 §6.1).
        """
        if not self._raw.is_closing():
            self._say_all()
            self._raw.close()

    def abort(self) -> None:
        self._raw.abort()

    def is_closing(self) -> bool:
        return self._raw.is_closing()

    def pause_reading(self) -> None:
        self._paused = True
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        if self._paused and not self._raw.is_closing():
            self._paused = False
            if self._drained:
                self._raw.resume_reading()
            else:
                asyncio.get_running_loop().call_soon(self._go_on)

    def is_reading(self) -> bool:
        return not self._paused and self._raw.is_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._app = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._app is not None  # noqa: S101 (asked after the handshake)
        return self._app

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._raw.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._tls if name == "ssl_object" else self._raw.get_extra_info(name, default)

    def _go_on(self) -> None:
        """Hand on what came before the protocol paused. The socket is read on behind it: what comes, its end included,
        would else overtake it, and a protocol that pauses again each time would have more held with each read.
        """
        if not self._paused and not self._raw.is_closing():
            self._deliver()
            if not self._paused and not self._raw.is_closing():
                self._raw.resume_reading()

    def _flush(self) -> None:
        if self._outgoing.pending and not self._raw.is_closing():
            self._raw.write(self._outgoing.read())

    def _say_all(self) -> None:
        """Send close_notify, once. Python's `unwrap` also looks for the peer's, and takes data before it as an error
        that ends everything: what waits to be read is kept out of its sight.
        """
        if self._said_all or self._tls is None:
            return
        self._said_all = True
        waiting = self._incoming.read()
        with contextlib.suppress(ssl.SSLError):  # the peer's has not come
            self._tls.unwrap()
        self._incoming.write(waiting)
        self._flush()


def reason_of(error: ssl.SSLError) -> str:
    """OpenSSL's word for it, without the line of its source."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate does not hold: {error.verify_message}"
    return (error.reason or "TLS failed").lower().replace("_", " ")
