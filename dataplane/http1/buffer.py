"""Where a head gathers from the pieces that a socket delivers, until its blank line is there."""

from __future__ import annotations

from dataplane.http1.gate import CRLF, HEAD_END, REQUEST_BYTES, RESPONSE_BYTES
from dataplane.http1.heads import ProtocolError

TARGET_MAX_BYTES = 8 * 1024
"""The longest request target that is read (CONTRACT §2.5, 414)."""
_CR = 13
REQUEST_LINE_MAX_BYTES = TARGET_MAX_BYTES + 64
"""The target, the version and a method of up to 54 bytes. A longer line without an end is never going to be read."""


class HeadBuffer:
    """Cuts heads out of a stream of bytes, whatever pieces it comes in.

    `feed` what arrived, then `take`, as long as a head comes; `leftover` hands over what stands behind it when that is
    a body. Not more than the bound and one piece are held when `take` follows each `feed`. A head that arrives whole
    and alone is handed on as the very object that was fed. The outcome is the same for every split of the bytes:
    where several things are wrong, the one that a reader of single bytes sees first.

    `max_bytes` counts the whole head with its blank line. `skip_empty_line` forgives one empty line in front of a
    head (RFC 9112 §2.2). With `from_upstream` each failure has the code `bad_gateway` and the first line has no bound
    of its own.
    """

    __slots__ = (
        "_allowed",
        "_codes",
        "_data",
        "_line_ended",
        "_line_max",
        "_max",
        "_pos",
        "_seen",
        "_short",
        "_skip",
        "_skipped",
    )

    def __init__(self, max_bytes: int, *, skip_empty_line: bool, from_upstream: bool = False) -> None:
        self._max = max_bytes
        self._skip = skip_empty_line
        self._allowed = RESPONSE_BYTES if from_upstream else REQUEST_BYTES
        self._codes = (
            ("bad_gateway", "bad_gateway", "bad_gateway")
            if from_upstream
            else ("bad_request", "headers_too_large", "uri_too_long")
        )
        self._line_max = max_bytes if from_upstream else REQUEST_LINE_MAX_BYTES
        self._short = min(self._max, self._line_max)  # up to here a head is over neither bound
        self._data: bytes | bytearray = b""
        self._pos = 0  # where the current head begins in `_data`
        self._seen = 0  # up to here `_data` was found in order; never between a CR and its LF
        self._line_ended = False
        self._skipped = False

    @property
    def started(self) -> bool:
        """A byte of the next head is here (a forgiven empty line is none of it)."""
        return len(self._data) > self._pos

    def feed(self, data: bytes) -> None:
        """Add what arrived."""
        if len(self._data) <= self._pos:
            self._data = data
            self._pos = self._seen = 0
            return
        if self._pos or not isinstance(self._data, bytearray):
            # Heads that were taken go now: a caller that always sends a part of its next one would else grow this.
            self._data = bytearray(self._data[self._pos :])
            self._seen -= self._pos
            self._pos = 0
        self._data += data

    def take(self) -> bytes | None:
        """The next head with its blank line, or None while it is not complete.

        Raises `ProtocolError` as soon as the bytes cannot become a head: `bad_request` (a bare CR or LF, a control or
        non-ASCII byte, an empty request line), `uri_too_long`, `headers_too_large`; the buffer is useless from then on.
        """
        data = self._data
        if not data:
            return None
        if not self._seen and type(data) is bytes:
            end = data.find(HEAD_END) + 4
            if 4 < end <= self._short and data[0] != _CR:  # most heads arrive whole, and have no other in front
                self._skipped = False
                if end == len(data):
                    self._data = b""
                    return data
                self._pos = self._seen = end
                return data[:end]
        return self._take()

    def _take(self) -> bytes | None:
        data, pos = self._data, self._pos
        if self._skip and not self._skipped and data.startswith(CRLF, pos):
            self._skipped = True
            pos = self._pos = self._seen = pos + 2
        end = data.find(HEAD_END, max(pos, self._seen - 2))
        if end < 0:
            self._inspect(len(data))
            return None
        end += 4
        if end - pos > self._max or end - pos > self._line_max:
            self._inspect(end, complete=True)
        whole = pos == 0 and end == len(data)
        raw = bytes(data) if whole else bytes(data[pos:end])
        self._line_ended = self._skipped = False
        if end == len(data):
            self._data, self._pos, self._seen = b"", 0, 0
        else:
            self._pos = self._seen = end
        return raw

    def cut(self, data: bytes) -> tuple[bytes, bytes] | None:
        """`feed`, and where a head is whole then `take` and `leftover`: the head and what stands behind it."""
        if not self._data:
            end = data.find(HEAD_END) + 4
            if 4 < end <= self._short and data[0] != _CR:
                self._skipped = False
                return data[:end], data[end:]
        self.feed(data)
        raw = self.take()
        return None if raw is None else (raw, self.leftover())

    def leftover(self) -> bytes:
        """Hand over what was fed and not taken; the buffer is empty then."""
        if not self._data:
            return b""
        rest = bytes(self._data[self._pos :])
        self._data, self._pos, self._seen = b"", 0, 0
        self._line_ended = self._skipped = False
        return rest

    def _inspect(self, stop: int, *, complete: bool = False) -> None:
        """Raise what is known to be wrong with the bytes before `stop`, each of them looked at once.

        What is over a bound is cut off first, so that a bad byte behind the bound is not what is reported.
        """
        data, pos, seen = self._data, self._pos, self._seen
        malformed, too_large, line_too_long = self._codes
        over = ""
        if stop - pos > self._max or (stop - pos == self._max and not complete):
            over, stop = too_large, pos + self._max
        if not self._line_ended:
            line_stop = pos + self._line_max + 2
            line_end = data.find(CRLF, seen, min(stop, line_stop))
            if line_end == pos:
                raise ProtocolError(malformed, "an empty first line")
            if line_end > 0:
                self._line_ended = True
            elif stop >= line_stop:
                over, stop = line_too_long, line_stop
        # A CR at the end is judged when its next byte is here.
        known = stop - 1 if stop > seen and data[stop - 1] == 0x0D else stop
        fresh = data[seen:known]
        pairs = fresh.count(CRLF)
        if fresh.count(b"\n") != pairs or fresh.count(b"\r") != pairs or fresh.translate(None, self._allowed):
            raise ProtocolError(malformed, "a bare CR or LF, a control or a non-ASCII byte in the head")
        if over:
            raise ProtocolError(over, "a head or first line over its bound")
        self._seen = max(known, seen)
