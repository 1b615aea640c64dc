"""The one object that flows through the dispatcher: a request, what the steps learned of it, and its outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import asyncio

    from common.identity.principal import Principal
    from common.routetable.compiled import Match
    from common.state.ports import Session
    from common.telemetry.trace import TraceContext
    from dataplane.authentication.sessions import Reads
    from dataplane.forwarding.context import ForwardingContext
    from dataplane.forwarding.response_headers import ResponseHeaders
    from dataplane.http1.heads import RequestHead, ResponseHead
    from dataplane.net.timers import Timer
    from dataplane.replies import Reply
    from dataplane.snapshot import Snapshot

Outcome = Literal["ok", "refused", "failed", "aborted"]


class BodySource(Protocol):
    """The request body as the downstream connection delivers it: decoded pieces, pushed, with back-pressure."""

    def start(self, sink: BodySink) -> None:
        """Deliver pieces to `sink` from now on, what was held first; sends `100 Continue` when it was asked for."""
        ...

    def pause(self) -> None:
        """Deliver nothing until `resume` (the reader of the socket stops within its water mark)."""
        ...

    def resume(self) -> None: ...

    def stop(self) -> None:
        """Drop what is held and what still comes."""
        ...


class BodySink(Protocol):
    """Takes a body in pieces. `end` comes once, after the last piece; `failed` instead of it when the body broke."""

    def piece(self, data: bytes) -> None: ...

    def end(self) -> None: ...

    def failed(self, code: str, reason: str) -> None: ...


class PauseListener(Protocol):
    """Hears when the caller takes no more bytes for now, and when it does again."""

    def downstream_paused(self) -> None: ...

    def downstream_resumed(self) -> None: ...


class Downstream(Protocol):
    """The connection that the request came on, as the answering steps see it (`dataplane.net.connection`)."""

    on_writable: PauseListener | None

    budget: Timer
    """For the budgets of the exchange that runs, one at a time."""

    def wake(self) -> None:
        """Let the connection's task go on where it is parked (`dataplane.net.stepped`); it may be for nothing."""
        ...

    @property
    def body(self) -> BodySource: ...

    @property
    def responded(self) -> bool:
        """A response head went out for the current request: nothing else may answer it."""
        ...

    @property
    def writable(self) -> bool: ...

    def send_reply(self, reply: Reply, extra: list[tuple[bytes, bytes]]) -> int:
        """Write a whole answer of the gateway's own; how many body bytes went out."""
        ...

    def start_response(self, head: ResponseHead, headers: ResponseHeaders) -> None:
        """Write an upstream's response head; how its body is framed for the caller is the connection's business."""
        ...

    def send_response(self, head: ResponseHead, headers: ResponseHeaders, body: bytes) -> None:
        """The same with the whole body, of the length that the head states."""
        ...

    def write_piece(self, piece: bytes) -> None: ...

    def end_response(self) -> None: ...

    def flush(self) -> None: ...

    def cut_response(self) -> None:
        """End a response whose body broke, so that the caller sees that it is not whole."""
        ...

    def switch(self, head: bytes, successor: asyncio.BaseProtocol) -> tuple[asyncio.Transport, bytes]:
        """Answer with a whole 101 and hand the socket over, paused; the transport, and what came behind the request.

        `successor` passes `connection_lost` on to this connection.
        """
        ...

    def connection_lost(self, exc: Exception | None) -> None: ...


class Exchange:
    """One request on its way. Each slot is set by one step, named beside it, and read by later ones."""

    __slots__ = (
        "admitted",
        "bytes_in",
        "bytes_out",
        "client_gone",
        "connection",
        "error",
        "error_detail",
        "forwarding",
        "head",
        "match",
        "matched",
        "outcome",
        "peer",
        "principal",
        "request_id",
        "response_headers",
        "route_id",
        "secure",
        "session",
        "session_reads",
        "snapshot",
        "started_at",
        "status",
        "trace",
        "upstream_origin",
        "upstream_s",
        "workspace_id",
    )

    def __init__(self, head: RequestHead, connection: Downstream, peer: str, secure: bool, started_at: float) -> None:
        self.head = head
        self.connection = connection
        self.peer = peer
        """Address of the socket's other end, without port; `""` for a socket without one."""
        self.secure = secure
        """The request came over TLS that this gateway terminated."""
        self.started_at = started_at
        """Monotonic seconds."""

        # Set by the dispatcher before its first step.
        self.request_id: str = ""
        self.trace: TraceContext
        self.snapshot: Snapshot
        # Step 2.
        self.forwarding: ForwardingContext
        # Step 4; None until then and where no route matches.
        self.match: Match | None = None
        self.route_id: str = "unmatched"
        """For logs and metrics: the route's id, `gateway` for the gateway's own endpoints, else `unmatched`."""
        # Step 5.
        self.admitted: bool = False
        """It holds a slot of the admission, until its response begins."""
        # Before step 6, for step 8 alone.
        self.session_reads: Reads = {}
        """What the shared state was asked for ahead. Whoever refuses the request before step 8 leaves it alone."""
        # Step 7: from there on there is one.
        self.matched: Match
        # Step 8.
        self.principal: Principal | None = None
        self.session: Session | None = None
        # Step 11.
        self.workspace_id: str | None = None
        # Headers that the gateway adds to whatever answers the request (its cookies).
        self.response_headers: list[tuple[bytes, bytes]] = []

        # The record.
        self.status: int = 0
        self.outcome: Outcome = "ok"
        self.error: str = ""
        self.error_detail: str = ""
        self.upstream_origin: str = ""
        self.upstream_s: float | None = None
        self.bytes_in: int = 0
        self.bytes_out: int = 0
        self.client_gone: bool = False
