"""The twelve steps of §2.3, one after the other, for every request; and the one record each of them leaves."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from common.ready import DONE
from common.routetable.match import AmbiguousPath
from common.telemetry.request_id import new_request_id, request_id
from common.telemetry.trace import begin_trace, continue_trace, not_sampled
from dataplane.accept import prefers_html
from dataplane.errors import CLIENT_CLOSED_REQUEST, GatewayError
from dataplane.exchange import Exchange
from dataplane.forwarding.context import forwarding_context
from dataplane.replies import Answered, Reply, error_reply

if TYPE_CHECKING:
    from common.settings.gateway import GatewaySettings
    from common.telemetry.log import Log
    from dataplane.admission import Admission
    from dataplane.endpoints.router import Endpoints
    from dataplane.http1.heads import Headers, ProtocolError
    from dataplane.metrics import GatewayMetrics
    from dataplane.record import Recorder
    from dataplane.snapshot import Snapshot
    from dataplane.websocket.opened import OpenWebSocket

Step = Callable[[Exchange], Awaitable[None]]
"""Sets its slots of the exchange or raises. `DONE` where it had nothing to wait for, which need not be awaited."""


class Configuration(Protocol):
    """Where the current snapshot comes from (`dataplane.reload`)."""

    @property
    def current(self) -> Snapshot | None: ...


class Dispatcher:
    """Handles every request of every connection. Built once; holds no state of a request."""

    def __init__(
        self,
        *,
        settings: GatewaySettings,
        configuration: Configuration,
        endpoints: Endpoints,
        admission: Admission,
        limits: Step,
        ask_ahead: Callable[[Exchange], None],
        authenticate: Step,
        principal_limit: Step,
        cross_site: Callable[[Exchange], None],
        workspace: Step,
        forward: Callable[[Exchange], Awaitable[None]],
        open_websocket: Callable[[Exchange], Awaitable[OpenWebSocket | None]],
        to_tls: Callable[[Exchange], Reply | None] | None,
        metrics: GatewayMetrics,
        recorder: Recorder,
        log: Log,
        new_flags: Callable[[str], str] = not_sampled,
    ) -> None:
        self._configuration = configuration
        self._endpoints = endpoints
        self._admission = admission
        self._limits = limits
        self._ask_ahead = ask_ahead
        self._authenticate = authenticate
        self._principal_limit = principal_limit
        self._cross_site = cross_site
        self._workspace = workspace
        self._forward = forward
        self._open_websocket = open_websocket
        self._to_tls = to_tls
        self._metrics = metrics
        self._recorder = recorder
        self._log = log
        self._new_flags = new_flags
        self._hops = settings.trusted_proxy_hops
        self._scheme = settings.public_url.partition("://")[0]

    async def handle(self, x: Exchange) -> None:
        """Answer one request and record it, then serve what it opened. Raises nothing but `CancelledError`."""
        self._identify(x)
        opened = None
        try:
            opened = await self._walk(x)
        except GatewayError as error:
            self._answer_error(x, error)
        except Answered as answered:
            self._answer(x, answered.reply)
        except asyncio.CancelledError:
            self._broken_off(x)
            raise
        except Exception as error:  # noqa: BLE001 (a bug answers 500 and is told; the next request is served)
            self._report_bug(x, error)
            self._answer_error(x, GatewayError("internal_error", f"{type(error).__name__} in the gateway"))
        finally:
            if x.admitted:
                self._admission.leave_once(x)
            self._recorder.record(x)
        if opened is not None:
            await opened.run()

    async def _walk(self, x: Exchange) -> OpenWebSocket | None:
        """The twelve steps. What remains to be served when the caller was answered with 101, else None."""
        own = self._endpoints.operations(x)
        if own is not None:
            self._answer(x, own if isinstance(own, Reply) else await own)
            return None

        # 1. Configuration
        snapshot = self._configuration.current
        if snapshot is None:
            raise GatewayError("not_ready", "no route table was ever loaded")
        x.snapshot = snapshot

        # 2. Forwarding context
        head = x.head
        scheme = "https" if x.secure else self._scheme
        x.forwarding = context = forwarding_context(
            head, x.peer, trusted_proxies=snapshot.trusted_proxies, hops=self._hops, scheme=scheme
        )

        # The redirect of a plain request to TLS (§11.5.3)
        if self._to_tls is not None and not x.secure:
            reply = self._to_tls(x)
            if reply is not None:
                self._answer(x, reply)
                return None

        # 3. Reserved path, and the gateway's own endpoints on its own names
        endpoint = self._endpoints.authentication(x)
        if endpoint is not None:
            self._answer(x, await endpoint)
            return None
        try:
            found = snapshot.table.find(context.hostname, head.path, head.method)
        except AmbiguousPath as ambiguous:
            raise GatewayError("bad_request", str(ambiguous)) from None
        if found.reserved:
            raise GatewayError("not_found", "a reserved path")

        # 4. Route match
        x.match = match = found.match

        # 5. Admission
        self._admission.enter()
        x.admitted = True
        if match is not None:
            x.route_id = match.route.id

        # 6. Rate limits. On a shared state, what step 8 will read travels with them.
        self._ask_ahead(x)
        if (limited := self._limits(x)) is not DONE:
            await limited

        # 7. No route
        if match is None:
            raise GatewayError("no_route")
        x.matched = match

        # 8. Authentication
        if (authenticated := self._authenticate(x)) is not DONE:
            await authenticated

        # 9. Principal limit
        if (limited := self._principal_limit(x)) is not DONE:
            await limited

        # 10. Cross-site guard
        self._cross_site(x)

        # 11. Workspace check
        if (allowed := self._workspace(x)) is not DONE:
            await allowed

        # 12. Dispatch
        if head.upgrade == "websocket":
            return await self._open_websocket(x)
        await self._forward(x)
        return None

    def refuse_head(self, x: Exchange, error: ProtocolError) -> None:
        """Answer and record a request whose head could not be read."""
        self._identify(x)
        self._answer_error(x, GatewayError(error.code, error.reason))
        self._recorder.record(x)

    def _identify(self, x: Exchange) -> None:
        sent = x.head.derived(_sent_ids)
        if sent is None:
            x.request_id, x.trace = new_request_id(), begin_trace(self._new_flags)
            return
        sent_id, traceparent, tracestate = sent
        x.request_id = request_id(sent_id)
        x.trace = continue_trace(traceparent, tracestate, self._new_flags)

    def _answer(self, x: Exchange, reply: Reply) -> None:
        x.status = reply.status
        extra = [(b"x-request-id", x.request_id.encode("ascii")), *x.response_headers]
        x.bytes_out += x.connection.send_reply(reply, extra)

    def _answer_error(self, x: Exchange, error: GatewayError) -> None:
        x.error = error.code
        x.error_detail = error.detail
        x.outcome = "failed" if error.spec.status >= 500 else "refused"
        if x.connection.responded:
            x.connection.cut_response()  # the status line is out: an error can only end the response
            x.outcome = "aborted"
            return
        self._answer(x, error_reply(error, x.request_id, as_page=prefers_html(x.head.values(b"accept"))))

    def _broken_off(self, x: Exchange) -> None:
        """The caller left, or the drain's time ran out."""
        x.outcome = "aborted"
        side = "downstream" if x.client_gone else "gateway"
        x.error_detail = "the caller left" if x.client_gone else "the gateway stopped"
        if not x.connection.responded:
            x.status = CLIENT_CLOSED_REQUEST
        if side == "downstream":
            self._metrics.aborted.inc(x.route_id, side)

    def _report_bug(self, x: Exchange, error: Exception) -> None:
        # Frames only: the message of an unforeseen exception may quote anything, a credential included.
        frames = traceback.extract_tb(error.__traceback__)[-6:]
        self._log.error(
            "unexpected failure",
            requestId=x.request_id,
            traceId=x.trace.trace_id,
            error=type(error).__name__,
            frames=[f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}" for frame in frames],
        )


def _sent_ids(headers: Headers) -> tuple[Sequence[bytes], Sequence[bytes], Sequence[bytes]] | None:
    """The values of `x-request-id`, `traceparent` and `tracestate`; None for a caller that sends neither of the two."""

    def values(wanted: bytes) -> list[bytes]:
        return [value for name, value in headers if name == wanted]

    ids, traces = values(b"x-request-id"), values(b"traceparent")
    return (ids, traces, values(b"tracestate")) if ids or traces else None
