"""The request headers that an upstream gets (§7.1).

    context, identity, ids, host, signature -> gateway_lines ----+
    caller's headers -> what passes (policy) -+                  +-> the lines of an attempt at an upstream
    cookies, authorization -> as rewritten ---+-> copied_headers +

What depends on the upstream (host, credentials of a version 1 table, the signed path) is made for each attempt; lines
that many requests share are made once for as long as what they say is remembered. The gateway's own headers replace
nothing: every name that it writes has been kept out before.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from common.identity.headers import SubjectUnwritable
from common.identity.signature import IdentitySigner
from common.routetable.compiled import Route, Upstream
from dataplane.errors import GatewayError
from dataplane.forwarding.context import ForwardingContext
from dataplane.forwarding.cookies import upstream_cookie
from dataplane.forwarding.policy import Pairs, connection_names, passes_upstream, without_unsafe
from dataplane.http1.heads import Headers
from dataplane.http1.write import Lines, header_lines

if TYPE_CHECKING:
    from dataplane.exchange import Exchange


def gateway_lines(x: Exchange, upstream: Upstream, path: str, signer: IdentitySigner) -> Lines:
    """The lines of an attempt at `upstream` that the gateway writes; it receives `path` (of `upstream_path`).

    Framing (`content-length`, `transfer-encoding`) is not among them: it is made where the body is written. Raises
    `GatewayError("internal_error")` for a subject that no header can carry.
    """
    route, trace, forwarding, principal = x.matched.route, x.trace, x.forwarding, x.principal
    # The gateway's own ids: they hold nothing that could end a line.
    ids = f"x-request-id: {x.request_id}\r\ntraceparent: {trace.traceparent}\r\n".encode("ascii")
    if trace.tracestate is not None:
        ids += _line(b"tracestate", trace.tracestate)
    lines = _host(upstream_host(route, forwarding, upstream)) + ids + forwarding.lines
    if upstream.authorization is not None and not route.forward_authorization:
        lines += _line(b"authorization", upstream.authorization.encode("ascii"))
    if principal is not None:
        head = x.head
        try:
            lines += signer.lines(principal, x.workspace_id, head.method, path, head.query, forwarding.host)
        except SubjectUnwritable as error:
            raise GatewayError("internal_error", str(error)) from error
    return Lines(lines)


def copied_headers(x: Exchange) -> Copied:
    """The caller's headers that pass, the same for every upstream."""
    return x.head.derived(_with_authorization if x.matched.route.forward_authorization else _without)


def request_headers(x: Exchange, upstream: Upstream, path: str, signer: IdentitySigner) -> Pairs:
    """All headers of an attempt at `upstream`, as `gateway_lines` and `copied_headers` have them."""
    own = [line.partition(b": ") for line in gateway_lines(x, upstream, path, signer).split(b"\r\n")[:-1]]
    return [*((name, value) for name, _, value in own), *copied_headers(x).headers]


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
