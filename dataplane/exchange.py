"""The one object that flows through the dispatcher: a request, what the steps learned of it, and its outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from common.telemetry.trace import TraceContext

    from common.identity.principal import Principal
    from common.routetable.compiled import Match
    from common.state.ports import Session
    from dataplane.forwarding.context import ForwardingContext
    from dataplane.http1.heads import RequestHead, ResponseHead
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


class BodySink(Protocol):
    """Takes a body in pieces. `end` comes once, after the last piece; `failed` instead of it when the body broke."""

    def piece(self, data: bytes) -> None: ...

    def end(self) -> None: ...

    def failed(self, code: str, reason: str) -> None: ...


class Downstream(Protocol):
    """What the forwarding step needs of the connection that the request came on."""

    body: BodySource

    def send_reply(self, reply: Reply) -> None:
        """Write a whole answer (status line, headers, body) for the current request."""
        ...

    def start_response(self, head: ResponseHead, headers: list[tuple[bytes, bytes]]) -> None:
        """Write a response head; framing of the body is the connection's business."""
        ...


class Exchange:
    """One request on its way. Each slot is set by one step, named beside it, and read by later ones."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "client_gone",
        "connection",
        "cookies",
        "error",
        "error_detail",
        "forwarding",
        "head",
        "match",
        "outcome",
        "peer",
        "principal",
        "request_id",
        "response_headers",
        "secure",
        "session",
        "snapshot",
        "started_at",
        "status",
        "trace",
        "upstream_origin",
        "upstream_s",
        "workspace_id",
    )

    def __init__(
        self, head: RequestHead, connection: Downstream, *, peer: str, secure: bool, started_at: float
    ) -> None:
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
        # Step 8.
        self.cookies: dict[str, str] | None = None
        """Cookies of the request by name, parsed once by `forwarding.cookies`."""
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

    @property
    def route_id(self) -> str:
        """The route's id for logs and metrics; `unmatched` before and without a match."""
        return self.match.route.id if self.match is not None else "unmatched"
