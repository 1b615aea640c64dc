"""Frames as bytes, made by hand so that they can be wrong in any one way (RFC 6455 §5.2)."""

from __future__ import annotations

from dataclasses import dataclass

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MASK = b"\x37\xfa\x21\x3d"


def frame(
    opcode: int, payload: bytes = b"", *, fin: bool = True, rsv: int = 0, mask: bytes | None = None, form: int = 0
) -> bytes:
    """One frame. `rsv`: 4, 2 and 1 for RSV1 to RSV3. `form`: bytes of an extended length, though it may need none."""
    first = (fin << 7) | (rsv << 4) | opcode
    length = len(payload)
    if form == 0:
        form = 0 if length < 126 else 2 if length < 65_536 else 8
    second = {0: length, 2: 126, 8: 127}[form] | (0 if mask is None else 0x80)
    head = bytes((first, second)) + (length.to_bytes(form, "big") if form else b"")
    return head + payload if mask is None else head + mask + masked(payload, mask)


def masked(payload: bytes, mask: bytes) -> bytes:
    return bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))


def close(code: int | None = None, reason: bytes = b"", *, mask: bytes | None = None) -> bytes:
    """A Close frame with whatever code; None for one that says nothing."""
    return frame(CLOSE, b"" if code is None else code.to_bytes(2, "big") + reason, mask=mask)


@dataclass
class Frame:
    """A frame as it was read."""

    opcode: int
    payload: bytes
    fin: bool
    masked: bool

    @property
    def code(self) -> int | None:
        """Of a Close frame."""
        return int.from_bytes(self.payload[:2], "big") if self.payload else None


def parse(data: bytes) -> list[Frame]:
    """All frames of `data`, which must end where one does."""
    frames = []
    at = 0
    while at < len(data):
        first, second = data[at], data[at + 1]
        length, at = second & 0x7F, at + 2
        if length >= 126:
            size = 2 if length == 126 else 8
            length, at = int.from_bytes(data[at : at + size], "big"), at + size
        mask = data[at : at + 4] if second & 0x80 else None
        at += 4 if mask is not None else 0
        payload = data[at : at + length]
        assert len(payload) == length, "cut within a frame"
        at += length
        frames.append(
            Frame(first & 0xF, payload if mask is None else masked(payload, mask), bool(first & 0x80), mask is not None)
        )
    return frames
