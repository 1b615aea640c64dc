"""Bodies as decoders: bytes of the connection in, pieces of the body out, until the body's own end.

Each has `feed(data)`, the decoded pieces of what arrived; `done`; `leftover`, the bytes behind the end once it is done;
and `eof()` for a peer that closed, which raises when the message is cut short. A piece that was fed whole is handed on
as the same object. A failure's code is `bad_request`, or `bad_gateway` with `from_upstream`.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from dataplane.http1.gate import CRLF, LENGTH_MAX
from dataplane.http1.heads import ProtocolError

EXTENSION_MAX_BYTES = 1024
"""Bound of one chunk's extensions (CONTRACT, "Requests")."""
EXTENSIONS_FREE_BYTES = 16 * 1024
"""Extensions of a whole body may come to this much more than its data; else a body of a few bytes could keep a reader
busy with megabytes of them, past every body limit."""
TRAILERS_MAX_BYTES = 32 * 1024
TRAILERS_MAX = 100

_SIZE_MAX_DIGITS = 16
_TOKEN = rb"[-!#$%&'*+.^_`|~0-9A-Za-z]+"
# RFC 9112 §7.1.1. CRLF ends the line whatever a quoted string says: none of its characters may be CR or LF.
_QUOTED = rb'"(?:[\t \x21\x23-\x5b\x5d-\x7e]|\\[\t \x21-\x7e])*"'
_CHUNK_LINE = re.compile(
    rb"([0-9A-Fa-f]{1,16})((?:[ \t]*;[ \t]*" + _TOKEN + rb"(?:[ \t]*=[ \t]*(?:" + _TOKEN + rb"|" + _QUOTED + rb"))?)*)"
)
_TRAILER_LINE = re.compile(_TOKEN + rb":[\t\x20-\x7e]*")
_UPSTREAM_TRAILER_LINE = re.compile(_TOKEN + rb":[\t\x20-\x7e\x80-\xff]*")


class LengthBody:
    """A body of exactly `length` bytes."""

    __slots__ = ("_code", "_remaining", "leftover")

    def __init__(self, length: int, *, from_upstream: bool = False) -> None:
        self._remaining = length
        self._code = "bad_gateway" if from_upstream else "bad_request"
        self.leftover = b""

    @property
    def done(self) -> bool:
        """The whole body has been fed."""
        return self._remaining == 0

    def feed(self, data: bytes) -> list[bytes]:
        """The body's part of `data`; the rest is `leftover`."""
        size = len(data)
        if size <= self._remaining:
            self._remaining -= size
            return [data] if size else []
        piece, rest = data[: self._remaining], data[self._remaining :]
        self._remaining = 0
        self.leftover += rest
        return [piece] if piece else []

    def eof(self) -> None:
        """The peer closed. Raises `ProtocolError` when bytes of the body are missing."""
        if self._remaining:
            raise ProtocolError(self._code, "the connection closed inside a body")


class UntilCloseBody:
    """A response body that ends with its connection."""

    __slots__ = ("done", "leftover")

    def __init__(self) -> None:
        self.done = False
        self.leftover = b""

    def feed(self, data: bytes) -> list[bytes]:
        """All of `data`."""
        return [data] if data else []

    def eof(self) -> None:
        """The peer closed, and so the body is done."""
        self.done = True


class _At(Enum):
    SIZE = auto()
    DATA = auto()
    DATA_END = auto()
    TRAILERS = auto()
    END = auto()


