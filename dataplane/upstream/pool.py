"""Connections to upstreams, kept between exchanges: newest first, bounded, closed when idle, looked at before reuse."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from common.routetable.compiled import Upstream
from dataplane.http1.readers import response_reader
from dataplane.net.timers import TimerWheel
from dataplane.net.tls import reason_of
from dataplane.net.tls_client import ClientTls, over_tls
from dataplane.upstream.connection import UpstreamConnection
from dataplane.upstream.failure import Failure, UpstreamUnreachable

SWEEP_S = 1.0
# Answers come in bursts: what is over the bound for a moment is taken again in the next, and dialling costs half of
# what a request does. So it is closed only when nobody took it for so long.
SURPLUS_S = 1.0


class UpstreamPool:
    """Idle connections by origin, none longer than `idle_s`, and those beyond `max_idle` no longer than `SURPLUS_S`."""

    def __init__(
        self,
        wheel: TimerWheel,
        *,
        max_idle: int = 256,
        idle_s: float = 30.0,
        fast_lane: bool = True,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        """`tls` is asked for the context of each new connection to an https upstream."""
        self._wheel = wheel
        self._max_idle = max_idle
        self._idle_s = idle_s
        self.read_head = response_reader(fast_lane=fast_lane)
        self._tls = tls
        self._idle: dict[str, list[UpstreamConnection]] = {}
        self._sweeper = wheel.timer()
        self._closed = False

    def take(self, upstream: Upstream) -> UpstreamConnection | None:
        """An idle connection that looks alive, or None."""
        idle = self._idle.get(upstream.origin)
        while idle:
            connection = idle.pop()
            if connection.alive:
                return connection
            connection.abort()
        return None

    async def dial(self, upstream: Upstream, timeout_s: float) -> UpstreamConnection:
        """A new connection, TLS included, within `timeout_s`. Raises `UpstreamUnreachable`."""
        try:
            async with asyncio.timeout(timeout_s):
                if upstream.scheme == "https":
                    return await self._dial_tls(upstream)
                loop = asyncio.get_running_loop()
                _, connection = await loop.create_connection(self._maker(upstream), upstream.host, upstream.port)
                return connection
        except TimeoutError as error:
            failure = Failure("connect", f"no connection to {upstream.origin} in {timeout_s:g} s", connect_timeout=True)
            raise UpstreamUnreachable(failure) from error
        except (OSError, UnicodeError) as error:
            raise UpstreamUnreachable(Failure("connect", f"{upstream.origin}: {error}")) from error

    async def _dial_tls(self, upstream: Upstream) -> UpstreamConnection:
        """The name that is verified is that of the upstream's URL, whatever `Host` it is sent."""
        maker, context = self._maker(upstream), self._tls()
        _, client = await asyncio.get_running_loop().create_connection(
            lambda: ClientTls(maker, context, upstream.host), upstream.host, upstream.port
        )
        try:
            return await over_tls(client, UpstreamConnection)
        except (OSError, ValueError) as error:
            reason = reason_of(error) if isinstance(error, ssl.SSLError) else str(error)
            raise UpstreamUnreachable(Failure("tls", f"{upstream.origin}: {reason}")) from error

    def _maker(self, upstream: Upstream) -> Callable[[], UpstreamConnection]:
        return lambda: UpstreamConnection(upstream.origin, self.read_head)

    def give_back(self, connection: UpstreamConnection) -> None:
        """Keep a connection whose exchange ended cleanly."""
        if self._closed:
            connection.abort()
            return
        connection.idle_since = self._wheel.clock()
        idle = self._idle.get(connection.origin)
        if idle is None:
            idle = self._idle[connection.origin] = []
            if not self._sweeper.running:
                self._sweeper.set(SWEEP_S, self._sweep)
        idle.append(connection)

    def close(self) -> None:
        """Close every idle connection; those in use close when their exchange ends."""
        self._closed = True
        self._sweeper.cancel()
        for idle in self._idle.values():
            for connection in idle:
                connection.abort()
        self._idle.clear()

    def _sweep(self) -> None:
        now = self._wheel.clock()
        for origin, idle in list(self._idle.items()):
            surplus = len(idle) - self._max_idle
            kept = []
            for place, connection in enumerate(idle):  # those that were given back longest ago come first
                since = now - connection.idle_since
                if since < (SURPLUS_S if place < surplus else self._idle_s) and connection.alive:
                    kept.append(connection)
                else:
                    connection.abort()
            if kept:
                self._idle[origin] = kept
            else:
                del self._idle[origin]
        if self._idle:
            self._sweeper.set(SWEEP_S, self._sweep)
