"""What of a ClientHello must be judged before OpenSSL answers it, because Python's `ssl` cannot set it.

The application protocols: Python goes on without one when none fits, where RFC 7301 §3.2 wants an alert, so that what
speaks another protocol never has its bytes read as HTTP.

The groups: Python cannot leave out those of finite fields, and the caller chooses. One in 8 192 bits takes the gateway
some 100 ms a handshake, and the caller nothing: it need not compute its own part (CVE-2002-20001).
"""

from __future__ import annotations

from dataclasses import dataclass

RECORD_HANDSHAKE = 22
HELLO_MAX_BYTES = 32_768
"""Of the message; browsers send two kilobytes."""

_RECORD_HEAD_BYTES = 5
_RECORD_MAX_BYTES = 16_384  # RFC 8446 §5.1, of plain text
_CLIENT_HELLO = 1
_CURVES = frozenset({23, 24, 25, 29, 30})
"""P-256, P-384, P-521, X25519, X448 (RFC 8446 §4.2.7): each OpenSSL prefers them to finite fields."""
_SUPPORTED_GROUPS, _ALPN, _KEY_SHARE = 10, 16, 51  # extensions


class NoHello(Exception):
    """The bytes begin no ClientHello."""


@dataclass(frozen=True, slots=True)
class Hello:
    """What it offers, in its order; None for what it does not speak of. `shares` are the groups of its key shares."""

    protocols: tuple[bytes, ...] | None
    groups: tuple[int, ...] | None
    shares: tuple[int, ...] | None


class HelloReader:
    """Gathers a ClientHello, which may come in any pieces and over several records (RFC 8446 §5.1)."""

    __slots__ = ("_data", "_message")

    def __init__(self) -> None:
        self._data = bytearray()
        self._message = bytearray()

    def feed(self, data: bytes) -> bytes | None:
        """The whole message once it has come. `NoHello` for what is none, or longer than any."""
        self._data += data
        while len(self._data) >= _RECORD_HEAD_BYTES:
            if self._data[0] != RECORD_HANDSHAKE:
                raise NoHello
            size = int.from_bytes(self._data[3:_RECORD_HEAD_BYTES], "big")
            if not 0 < size <= _RECORD_MAX_BYTES:
                raise NoHello
            end = _RECORD_HEAD_BYTES + size
            if len(self._data) < end:
                return None
            self._message += self._data[_RECORD_HEAD_BYTES:end]
            del self._data[:end]
            if self._message[0] != _CLIENT_HELLO:
                raise NoHello
            size = 4 + int.from_bytes(self._message[1:4], "big")
            if len(self._message) >= 4 and size > HELLO_MAX_BYTES:
                raise NoHello
            if len(self._message) >= max(size, 4):
                return bytes(self._message[:size])
        return None


def read_hello(message: bytes) -> Hello | None:
    """What a ClientHello offers; None where its lengths do not fit, which OpenSSL refuses."""
    try:
        return _read(message)
    except IndexError:
        return None


def could_choose_finite_field(hello: Hello) -> bool:
    """OpenSSL may end up with a group of a finite field: there is a key share for one, or, where it has to ask for
    another share, no curve that it would ask for first.
    """
    groups, shares = hello.groups or (), hello.shares or ()
    return any(map(_is_finite_field, shares)) or (any(map(_is_finite_field, groups)) and _CURVES.isdisjoint(groups))


def _is_finite_field(group: int) -> bool:
    return group >> 8 == 1  # RFC 7919 §2: 256 to 511


def _read(message: bytes) -> Hello:
    # One pass over the extensions, by index: it is done in each handshake. A slice that is cut short is never longer
    # than what OpenSSL sees there, and such a message is refused by it.
    protocols: tuple[bytes, ...] | None = None
    groups: tuple[int, ...] | None = None
    shares: tuple[int, ...] | None = None
    at = 4 + 2 + 32
    at += 1 + message[at]  # session
    at += 2 + _two(message, at)  # suites
    at += 1 + message[at]  # compression
    if at == len(message):
        return Hello(None, None, None)
    at += 2
    while at < len(message):
        kind, size = _two(message, at), _two(message, at + 2)
        at += 4
        if kind == _ALPN:
            protocols = _names(message[at + 2 : at + size])
        elif kind == _SUPPORTED_GROUPS:
            groups = tuple(_two(message, each) for each in range(at + 2, at + size, 2))
        elif kind == _KEY_SHARE:
            shares = _groups_of_shares(message[at + 2 : at + size])
        at += size
    return Hello(protocols, groups, shares)


def _names(content: bytes) -> tuple[bytes, ...]:
    names = []
    at = 0
    while at < len(content):
        end = at + 1 + content[at]
        names.append(content[at + 1 : end])
        at = end
    return tuple(names)


def _groups_of_shares(content: bytes) -> tuple[int, ...]:
    groups = []
    at = 0
    while at < len(content):
        groups.append(_two(content, at))
        at += 4 + _two(content, at + 2)
    return tuple(groups)


def _two(data: bytes, at: int) -> int:
    return data[at] << 8 | data[at + 1]
