"""The response headers that a caller gets (§7.2).

An upstream can neither set the gateway's cookies, nor speak in the gateway's name, nor send a browser to an address
that only exists inside the deployment.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from common.routetable.compiled import Route, Upstream
from common.values import hot_value
from dataplane.forwarding.context import ForwardingContext
from dataplane.forwarding.cookies import CONTROLS, GATEWAY_COOKIES
from dataplane.forwarding.location import relative_location
from dataplane.forwarding.policy import Pairs, connection_names, passes_downstream, without_unsafe
from dataplane.http1.heads import Headers, ResponseHead
from dataplane.http1.write import Lines, header_lines, reason_phrase, response_framing, response_head

_NAME = itemgetter(0)
_LOCATIONS = frozenset({b"location", b"content-location"})

# An answer with a cookie of the gateway is this caller's alone, whatever its upstream says of caches: of two directives
# the stricter counts (RFC 9111 §4.2.1), and `Set-Cookie` by itself keeps no cache from storing (§7.3).
_PRIVATE = (b"cache-control", b"private")
NOT_MODIFIED = 304
_PROXY_STATUS = b"proxy-status"
_GATEWAY_NAME = b"wicketgate"


def response_headers(
    head: ResponseHead,
    *,
    route: Route,
    upstream: Upstream,
    forwarding: ForwardingContext,
    request_id: str,
    added: Sequence[tuple[bytes, bytes]] = (),
) -> ResponseHeaders:
    """The upstream's headers as the caller gets them, then the gateway's own: `added` (its cookies), `x-request-id`.

    Framing is left out: the connection makes it from `head`, of which it takes the `content-length` of an answer to
    `HEAD`. Repeated headers stay separate, in order, byte for byte.
    """
    copied = head.derived(_copied)
    own = Lines(b"x-request-id: %b\r\n" % request_id.encode("ascii"))  # it holds nothing that could end a line
    if not copied.locations and not added:
        return ResponseHeaders(own, copied)
    headers: Pairs = []
    for name, value in copied.locations:
        internal_host = "" if route.upstream_host in ("upstream", "request") else route.upstream_host
        kept = relative_location(value, upstream, internal_host=internal_host, public_name=forwarding.hostname or "")
        headers.append((name, kept))
    if added:
        headers += added
        if b"set-cookie" in map(_NAME, added):
            headers.append(_PRIVATE)
    return ResponseHeaders(Lines(header_lines(headers) + own), copied)


class Copied(NamedTuple):
    """What a caller gets of an upstream's headers as it came, the same as it is sent, and those that name a place."""

    headers: Headers
    lines: Lines
    locations: Headers
    start: bytes
    """The head with its framing and without the gateway's lines and the blank one, as a caller gets it who may send
    another request behind this one, of HTTP/1.1 and not `HEAD`."""
    chunked: bool


@hot_value
class ResponseHeaders:
    """The headers of one response, framing aside: what the gateway writes, and what it copies."""

    of_gateway: Lines
    copied: Copied

    def all(self) -> Pairs:
        """One list of them."""
        own = [line.partition(b": ") for line in self.of_gateway.split(b"\r\n")[:-1]]
        return [*self.copied.headers, *((name, value) for name, _, value in own)]


def _copied(head: ResponseHead) -> Copied:
    headers = head.headers
    named = connection_names([value for name, value in headers if name == b"connection"])
    passing = [
        (name, value)
        for name, value in without_unsafe([header for header in headers if passes_downstream(header[0])])
        if name not in named
        and not (name == b"set-cookie" and sets_gateway_cookie(value))
        and not (name == _PROXY_STATUS and _GATEWAY_NAME in value.lower())
    ]
    plain = [header for header in passing if header[0] not in _LOCATIONS]
    locations = [header for header in passing if header[0] in _LOCATIONS]
    lines = header_lines(plain)
    framing = response_framing(
        method="GET",
        status=head.status,
        body_length=head.body_length,
        declared=head.value(b"content-length") if head.status == NOT_MODIFIED else None,
        http_1_0=False,
        keep_alive=True,
    )
    start = response_head(head.status, head.reason or reason_phrase(head.status), framing.headers, lines)[:-2]
    return Copied(tuple(plain), lines, tuple(locations), start, framing.chunked)


def sets_gateway_cookie(value: bytes) -> bool:
    """Whether a browser could store this `Set-Cookie` as one of the gateway's cookies.

    Wider than RFC 6265bis §5.6 reads it: case and control characters do not count, and neither do equals signs and
    spaces in front, because `=gateway_session=x` is stored without a name and sent back as `gateway_session=x`.
    """
    pair = value.partition(b";")[0].translate(None, CONTROLS.replace(b"\t", b""))
    return pair.lstrip(b"= \t").partition(b"=")[0].strip(b" \t").lower() in GATEWAY_COOKIES
