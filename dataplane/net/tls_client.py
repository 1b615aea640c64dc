"""The client's end of TLS: a connection whose peer has proven its name."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable
from typing import TypeVar

from dataplane.net.tls import TlsTransport

LAST_WORDS_MAX_BYTES = 65_536

P = TypeVar("P", bound=asyncio.Protocol)


class ClientTls(TlsTransport):
    """The gateway's end of one TLS connection to a server. `ready` is done when the handshake is over, or failed."""

    __slots__ = ("_context", "_inode", "_make_protocol", "_server_name", "ready")

    def __init__(
        self, make_protocol: Callable[[], asyncio.Protocol], context: ssl.SSLContext, server_name: str
    ) -> None:
        super().__init__()
        self._make_protocol = make_protocol
        self._context = context
        self._server_name = server_name
        self._inode = 0
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._inode = os.fstat(transport.get_extra_info("socket").fileno()).st_ino
        try:
            # A name is verified and sent; an IP address is verified, and not sent (RFC 6066 §3).
            self._tls = self._context.wrap_bio(self._incoming, self._outgoing, server_hostname=self._server_name)
        except ValueError as error:  # no certificate can be for such a name
            self._fail(error)
            return
        self._shake_hands()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or ConnectionResetError("the server closed the connection in the TLS handshake"))
        if exc is not None and self._error is None and self._app is not None:
            self._error = self._last_words()
        super().connection_lost(exc)

    def _last_words(self) -> ssl.SSLError | None:
        """The alert that was never read, because a write failed first.

        A server of TLS 1.3 that refuses the client's certificate sends an alert and resets, while the client takes the
        handshake for done and writes. The loops give such a connection up unread; the kernel still has the alert.
        """
        fileno = self._raw.get_extra_info("socket").fileno()
        try:
            if os.fstat(fileno).st_ino != self._inode:  # it is closed, and its number another's
                return None
            self._take(os.read(fileno, LAST_WORDS_MAX_BYTES))
            while self._read():
                pass
        except ssl.SSLError as error:
            return error
        except OSError:
            pass
        return None

    def _handshake_failed(self, error: ssl.SSLError) -> None:
        self._fail(error)

    def _handshake_over(self) -> None:
        self._app = self._make_protocol()
        self._app.connection_made(self)
        if not self.ready.done():
            self.ready.set_result(None)

    def _fail(self, error: Exception) -> None:
        if not self.ready.done():
            self.ready.set_exception(error)
            if not self._raw.is_closing():
                self._close_soon()


async def over_tls(client: ClientTls, protocol: type[P]) -> P:
    """The protocol on a connection, once its handshake is over; cut when this is cancelled before.

    Raises `ssl.SSLError` when either side refuses the other, `OSError` when the connection breaks, and `ValueError`
    for a name that no certificate can hold.
    """
    try:
        await client.ready
    except BaseException:
        client.abort()
        raise
    made = client._app
    if made is None:  # it ended as soon as the handshake was over
        raise client._error or ConnectionResetError("the server closed the connection behind the TLS handshake")
    assert isinstance(made, protocol)  # noqa: S101 (its maker's word)
    return made
