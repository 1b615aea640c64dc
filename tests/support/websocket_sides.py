"""Two sides of a relay over transports that only remember, on a clock that the test moves."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from dataplane.net.timers import TICK_S, TimerWheel
from dataplane.websocket.frames import FrameReader
from dataplane.websocket.relay import Relay
from dataplane.websocket.side import RECEIVE_BYTES, Side
from tests.support.websocket_frames import Frame, parse


class Transport:
    """What a side does with its socket. `full` makes it hold what is written, as a peer that does not read does."""

    def __init__(self, *, tls: bool = False) -> None:
        self.written = b""
        self.reading = False
        self.closed = ""
        self.ended = False
        self.full = False
        self.held = b""
        self.tls = tls
        self.side: Side

    def write(self, data: bytes) -> None:
        assert not self.ended, "written behind the end"
        if self.closed:
            return
        if self.full:
            self.held += data
            self.side.pause_writing()
        else:
            self.written += data

    def empty(self) -> None:
        """The peer reads again."""
        self.full, self.written, self.held = False, self.written + self.held, b""
        self.side.resume_writing()

    def write_eof(self) -> None:
        self.ended = True

    def can_write_eof(self) -> bool:
        return not self.tls

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        assert (high, low) == (1, 0)

    def get_extra_info(self, name: str) -> object:
        return object() if self.tls and name == "sslcontext" else None

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed != ""

    def close(self) -> None:
        self.closed = self.closed or "closed"

    def abort(self) -> None:
        self.closed = self.closed or "aborted"


class Pair:
    """A relay with its two sides; made inside a running loop."""

    def __init__(
        self, *, limit: int = 1_000, idle_s: float = 300.0, compressed: bool = False, tls: bool = False
    ) -> None:
        self.now = 1_000.0
        self.wheel = TimerWheel(lambda: self.now)
        buffer = memoryview(bytearray(RECEIVE_BYTES))

        def side(name: Any, *, masked: bool) -> Side:
            frames = FrameReader(masked=masked, compressed=compressed, max_message_bytes=limit)
            return Side(name, frames, buffer=buffer, wheel=self.wheel)

        self.down, self.up = side("downstream", masked=True), side("upstream", masked=False)
        self.relay = Relay(self.down, self.up, wheel=self.wheel, idle_s=idle_s)
        self.caller, self.app = Transport(tls=tls), Transport(tls=tls)
        for its, transport in ((self.down, self.caller), (self.up, self.app)):
            transport.side = its
            its.attach(cast(asyncio.Transport, transport))

    def start(self, early_down: bytes = b"", early_up: bytes = b"") -> Pair:
        self.relay.start(early_down, early_up)
        return self

    def pass_time(self, seconds: float) -> None:
        self.now += seconds + TICK_S
        self.wheel.run_due()

    @property
    def done(self) -> bool:
        return self.relay.done.done()

    def caller_got(self) -> list[Frame]:
        return parse(self.caller.written)

    def app_got(self) -> list[Frame]:
        return parse(self.app.written)


def send(side: Side, data: bytes) -> None:
    """`data` arrives from the peer of `side`, as its transport delivers it."""
    for start in range(0, len(data), RECEIVE_BYTES):
        piece = data[start : start + RECEIVE_BYTES]
        side.get_buffer(-1)[: len(piece)] = piece
        side.buffer_updated(len(piece))
