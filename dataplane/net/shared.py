"""What the connections of one listener share, as a connection sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dataplane.exchange import Exchange
    from dataplane.http1.heads import ProtocolError
    from dataplane.http1.readers import RequestReader
    from dataplane.net.connection import DownstreamConnection
    from dataplane.net.stepped import Turns
    from dataplane.net.tasks import TaskKeeper
    from dataplane.net.timers import TimerWheel


class Handler(Protocol):
    """What a connection hands its requests to. Neither call raises anything but `CancelledError`."""

    async def handle(self, x: Exchange) -> None:
        """Answer the request on `x.connection`."""
        ...

    def refuse_head(self, x: Exchange, error: ProtocolError) -> None:
        """Answer a head that could not be read; the connection closes after it."""
        ...


class ConnectionLimits:
    """The bounds of a connection, the same for all of a listener."""

    __slots__ = ("head_max_bytes", "head_timeout_s", "keepalive_timeout_s", "max_connections", "max_headers")

    def __init__(
        self,
        *,
        head_max_bytes: int = 32_768,
        max_headers: int = 100,
        head_timeout_s: float = 10.0,
        keepalive_timeout_s: float = 75.0,
        max_connections: int = 10_000,
    ) -> None:
        self.head_max_bytes = head_max_bytes
        self.max_headers = max_headers
        self.head_timeout_s = head_timeout_s
        self.keepalive_timeout_s = keepalive_timeout_s
        self.max_connections = max_connections


class Listener(Protocol):
    """What the connections of one listener share."""

    handler: Handler
    limits: ConnectionLimits
    read_head: RequestReader
    wheel: TimerWheel
    tasks: TaskKeeper
    turns: Turns
    draining: bool

    def opened(self, connection: DownstreamConnection) -> bool:
        """Register a connection; False when there is no room for it."""
        ...

    def closed(self, connection: DownstreamConnection) -> None: ...
