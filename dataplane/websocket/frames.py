"""Where frames and messages begin and end in one direction of a WebSocket (RFC 6455 §5).

Payloads are neither unmasked nor looked at, but for those of Close frames; bytes are passed on as they came. A header,
and a control frame, is passed on when it is whole and in order, so the other side never receives a part of either.
"""

from __future__ import annotations

from dataclasses import dataclass

PROTOCOL_ERROR = 1002
NO_STATUS = 1005
INVALID_DATA = 1007
MESSAGE_TOO_BIG = 1009

_FIN = 0x80
_RSV = 0x70
_RSV1 = 0x40
_MASK = 0x80
_LENGTH_16, _LENGTH_64 = 126, 127
_BINARY, _CLOSE, _PONG = 0x2, 0x8, 0xA
_CONTROL = 0x8
_CONTROL_MAX_BYTES = 125
_REASON_MAX_BYTES = _CONTROL_MAX_BYTES - 2

# Codes that may stand in a Close frame (RFC 6455 §7.4 and its registry); 3000 to 4999 are the applications' own.
_SENDABLE = frozenset((1000, 1001, 1002, 1003, *range(1007, 1015)))


@dataclass(frozen=True, slots=True)
class Close:
    """What a Close frame says. `code` is `NO_STATUS` for one that says nothing; that code never stands in a frame."""

    code: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Violation:
    """Why a direction cannot be read on; `code` is what a Close frame says about it."""

    code: int
    detail: str


class FrameReader:
    """Reads one direction. `feed` gives what may be passed on; the outcome is the same for every split of the bytes.

    `masked`: the sender is the client, which must mask; a server must not (§5.1). `compressed`: `permessage-deflate`
    was negotiated, so the first frame of a message may carry RSV1 (RFC 7692 §6); no other reserved bit is ever in
    order. `max_message_bytes` bounds the payload of a message over all its frames, as it is on the wire.
    """

    __slots__ = (
        "_compressed",
        "_fin",
        "_held",
        "_left",
        "_masked",
        "_max",
        "_open",
        "_size",
        "_stopping",
        "ended",
        "messages",
        "passing",
    )

    def __init__(self, *, masked: bool, compressed: bool, max_message_bytes: int) -> None:
        self._masked = masked
        self._compressed = compressed
        self._max = max_message_bytes
        self._held = b""  # the begin of a header or of a control frame
        self._left = 0  # payload bytes of the current data frame that are still to come
        self._fin = False  # the current data frame is its message's last
        self._open = False  # a message has begun and not ended
        self._size = 0
        self._stopping = False
        self.passing = True
        """False from the message boundary on that `stop` asked for."""
        self.ended: Close | Violation | None = None
        """What ended the direction. Nothing behind it is read."""
        self.messages = 0
        """Whole messages that were passed on."""

    @property
    def at_frame_end(self) -> bool:
        """Every frame that was passed on is whole: a control frame may follow."""
        return self._left == 0

    def stop(self) -> bool:
        """Pass on nothing behind the current message; whether that point is reached already.

        What still comes is read for the Close frame in it, which is not passed on.
        """
        self._stopping = True
        if not self._open:
            self.passing = False
        return not self.passing

    def feed(self, data: bytes) -> bytes:
        """The part of the bytes fed so far that may be passed on now; where it is all of `data`, that very object."""
        if self.ended is not None:
            return b""
        if self._held:
            data = self._held + data
            self._held = b""
        size, at, stopped_at = len(data), 0, 0
        while self.ended is None:
            if self._left:
                step = min(self._left, size - at)
                at += step
                self._left -= step
                if self._left:
                    break
                self._frame_ended()
            if self._stopping and self.passing and not self._open:
                self.passing = False
                stopped_at = at
            step = self._next_frame(data, at, size)
            at += step
            if not step:
                break
        if self.ended is None:
            self._held = data[at:]
        return data[: at if self.passing else stopped_at]

    def _next_frame(self, data: bytes, at: int, size: int) -> int:
        """How many bytes of a header, or of a whole control frame, stand at `at`; 0: not all of it, or a violation."""
        if size - at < 2:
            return 0
        first, second = data[at], data[at + 1]
        opcode = first & 0x0F
        if first & _RSV and not (first & _RSV == _RSV1 and self._compressed and 0 < opcode <= _BINARY):
            return self._violated("a reserved bit is set")
        if bool(second & _MASK) is not self._masked:
            return self._violated("a server masked a frame" if second & _MASK else "a client did not mask a frame")
        if opcode & _CONTROL:
            return self._control_frame(data, at, size)
        if opcode > _BINARY:
            return self._violated("a reserved opcode")
        if (opcode == 0) is not self._open:
            return self._violated("a message within another" if opcode else "a continuation of no message")
        header = 6 if self._masked else 2
        length = second & 0x7F
        if length >= _LENGTH_16:
            extra = 2 if length == _LENGTH_16 else 8
            if size - at < 2 + extra:
                return 0
            length = int.from_bytes(data[at + 2 : at + 2 + extra], "big")
            if length >> 63:
                return self._violated("a length beyond 63 bits")
            header += extra
        if self._size + length > self._max:
            return self._violated(f"a message over {self._max} bytes", MESSAGE_TOO_BIG)
        if size - at < header:
            return 0
        self._open = True
        self._fin = first & _FIN != 0
        self._size += length
        self._left = length
        if not length:
            self._frame_ended()
        return header

    def _control_frame(self, data: bytes, at: int, size: int) -> int:
        first, length = data[at], data[at + 1] & 0x7F
        opcode = first & 0x0F
        if opcode > _PONG:
            return self._violated("a reserved opcode")
        if not first & _FIN:
            return self._violated("a fragmented control frame")
        if length > _CONTROL_MAX_BYTES:
            return self._violated("a control frame over 125 bytes")
        header = 6 if self._masked else 2
        end = at + header + length
        if size < end:
            return 0
        if opcode == _CLOSE:
            payload = data[at + header : end]
            if self._masked:
                payload = _masked(payload, data[at + 2 : at + 6])
            self.ended = read_close(payload)
            if isinstance(self.ended, Violation):
                return 0
        return header + length

    def _frame_ended(self) -> None:
        if self._fin:
            self._open = False
            self._size = 0
            if self.passing:
                self.messages += 1

    def _violated(self, detail: str, code: int = PROTOCOL_ERROR) -> int:
        self.ended = Violation(code, detail)
        return 0


