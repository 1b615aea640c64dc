"""The request body between the socket and whoever wants it: decoded, held within a bound, pushed with back-pressure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from dataplane.exchange import BodySink
from dataplane.http1.heads import ProtocolError

# What may be held for a request that nobody reads yet (it waits for Access, say), before its socket is no longer read.
HELD_MAX_BYTES = 65_536


class Decoder(Protocol):
    """Takes a body's framing off (`dataplane.http1.body`)."""

    @property
    def done(self) -> bool: ...

    @property
    def leftover(self) -> bytes: ...

    def feed(self, data: bytes) -> list[bytes]: ...


class RequestBody:
    """One request's body. The connection feeds it; a sink takes it from `start` on; `pause`/`resume` are the sink's.

    `wants_data` tells the connection whether to read on; `on_change` is called whenever that may have changed.
    """

    __slots__ = (
        "_continue",
        "_decoder",
        "_failure",
        "_held",
        "_held_bytes",
        "_on_change",
        "_paused",
        "_sink",
        "bytes_in",
        "started",
    )

    def __init__(
        self, decoder: Decoder | None, on_change: Callable[[], None], send_continue: Callable[[], None] | None
    ) -> None:
        self._decoder = decoder
        self._on_change = on_change
        self._continue = send_continue
        self._sink: BodySink | None = None
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._paused = False
        self._failure: tuple[str, str] | None = None
        self.bytes_in = 0
        self.started = False

    @property
    def complete(self) -> bool:
        """The whole body has arrived (its pieces may still be held)."""
        return self._decoder is None or self._decoder.done

    @property
    def broken(self) -> bool:
        return self._failure is not None

    @property
    def wants_data(self) -> bool:
        return not self._paused and self._held_bytes < HELD_MAX_BYTES

    def feed(self, data: bytes) -> bytes:
        """Take bytes of the socket; what lies behind the body's end comes back."""
        decoder = self._decoder
        if decoder is None or decoder.done:
            return data
        if self._failure is not None:
            return b""
        self._continue = None
        try:
            pieces = decoder.feed(data)
        except ProtocolError as error:
            self.fail(error.code, error.reason)
            return b""
        if pieces:
            # What one read brought goes on in one write, however small its chunks are.
            self._deliver(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if not self.complete:
            return b""
        if self._sink is not None and not self._paused and not self._held:
            self._end()
        return decoder.leftover

    def fail(self, code: str, reason: str) -> None:
        """The body is broken or cut: the sink hears of it behind what was delivered."""
        if self._failure is not None:
            return
        self._failure = (code, reason)
        if self._sink is not None and not self._held:
            self._end()

    def start(self, sink: BodySink) -> None:
        """Deliver to `sink` from now on. `100 Continue` goes out first when the caller waits for it."""
        self.started = True
        self._sink = sink
        if self._continue is not None and not self.complete:
            self._continue()
            self._continue = None
        self._flush()

    def stop(self) -> None:
        """Nobody takes this body any more: what comes is dropped."""
        self._sink = _DROP
        self._paused = False
        self._held.clear()
        self._held_bytes = 0
        self._on_change()

    def release(self) -> None:
        """The connection is over: it is not called any more, nor held."""
        self._on_change = _nothing
        self._continue = None
        self._sink = _DROP
        self._held.clear()
        self._held_bytes = 0

    def pause(self) -> None:
        self._paused = True
        self._on_change()

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._flush()

    def _deliver(self, piece: bytes) -> None:
        self.bytes_in += len(piece)
        if self._sink is not None and not self._paused and not self._held:
            self._sink.piece(piece)
            return
        self._held.append(piece)
        self._held_bytes += len(piece)
        if self._held_bytes >= HELD_MAX_BYTES:
            self._on_change()

    def _flush(self) -> None:
        sink = self._sink
        if sink is None:
            return
        while self._held and not self._paused:
            piece = self._held.pop(0)
            self._held_bytes -= len(piece)
            sink.piece(piece)
        if not self._held and not self._paused and (self.complete or self._failure is not None):
            self._end()
        self._on_change()

    def _end(self) -> None:
        sink, self._sink = self._sink, _DROP
        if sink is None:
            return
        if self._failure is not None:
            sink.failed(*self._failure)
        else:
            sink.end()


class _Drop:
    def piece(self, data: bytes) -> None: ...

    def end(self) -> None: ...

    def failed(self, code: str, reason: str) -> None: ...


_DROP = _Drop()


def _nothing() -> None: ...
