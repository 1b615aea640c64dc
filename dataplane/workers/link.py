"""The supervisor's end of the socket that it shares with a worker."""

from __future__ import annotations

import contextlib
import socket

from dataplane.workers.wire import Inbox, Kind, Message, encode

READ_BYTES = 262_144


class Link:
    """Never blocks: what the other side does not take yet is kept, and sent when the socket is writable again."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.socket = sock
        self._inbox = Inbox()
        self._unsent = bytearray()

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def send(self, kind: Kind, number: int = 0, payload: bytes = b"") -> None:
        """Say something. A worker that is gone does not hear it; its end is noticed elsewhere."""
        self._unsent += encode(kind, number, payload)
        self.flush()

    def flush(self) -> None:
        """Send what the socket takes now."""
        with contextlib.suppress(BlockingIOError):
            try:
                while self._unsent:
                    del self._unsent[: self.socket.send(self._unsent)]
            except ConnectionError:
                self._unsent.clear()

    def read(self) -> list[Message] | None:
        """What the worker said since; None when it has closed its end and all was read before.

        `ValueError` when what comes is no message.
        """
        messages: list[Message] = []
        while True:
            try:
                data = self.socket.recv(READ_BYTES)
            except BlockingIOError:
                return messages
            except ConnectionError:
                data = b""
            if not data:
                return messages or None
            messages += self._inbox.feed(data)

    def close(self) -> None:
        self.socket.close()