class ChunkedBody:
    """A chunked body (RFC 9112 §7.1), read strictly: only CRLF ends a line, nothing is skipped unchecked.

    Extensions and trailers are checked, bounded and dropped. Trailers over `trailers_max_bytes` (their blank line
    included) or over `trailers_max` lines are `headers_too_large`; every other violation is `bad_request`.
    """

    __slots__ = (
        "_at",
        "_codes",
        "_decoded",
        "_extensions",
        "_line",
        "_remaining",
        "_trailer_line",
        "_trailers",
        "_trailers_bytes",
        "_trailers_max",
        "_trailers_max_bytes",
        "leftover",
    )

    def __init__(
        self,
        *,
        trailers_max_bytes: int = TRAILERS_MAX_BYTES,
        trailers_max: int = TRAILERS_MAX,
        from_upstream: bool = False,
    ) -> None:
        self._codes = ("bad_gateway", "bad_gateway") if from_upstream else ("bad_request", "headers_too_large")
        self._trailer_line = _UPSTREAM_TRAILER_LINE if from_upstream else _TRAILER_LINE
        self._trailers_max_bytes = trailers_max_bytes
        self._trailers_max = trailers_max
        self._at = _At.SIZE
        self._line = bytearray()  # the part of a line that is here
        self._remaining = 0  # bytes of the chunk still to come
        self._decoded = 0
        self._extensions = 0
        self._trailers = 0
        self._trailers_bytes = 0
        self.leftover = b""

    @property
    def done(self) -> bool:
        """The last chunk and the trailers' blank line have been fed."""
        return self._at is _At.END

    def feed(self, data: bytes) -> list[bytes]:
        """The decoded pieces of `data`. Raises `ProtocolError` where the coding is broken; nothing may follow then."""
        pieces: list[bytes] = []
        pos, size = 0, len(data)
        while pos < size:
            if self._at is _At.DATA:
                stop = min(pos + self._remaining, size)
                pieces.append(data[pos:stop])
                self._remaining -= stop - pos
                pos = stop
                if self._remaining == 0:
                    self._at = _At.DATA_END
            elif self._at is _At.SIZE:
                pos = self._read_size(data, pos)
            elif self._at is _At.DATA_END:
                pos = self._read_data_end(data, pos)
            elif self._at is _At.TRAILERS:
                pos = self._read_trailer(data, pos)
            else:
                self.leftover += data[pos:]
                break
        return pieces

    def eof(self) -> None:
        """The peer closed. Raises `ProtocolError` when the last chunk is missing."""
        if self._at is not _At.END:
            raise ProtocolError(self._codes[0], "the connection closed inside a chunked body")

    def _read_size(self, data: bytes, pos: int) -> int:
        line, pos = self._read_line(data, pos, _SIZE_MAX_DIGITS + EXTENSION_MAX_BYTES + 2, self._codes[0])
        if line is None:
            return pos
        match = _CHUNK_LINE.fullmatch(line)
        if match is None or (length := int(match[1], 16)) > LENGTH_MAX:
            raise ProtocolError(self._codes[0], "a malformed chunk line")
        extension = len(match[2])
        if extension:
            self._extensions += extension
            if extension > EXTENSION_MAX_BYTES or self._extensions > EXTENSIONS_FREE_BYTES + self._decoded:
                raise ProtocolError(self._codes[0], "chunk extensions over their bound")
        self._decoded += length
        self._remaining = length
        self._at = _At.DATA if length else _At.TRAILERS
        return pos

    def _read_data_end(self, data: bytes, pos: int) -> int:
        expected = CRLF[len(self._line) :]
        sent = data[pos : pos + len(expected)]
        if not expected.startswith(sent):
            raise ProtocolError(self._codes[0], "chunk data without its CRLF")
        if sent == expected:
            self._line.clear()
            self._at = _At.SIZE
        else:
            self._line += sent
        return pos + len(sent)

    def _read_trailer(self, data: bytes, pos: int) -> int:
        room = self._trailers_max_bytes - self._trailers_bytes
        line, pos = self._read_line(data, pos, room, self._codes[1])
        if line is None:
            return pos
        if not line:
            self._at = _At.END
            return pos
        if self._trailer_line.fullmatch(line) is None:
            raise ProtocolError(self._codes[0], "a malformed trailer")
        self._trailers += 1
        self._trailers_bytes += len(line) + 2
        if self._trailers > self._trailers_max:
            raise ProtocolError(self._codes[1], "too many trailers")
        return pos

    def _read_line(self, data: bytes, pos: int, max_bytes: int, too_long: str) -> tuple[bytes | None, int]:
        """The line that ends in `data`, without its CRLF, or None while it has no end; and where to read on.

        A CR that the line holds is for its grammar to refuse.
        `max_bytes` counts the line with its CRLF; above it the failure's code is `too_long`.
        """
        end = data.find(b"\n", pos)
        stop = end + 1 if end >= 0 else len(data)
        if len(self._line) + stop - pos > max_bytes:
            raise ProtocolError(too_long, "a line of a chunked body over its bound")
        if end < 0:
            self._line += data[pos:]
            return None, stop
        line = data[pos:stop]
        if self._line:
            line = bytes(self._line) + line
            self._line.clear()
        if not line.endswith(b"\r\n"):
            raise ProtocolError(self._codes[0], "a bare LF in chunked framing")
        return line[:-2], stop
