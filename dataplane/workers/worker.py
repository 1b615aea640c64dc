"""One worker: a data plane on sockets that its supervisor has bound, and the link between the two."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import orjson
import uvloop

from common.telemetry.line_writer import LineWriter
from common.telemetry.log import Log
from dataplane.errors import GatewayError
from dataplane.gateway import Gateway
from dataplane.spans import open_spans
from dataplane.workers.serve import serve
from dataplane.workers.wire import Inbox, Kind, encode

if TYPE_CHECKING:
    from common.settings.gateway import GatewaySettings
    from common.telemetry.metrics import Numbers
    from common.telemetry.turn import Turn

BEAT_S = 1.0
TOTALS_WAIT_S = 2.0
"""What the sum of all workers may take: some rounds of the supervisor's."""
CLOSE_WAIT_S = 1.0
WHERE_IT_STANDS = signal.SIGUSR1
"""Makes a worker write where each of its threads stands to standard error, whatever its event loop does."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a worker is given: its number from 1 on, its listening sockets, plain ones and those of TLS, its end of the
    link."""

    number: int
    sockets: list[socket.socket]
    tls_sockets: list[socket.socket]
    link: socket.socket


def work(place: Place, settings: GatewaySettings, stdout: int, turn: Turn) -> int:
    """Serve until SIGTERM, SIGINT or the supervisor's end, then drain; the exit code."""
    if sys.stderr is None:
        signal.signal(WHERE_IT_STANDS, signal.SIG_IGN)
    else:
        faulthandler.register(WHERE_IT_STANDS, all_threads=True)
    writer = LineWriter(stdout, turn=turn)
    log = Log(writer.write, level=settings.log_level, always={"worker": place.number})
    own = replace(settings, replica_id=f"{settings.replica_id}-{place.number}")

    async def main() -> int:
        loop = asyncio.get_running_loop()
        writer.attach(loop)
        ended = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ended.set)

        def orphaned() -> None:
            if not ended.is_set():
                log.error("the supervisor is gone: draining, then ending")
                ended.set()

        link = SupervisorLink(on_gone=orphaned)
        gateway = Gateway(own, log, collect=link.totals, spans=open_spans(os.environ, log))
        await link.start(place.link, gateway.metrics.registry.dump)
        try:
            return await serve(
                gateway, log, ended, sockets=place.sockets, tls_sockets=place.tls_sockets, on_ready=link.ready
            )
        finally:
            await link.close()

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main())
    finally:
        writer.close()


class SupervisorLink(asyncio.Protocol):
    """A worker's end of the link. Its beat is its event loop's: one that stands still is missed by the supervisor."""

    def __init__(self, *, on_gone: Callable[[], None]) -> None:
        self._on_gone = on_gone
        self._inbox = Inbox()
        self._numbers: Callable[[], Numbers] = dict
        self._transport: asyncio.WriteTransport | None = None
        self._beat: asyncio.TimerHandle | None = None
        self._questions: dict[int, asyncio.Future[bytes]] = {}
        self._asked = 0
        self._lost = asyncio.Event()

    async def start(self, sock: socket.socket, numbers: Callable[[], Numbers]) -> None:
        """Begin to beat, and say what `numbers` returns whenever the supervisor collects them."""
        self._numbers = numbers
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=sock)

    def ready(self) -> None:
        """Tell that this worker listens."""
        self._send(Kind.READY)

    async def totals(self) -> bytes:
        """The metrics of all workers as Prometheus text.

        `GatewayError("not_ready")` when the supervisor does not say them in time: this worker's own would look as if
        everything had been counted anew.
        """
        self._asked += 1
        number = self._asked & 0xFFFF_FFFF
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._questions[number] = answer
        self._send(Kind.ASK, number)
        try:
            async with asyncio.timeout(TOTALS_WAIT_S):
                return await answer
        except TimeoutError:
            raise GatewayError(
                "not_ready",
                "the supervisor did not add up the metrics in time",
                message="The metrics of all workers could not be had. Try again shortly.",
            ) from None
        finally:
            del self._questions[number]

    async def close(self) -> None:
        """Say the last numbers and go."""
        if self._beat is not None:
            self._beat.cancel()
        if self._transport is None or self._lost.is_set():
            return
        self._send(Kind.NUMBERS, 0, orjson.dumps(self._numbers()))
        self._on_gone = lambda: None
        self._transport.close()
        try:
            async with asyncio.timeout(CLOSE_WAIT_S):
                await self._lost.wait()
        except TimeoutError:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)
        self._beat_on()

    def data_received(self, data: bytes) -> None:
        for message in self._inbox.feed(data):
            if message.kind is Kind.COLLECT:
                self._send(Kind.NUMBERS, message.number, orjson.dumps(self._numbers()))
            elif message.kind is Kind.TOTALS:
                answer = self._questions.get(message.number)
                if answer is not None and not answer.done():
                    answer.set_result(message.payload)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (why makes no difference)
        self._lost.set()
        self._on_gone()

    def _beat_on(self) -> None:
        self._send(Kind.BEAT)
        self._beat = asyncio.get_running_loop().call_later(BEAT_S, self._beat_on)

    def _send(self, kind: Kind, number: int = 0, payload: bytes = b"") -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(encode(kind, number, payload))
