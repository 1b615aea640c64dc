"""What supervisor and worker say to each other over a socket: a head of fixed size, then a payload.

| kind | from | number | payload |
| --- | --- | --- | --- |
| `READY` | worker | 0 | none: it listens |
| `BEAT` | worker | 0 | none: its event loop turns |
| `ASK` | worker | the question's | none: it was asked for the metrics |
| `COLLECT` | supervisor | the round's | none: say your numbers |
| `NUMBERS` | worker | the round's, 0 for the last ones | JSON of `Registry.dump` |
| `TOTALS` | supervisor | the question's | the Prometheus text |
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

_HEAD = struct.Struct("!BII")
PAYLOAD_MAX_BYTES = 64 * 1_048_576
"""More than 500 routes with every method and status take."""


class Kind(IntEnum):
    READY = 1
    BEAT = 2
    ASK = 3
    COLLECT = 4
    NUMBERS = 5
    TOTALS = 6


class Message(NamedTuple):
    kind: Kind
    number: int
    payload: bytes


def encode(kind: Kind, number: int = 0, payload: bytes = b"") -> bytes:
    """One message as bytes."""
    return _HEAD.pack(kind, number, len(payload)) + payload


class Inbox:
    """Bytes in any pieces to messages."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """The messages that are whole now. `ValueError` for what is none: then the other side is not to be trusted."""
        held = self._held
        held += data
        messages = []
        start = 0
        while len(held) - start >= _HEAD.size:
            kind, number, size = _HEAD.unpack_from(held, start)
            if size > PAYLOAD_MAX_BYTES:
                raise ValueError(f"a payload of {size} bytes")
            end = start + _HEAD.size + size
            if len(held) < end:
                break
            messages.append(Message(Kind(kind), number, bytes(held[start + _HEAD.size : end])))
            start = end
        del held[:start]
        return messages
