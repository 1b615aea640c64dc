"""One end of a relay: its socket, the frames that it sends, and how far it has come in closing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

from dataplane.net.hangup import Hangup, hangup
from dataplane.websocket.frames import FrameReader, close_frame

if TYPE_CHECKING:
    from dataplane.net.timers import TimerWheel

RECEIVE_BYTES = 65_536
"""Of one read of a socket: all that is ever held for a side that does not read, since one that holds back its reads
stops the other's (CONTRACT §10)."""
LOOK_S = 0.5
# A side that has sent its last byte is read to the end, while the other takes it; one that takes nothing for so many
# looks keeps the connection of a peer that is gone.
LOOKS_MAX = 10

Name = Literal["downstream", "upstream"]


class SideListener(Protocol):
    """What a side tells of."""

    def received(self, side: Side, data: bytes) -> None: ...

    def finished(self, side: Side) -> None:
        """It sends nothing more."""
        ...

    def lost(self, side: Side) -> None:
        """Its connection is gone."""
        ...

    def blocked(self, side: Side) -> None:
        """It takes no more bytes for now; some are held for it."""
        ...

    def unblocked(self, side: Side) -> None: ...


class Side(asyncio.BufferedProtocol):
    """The protocol of a socket after the handshake.

    `buffer`, of `RECEIVE_BYTES`, may be shared by all sides of a loop: what it holds is copied before anything else
    reads. `on_lost` hears of the end of the socket behind the relay.
    """

    __slots__ = (
        "_buffer",
        "_listener",
        "_look",
        "_looks",
        "_on_lost",
        "_transport",
        "blocked",
        "bytes_passed",
        "ended",
        "frames",
        "gone",
        "heard",
        "name",
        "other",
        "pending",
        "shut",
    )

    def __init__(
        self,
        name: Name,
        frames: FrameReader,
        *,
        buffer: memoryview,
        wheel: TimerWheel,
        on_lost: Callable[[Exception | None], None] | None = None,
    ) -> None:
        self.name: Name = name
        self.frames = frames
        """Of what this side sends."""
        self.other: Side
        self.bytes_passed = 0
        """Bytes that it sent and the other was given."""
        self.pending: bytes | None = None
        """A Close frame for it, to be written when the message that it is being sent has ended."""
        self.shut = False
        """Nothing more will be written to it: a Close frame was, or cannot be."""
        self.heard = False
        """Nothing more is expected from it: its Close frame came, or never will."""
        self.gone = False
        self.ended = False
        """Its socket calls no more."""
        self.blocked = False
        self._buffer = buffer
        self._look = wheel.timer()
        self._looks = 0
        self._on_lost = on_lost
        self._listener: SideListener
        self._transport: asyncio.Transport

    def join(self, other: Side, listener: SideListener) -> None:
        self.other = other
        self._listener = listener

    def attach(self, transport: asyncio.Transport) -> None:
        """Take over a paused transport; `resume` begins to read it."""
        self._transport = transport

    def hold_nothing(self) -> None:
        """Tell of being blocked as soon as the socket takes less than it is given."""
        self._transport.set_write_buffer_limits(high=1, low=0)

    def write(self, data: bytes) -> None:
        if not self.gone:
            self._transport.write(data)

    def close_frame(self, code: int, reason: str) -> bytes:
        """A Close frame for this side: the upstream is a server, to which frames are masked."""
        return close_frame(code, reason, mask=os.urandom(4) if self.name == "upstream" else None)

    def pause(self) -> None:
        """Read nothing; now and then ask whether the peer is still there, which a paused socket does not tell."""
        if not self._transport.is_closing():
            self._transport.pause_reading()
            self._looks = 0
            self._look.set(LOOK_S, self._look_for_peer)

    def resume(self) -> None:
        self._look.cancel()
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def say_no_more(self) -> None:
        """Let the peer see the end of what it is sent, where the socket can; it may still send."""
        if not self.gone and self._transport.can_write_eof():
            self._transport.write_eof()

    def close(self) -> None:
        """Release the socket; what a peer that does not read was not given is dropped."""
        self._look.cancel()
        if self.blocked:
            self._transport.abort()
        else:
            self._transport.close()

    def abort(self) -> None:
        self._look.cancel()
        self._transport.abort()

    # asyncio.BufferedProtocol

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 (the buffer has the size it has)
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._listener.received(self, bytes(self._buffer[:nbytes]))

    def eof_received(self) -> bool:
        self._listener.finished(self)
        return self.heard and not self.shut  # behind its Close it may wait for the answer

    def connection_lost(self, exc: Exception | None) -> None:
        self._look.cancel()
        self._listener.lost(self)
        if self._on_lost is not None:
            self._on_lost(exc)
            self._on_lost = None
        self.ended = True
        if self.other.ended:
            # Nothing is told any more. Sides and relay hold each other, and would stay until they are collected.
            for side in (self.other, self):
                del side._listener, side.other

    def pause_writing(self) -> None:
        self.blocked = True
        self._listener.blocked(self)

    def resume_writing(self) -> None:
        self.blocked = False
        self._listener.unblocked(self)

    def _look_for_peer(self) -> None:
        if self._transport.is_closing():
            return
        state = hangup(self._transport)
        self._looks = self._looks + 1 if state is Hangup.FINISHED else 0
        if state is Hangup.GONE or self._looks > LOOKS_MAX:
            self._transport.abort()
        else:
            self._look.set(LOOK_S, self._look_for_peer)
