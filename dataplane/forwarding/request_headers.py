"""The request headers that an upstream gets (§7.1).

    caller's headers -> what passes (policy) -+
    cookies, authorization -> as rewritten ---+-> for_upstream: host, the above, the gateway's own, signature
    context, trace, identity -> written ------+

What depends on the upstream alone (host, credentials of a version 1 table, the signed path) is added for each attempt;
the rest is made once for the exchange, and what is copied once for as long as the caller's lines are remembered. The
gateway's own headers replace nothing: every name that it writes has been kept out before.
"""

from __future__ import annotations

from typing import NamedTuple

from common.identity.headers import SIGNATURE, IdentityFields, SubjectUnwritable, WrittenIdentity, written_identity
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

    __slots__ = ("_fields", "_forwarding", "_head", "_route", "_signer", "_written", "copied")

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
        identity = _identity(principal, workspace_id)
        self._head = head
        self._route = route
        self._forwarding = forwarding
        self._signer = signer
        self._fields: IdentityFields | None = identity.fields if identity is not None else None

        self.copied: Copied = head.derived(_with_authorization if route.forward_authorization else _without)
        """The caller's headers that pass, the same for every upstream."""
        written = _written(forwarding, request_id, trace)
        if identity is not None:
            written += identity.headers
        self._written = without_unsafe(written)

    def for_upstream(self, upstream: Upstream, path: str) -> Pairs:
        """All headers of an attempt at `upstream`, which receives `path` (of `upstream_path`)."""
        return [*self.of_gateway(upstream, path), *self.copied.headers]

    def of_gateway(self, upstream: Upstream, path: str) -> Pairs:
        """Of the headers of an attempt those that the gateway writes: what stands beside `copied`."""
        headers: Pairs = [(b"host", self.host(upstream).encode("ascii")), *self._written]
        if upstream.authorization is not None and not self._route.forward_authorization:
            headers.append((b"authorization", upstream.authorization.encode("ascii")))
        if self._fields is not None:
            payload = identity_payload(
                self._fields, method=self._head.method, path=path, query=self._head.query, host=self._forwarding.host
            )
            headers.append((SIGNATURE, self._signer.sign(payload)))
        return headers

    def host(self, upstream: Upstream) -> str:
        """The `Host` that `upstream` sees: its own, the caller's effective one, or the route's (`upstreamHost`)."""
        return upstream_host(self._route, self._forwarding, upstream)


def upstream_host(route: Route, forwarding: ForwardingContext, upstream: Upstream) -> str:
    """`RequestHeaders.host` as a function. A request without a host (HTTP/1.0) is sent under the upstream's own."""
    if route.upstream_host == "upstream":
        return upstream.authority
    if route.upstream_host == "request":
        return forwarding.host or upstream.authority
    return route.upstream_host


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


def _written(forwarding: ForwardingContext, request_id: str, trace: TraceContext) -> Pairs:
    headers = [(b"x-request-id", request_id.encode("ascii")), (b"traceparent", trace.traceparent)]
    if trace.tracestate is not None:
        headers.append((b"tracestate", trace.tracestate))
    if forwarding.chain:
        headers.append((b"x-forwarded-for", forwarding.chain))
    headers.append((b"x-forwarded-proto", forwarding.scheme.encode("ascii")))
    if forwarding.host:
        headers.append((b"x-forwarded-host", forwarding.host.encode("ascii")))
    return headers


def _identity(principal: Principal | None, workspace_id: str | None) -> WrittenIdentity | None:
    if principal is None:
        return None
    try:
        return written_identity(principal, workspace_id)
    except SubjectUnwritable as error:
        raise GatewayError("internal_error", str(error)) from error
