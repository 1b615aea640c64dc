"""The request headers that an upstream gets (§7.1).

    context, identity, ids, host, signature -> of_gateway -+
    caller's headers -> what passes (policy) -+            +-> the lines of an attempt at an upstream
    cookies, authorization -> as rewritten ---+-> copied --+

What depends on the upstream (host, credentials of a version 1 table, the signed path) is made for each attempt; lines
that many requests share are made once for as long as what they say is remembered. The gateway's own headers replace
nothing: every name that it writes has been kept out before.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from common.identity.headers import SubjectUnwritable, WrittenIdentity, written_identity
from common.identity.principal import Principal
from common.identity.signature import IdentitySigner, identity_payload
from common.routetable.compiled import Route, Upstream
from common.telemetry.trace import TraceContext
from dataplane.errors import GatewayError
from dataplane.forwarding.context import ForwardingContext
from dataplane.forwarding.cookies import upstream_cookie
from dataplane.forwarding.policy import Pairs, connection_names, passes_upstream, without_unsafe
from dataplane.http1.heads import Headers, RequestHead
from dataplane.http1.write import Lines, header_lines


class RequestHeaders:
    """The headers of one exchange, for any of its upstreams. Framing (`content-length`, `transfer-encoding`) is not
    among them: it is made where the body is written.

    Raises `GatewayError("internal_error")` for a subject that no header can carry, before anything is sent.
    """

    __slots__ = ("_forwarding", "_head", "_identity", "_route", "_signer", "_written", "copied")

    def __init__(
        self,
        head: RequestHead,
        *,
        route: Route,
        forwarding: ForwardingContext,
        request_id: str,
        trace: TraceContext,
        principal: Principal | None,
        workspace_id: str | None,
        signer: IdentitySigner,
    ) -> None:
        self._head = head
        self._route = route
        self._forwarding = forwarding
        self._signer = signer
        self._identity = None if principal is None else _identity(principal, workspace_id)

        self.copied: Copied = head.derived(_with_authorization if route.forward_authorization else _without)
        """The caller's headers that pass, the same for every upstream."""
        # The gateway's own ids: they hold nothing that could end a line.
        ids = f"x-request-id: {request_id}\r\ntraceparent: {trace.traceparent}\r\n".encode("ascii")
        self._written = ids if trace.tracestate is None else ids + _line(b"tracestate", trace.tracestate)

    def for_upstream(self, upstream: Upstream, path: str) -> Pairs:
        """All headers of an attempt at `upstream`, which receives `path` (of `upstream_path`)."""
        own = [line.partition(b": ") for line in self.of_gateway(upstream, path).split(b"\r\n")[:-1]]
        return [*((name, value) for name, _, value in own), *self.copied.headers]

    def of_gateway(self, upstream: Upstream, path: str) -> Lines:
        """Of the lines of an attempt those that the gateway writes: what stands beside `copied`."""
        forwarding, identity = self._forwarding, self._identity
        lines = _host(upstream_host(self._route, forwarding, upstream)) + self._written + forwarding.lines
        if upstream.authorization is not None and not self._route.forward_authorization:
            lines += _line(b"authorization", upstream.authorization.encode("ascii"))
        if identity is not None:
            head = self._head
            payload = identity_payload(identity.fields, head.method, path, head.query, forwarding.host)
            lines = b"%b%bx-gateway-signature: %b\r\n" % (lines, identity.lines, self._signer.sign(payload))
        return Lines(lines)


def upstream_host(route: Route, forwarding: ForwardingContext, upstream: Upstream) -> str:
    """The `Host` that `upstream` sees: its own, the caller's effective one, or the route's (`upstreamHost`).

    A request without a host (HTTP/1.0) is sent under the upstream's own.
    """
    if route.upstream_host == "upstream":
        return upstream.authority
    if route.upstream_host == "request":
        return forwarding.host or upstream.authority
    return route.upstream_host


@lru_cache(maxsize=512)
def _host(name: str) -> Lines:
    return _line(b"host", name.encode("ascii"))


def _line(name: bytes, value: bytes) -> Lines:
    return header_lines(without_unsafe([(name, value)]))


class Copied(NamedTuple):
    """What an upstream gets of the caller's headers, and the same as it is sent."""

    headers: Headers
    lines: Lines


def _without(headers: Headers) -> Copied:
    return _copied(headers, authorization=False)


def _with_authorization(headers: Headers) -> Copied:
    return _copied(headers, authorization=True)


def _copied(headers: Headers, *, authorization: bool) -> Copied:
    named = connection_names([value for name, value in headers if name == b"connection"])
    unbound = [header for header in headers if header[0] not in named]
    kept = without_unsafe(unbound)
    passing = [header for header in kept if passes_upstream(header[0])]
    if authorization:
        passing += [header for header in kept if header[0] == b"authorization"]
    cookie = upstream_cookie([value for name, value in unbound if name == b"cookie"])
    if cookie is not None:
        passing += without_unsafe([(b"cookie", cookie)])
    return Copied(tuple(passing), header_lines(passing))


def _identity(principal: Principal, workspace_id: str | None) -> WrittenIdentity:
    try:
        return written_identity(principal, workspace_id)
    except SubjectUnwritable as error:
        raise GatewayError("internal_error", str(error)) from error
