"""What of a ClientHello must be known before OpenSSL reads it: the application protocols that it offers (RFC 7301).

Python's TLS goes on without a protocol when none fits; the RFC wants a `no_application_protocol` alert (§3.2), so that
what speaks another protocol never has its bytes read as HTTP.
"""

from __future__ import annotations

RECORD_HANDSHAKE = 22
RECORD_HEAD_BYTES = 5
RECORD_MAX_BYTES = 16_384  # RFC 8446 §5.1, of plain text
_CLIENT_HELLO = 1
_ALPN = 16


class _Short(Exception):
    """A length points behind the end."""


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise _Short
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> bytes:
        """What a length of `size` bytes stands before."""
        return self.take(self.number(size))

    @property
    def more(self) -> bool:
        return self._at < len(self._data)


def is_whole(data: bytes) -> bool:
    """The first record has come, or it can be told that it is none."""
    if len(data) < RECORD_HEAD_BYTES:
        return False
    length = int.from_bytes(data[3:RECORD_HEAD_BYTES], "big")
    return length > RECORD_MAX_BYTES or len(data) >= RECORD_HEAD_BYTES + length


def offered_protocols(data: bytes) -> tuple[bytes, ...] | None:
    """The protocols that the ClientHello in the first record offers, in its order; None when it offers none.

    None too for what is no ClientHello, or not all in that record: OpenSSL judges those.
    """
    try:
        return _protocols(_Cursor(data))
    except _Short:
        return None


def _protocols(record: _Cursor) -> tuple[bytes, ...] | None:
    if record.number(1) != RECORD_HANDSHAKE:
        return None
    record.take(2)
    message = _Cursor(record.vector(2))
    if message.number(1) != _CLIENT_HELLO:
        return None
    hello = _Cursor(message.vector(3))
    hello.take(2 + 32)
    for size_of_length in (1, 2, 1):  # session, suites, compression
        hello.vector(size_of_length)
    if not hello.more:
        return None
    extensions = _Cursor(hello.vector(2))
    while extensions.more:
        kind, content = extensions.number(2), _Cursor(extensions.vector(2))
        if kind == _ALPN:
            names = _Cursor(content.vector(2))
            offered = []
            while names.more:
                offered.append(names.vector(1))
            return tuple(offered)
    return None
