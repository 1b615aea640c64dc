"""The request headers that an upstream gets (§7.1).

    context, identity, ids, host, signature -> gateway_lines ----+
    caller's headers -> what passes (policy) -+                  +-> the lines of an attempt at an upstream
    cookies, authorization -> as rewritten ---+-> copied_headers +

What depends on the upstream (host, credentials of a version 1 table, the signed path) is made for each attempt; lines
that many requests share are made once for as long as what they say is remembered. The gateway's own headers replace
nothing: every name that it writes has been kept out before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from common.identity.headers import SubjectUnwritable
from common.identity.principal import Principal
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

T = TypeVar("T")


def gateway_lines(x: Exchange, upstream: Upstream, identity: bytes) -> Lines:
    """The lines of an attempt at `upstream` that the gateway writes, the `identity_lines` last.

    Framing (`content-length`, `transfer-encoding`) is not among them: it is made where the body is written.
    """
    route, trace, forwarding = x.matched.route, x.trace, x.forwarding
    # The gateway's own ids: they hold nothing that could end a line.
    ids = f"x-request-id: {x.request_id}\r\ntraceparent: {trace.traceparent}\r\n".encode("ascii")
    if trace.tracestate is not None:
        ids += _line(b"tracestate", trace.tracestate)
    lines = _host(upstream_host(route, forwarding, upstream)) + ids + forwarding.lines
    if upstream.authorization is not None and not route.forward_authorization:
        lines += _line(b"authorization", upstream.authorization.encode("ascii"))
    return Lines(lines + identity)


def identity_lines(
    x: Exchange, path: str, lines: Callable[[Principal, str | None, str, str, str, str], T]
) -> T | bytes:
    """Who calls, signed for an upstream that receives `path` (of `upstream_path`); nothing where nobody is known.

    `lines` are a signer's `lines` or `lines_soon`. Raises `GatewayError("internal_error")` for a subject that no header
    can carry.
    """
    principal, head = x.principal, x.head
    if principal is None:
        return b""
    try:
        return lines(principal, x.workspace_id, head.method, path, head.query, x.forwarding.host)
    except SubjectUnwritable as error:
        raise GatewayError("internal_error", str(error)) from error


def copied_headers(x: Exchange) -> Copied:
    """The caller's headers that pass, the same for every upstream."""
    return x.head.derived(_with_authorization if x.matched.route.forward_authorization else _without)


def request_headers(x: Exchange, upstream: Upstream, path: str, signer: IdentitySigner) -> Pairs:
    """All headers of an attempt at `upstream`, as `gateway_lines` and `copied_headers` have them."""
    lines = gateway_lines(x, upstream, identity_lines(x, path, signer.lines))
    own = [line.partition(b": ") for line in lines.split(b"\r\n")[:-1]]
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