def read_close(payload: bytes) -> Close | Violation:
    """What the payload of a Close frame says (§5.5.1, §7.4). Codes that never travel are a protocol error, a reason
    that is no UTF-8 is invalid data (§8.1)."""
    if not payload:
        return Close(NO_STATUS)
    if len(payload) == 1:
        return Violation(PROTOCOL_ERROR, "a close code of one byte")
    code = int.from_bytes(payload[:2], "big")
    if code not in _SENDABLE and not 3000 <= code <= 4999:
        return Violation(PROTOCOL_ERROR, f"a close frame with code {code}")
    try:
        return Close(code, payload[2:].decode("utf-8"))
    except UnicodeDecodeError:
        return Violation(INVALID_DATA, "a close reason that is not UTF-8")


def close_frame(code: int, reason: str, *, mask: bytes | None) -> bytes:
    """A Close frame. `mask`: four unpredictable bytes in a frame to a server, None in one to a client (§5.3).

    Raises `ValueError` for a code that must not travel or a reason over 123 bytes: that is a bug of the caller.
    """
    text = reason.encode()
    if (code not in _SENDABLE and not 3000 <= code <= 4999) or len(text) > _REASON_MAX_BYTES:
        raise ValueError(f"no close frame can say {code} with {len(text)} bytes of reason")
    payload = code.to_bytes(2, "big") + text
    if mask is None:
        return bytes((_FIN | _CLOSE, len(payload))) + payload
    return bytes((_FIN | _CLOSE, _MASK | len(payload))) + mask + _masked(payload, mask)


def _masked(payload: bytes, mask: bytes) -> bytes:
    """Masking and its reverse (§5.3), for the short payload of a control frame."""
    return bytes([byte ^ mask[index & 3] for index, byte in enumerate(payload)])
