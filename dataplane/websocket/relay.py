"""The relay between two switched sockets: what passes, what ends it, and how both sides are closed.

    caller --Side.received--> FrameReader --> Side.write--> upstream        and the same back

An end has one first cause, the verdict. A side that closes by itself has its Close passed on, and the answer to it. The
gateway's own Close goes to each side when the message that it is being sent has ended; a side that has vanished leaves
1011 to the other. Each end is bounded: then both sockets are released, whatever a peer does.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dataplane.websocket.frames import MESSAGE_TOO_BIG, Close, Violation

if TYPE_CHECKING:
    from dataplane.net.timers import TimerWheel
    from dataplane.websocket.side import Side

Reason = Literal["downstream", "upstream", "revalidation", "idle", "message_size", "drain", "error"]

GOING_AWAY = 1001
ABNORMAL = 1006
POLICY = 1008
INTERNAL = 1011

ANSWER_S = 5.0
"""How long a side that was sent the other's Close has to answer it."""
LAST_WORD_S = 1.0
"""How long an end that the gateway brings about may take: the rest of a message, a Close, the answers."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a WebSocket ended. `code` is what was seen or said; 1005 and 1006 stand for none and are never sent.

    `text` is the reason in the gateway's Close frames, `detail` is for the log.
    """

    reason: Reason
    code: int
    text: str = ""
    detail: str = ""


class Relay:
    """Joins two sides. `done` resolves when both may be released; then `release`."""

    __slots__ = ("_idle_s", "_sides", "_timer", "done", "down", "up", "verdict")

    def __init__(self, down: Side, up: Side, *, wheel: TimerWheel, idle_s: float) -> None:
        self.down = down
        self.up = up
        self.verdict: Verdict | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sides = (down, up)
        self._idle_s = idle_s
        self._timer = wheel.timer()
        down.join(up, self)
        up.join(down, self)

    def start(self, early_down: bytes, early_up: bytes) -> None:
        """Begin with what each side sent behind its handshake, then read on."""
        self._timer.set(self._idle_s, self._idle)
        for side in self._sides:
            side.hold_nothing()
        for side, early in ((self.down, early_down), (self.up, early_up)):
            if early:
                self.received(side, early)
        for side in self._sides:
            if side.other.blocked:
                side.pause()
            else:
                side.resume()

    def close(self, verdict: Verdict) -> None:
        """Close both sides with the verdict's code, each between two messages; nothing where an end has begun."""
        if self.verdict is None:
            self._end(verdict)

    def release(self) -> None:
        """Let go of both sockets. Before `done` that cuts the connection."""
        self._timer.cancel()
        for side in self._sides:
            if self.done.done():
                side.close()
            else:
                side.abort()
        self._resolve()

    # What a side tells (SideListener)

    def received(self, side: Side, data: bytes) -> None:
        frames, other = side.frames, side.other
        over = frames.ended is not None
        if over:
            return
        if self.verdict is None:
            self._timer.extend(self._idle_s)
        passed = frames.feed(data)
        if passed and not other.shut:
            side.bytes_passed += len(passed)
            other.write(passed)
        if frames.ended is not None:
            self._frames_ended(side, frames.ended)
        elif other.pending is not None and not frames.passing:
            self._say_pending(other)

    def finished(self, side: Side) -> None:
        if isinstance(side.frames.ended, Close) or side.gone:
            return
        side.heard = True
        if side.frames.ended is None:
            self._vanished(side)
        self._check()

    def lost(self, side: Side) -> None:
        vanished = side.frames.ended is None and not side.gone
        side.gone = side.shut = side.heard = True
        if vanished:
            self._vanished(side)
        self._check()

    def blocked(self, side: Side) -> None:
        side.other.pause()

    def unblocked(self, side: Side) -> None:
        side.other.resume()
        self._check()

    # Ends

    def _frames_ended(self, side: Side, ended: Close | Violation) -> None:
        if isinstance(ended, Violation):
            reason: Reason = "message_size" if ended.code == MESSAGE_TOO_BIG else "error"
            text = "the message is too large" if ended.code == MESSAGE_TOO_BIG else "protocol error"
            if side.shut:
                side.say_no_more()
            self._end(Verdict(reason, ended.code, text, f"{side.name}: {ended.detail}"))
            return
        side.heard = True
        if side.frames.passing:
            side.other.shut = True
            side.other.pending = None
        elif side.other.pending is not None:
            self._say_pending(side.other)
        if self.verdict is None:
            self._begin(Verdict(side.name, ended.code), ANSWER_S)
        self._check()

    def _vanished(self, side: Side) -> None:
        side.gone = side.shut = True
        side.abort()
        self._begin(
            Verdict(side.name, ABNORMAL, detail=f"the {side.name} connection ended without a close"), LAST_WORD_S
        )
        self._tell(side.other, INTERNAL, "the other side is gone")

    def _idle(self) -> None:
        self._end(Verdict("idle", GOING_AWAY, "idle"))

    def _end(self, verdict: Verdict) -> None:
        """An end that the gateway brings about."""
        self._begin(verdict, LAST_WORD_S)
        for side in self._sides:
            self._tell(side, verdict.code, verdict.text)
        self._check()

    def _begin(self, verdict: Verdict, within_s: float) -> None:
        if self.verdict is None:
            self.verdict = verdict
        if not self.done.done():
            self._timer.set(within_s, self._out_of_time)

    def _tell(self, side: Side, code: int, text: str) -> None:
        """Close a side: now, where it is not within a message or never will be out of it."""
        if side.shut:
            return
        if side.pending is None:
            side.pending = side.close_frame(code, text)
        frames = side.other.frames
        if frames.stop() or frames.ended is not None or side.other.gone:
            self._say_pending(side)

    def _say_pending(self, side: Side) -> None:
        frame, side.pending = side.pending, None
        if frame is not None and side.other.frames.at_frame_end:
            side.write(frame)
        else:
            side.heard = True  # cut within a frame: it can be told nothing, so it has nothing to answer
        side.shut = True
        if isinstance(side.frames.ended, Violation):
            side.say_no_more()

    def _out_of_time(self) -> None:
        for side in self._sides:
            self._tell(side, INTERNAL, "the other side did not answer")
            if side.pending is not None:
                self._say_pending(side)
        self._resolve()

    def _check(self) -> None:
        """Release a side that was told, was heard, and took what was written to it; with both that is the end."""
        over = 0
        for side in self._sides:
            if side.gone:
                over += 1
            elif side.shut and side.heard and not side.blocked:
                side.close()
                side.gone = True
                over += 1
        if over == len(self._sides):
            self._resolve()

    def _resolve(self) -> None:
        self._timer.cancel()
        if not self.done.done():
            self.done.set_result(None)
