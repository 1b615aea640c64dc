"""Which header names pass the gateway: the one list (§7.1, §7.2).

Many servers hand headers to an application as variables, and write `-`, `_`, `.` and other marks alike there. So a
name is compared after folding: lower case, and every mark as `-`. `X_Gateway.User-Id` is the identity header.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter

Pairs = list[tuple[bytes, bytes]]

_VALUE = itemgetter(1)
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 §5.6.2
_FOLD = bytes(byte if chr(byte).isascii() and chr(byte).isalnum() else ord("-") for byte in range(256)).lower()

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"http2-settings",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Of one connection (RFC 9110 §7.6.1): never passed on, whether `Connection` names them or not."""

FRAMING = frozenset({b"content-length", b"expect"})
"""Made anew by whoever writes the message; copied, they could disagree with what is really sent."""

RESERVED_PREFIXES = (b"x-forwarded-", b"x-gateway-")
"""Names that only the gateway writes, the ones it does not use yet included."""

RESERVED = frozenset(
    {
        b"forwarded",
        b"host",
        b"x-forwarded",
        b"x-gateway",
        b"x-real-ip",
        b"x-remote-email",
        b"x-remote-user",
        b"x-request-id",
    }
)
"""Beside the prefixes: identity, forwarding and request id, in both directions."""

PROXY_CLAIMS = frozenset(
    {
        # The caller's address.
        b"cf-connecting-ip",
        b"cf-connecting-ipv6",
        b"client-ip",
        b"fastly-client-ip",
        b"fly-client-ip",
        b"proxy-client-ip",
        b"true-client-ip",
        b"wl-proxy-client-ip",
        b"x-azure-clientip",
        b"x-client-ip",
        b"x-cluster-client-ip",
        b"x-envoy-external-address",
        b"x-original-forwarded-for",
        b"x-originating-ip",
        b"x-remote-addr",
        b"x-remote-ip",
        # The host, scheme or path in the place of the request's own: they would undo the route that was matched.
        b"front-end-https",
        b"x-envoy-original-path",
        b"x-host",
        b"x-http-host-override",
        b"x-original-host",
        b"x-original-method",
        b"x-original-proto",
        b"x-original-uri",
        b"x-original-url",
        b"x-rewrite-url",
        b"x-scheme",
        b"x-url-scheme",
        # Who calls, as other proxies say it.
        b"client-cert",
        b"client-cert-chain",
        b"remote-user",
        b"ssl-client-cert",
        b"x-authenticated-user",
        b"x-client-cert",
        b"x-remote-group",
        b"x-remote-groups",
        b"x-remote-name",
        b"x-ssl-client-cert",
        b"x-ssl-client-dn",
        b"x-ssl-client-verify",
        b"x-webauth-user",
        # CGI programs read this one as the proxy for their own requests (CVE-2016-5385).
        b"proxy",
    }
)
"""What a proxy may tell an application, and no caller may: removed from requests, whoever sent them.

A trusted proxy's are removed too: the gateway reads `x-forwarded-for`, `-proto` and `-host`, and writes them itself.
"""

WRITTEN = frozenset({b"authorization", b"cookie", b"traceparent", b"tracestate"})
"""Request headers that pass only in the form the gateway gives them."""

_NO_NAMES: frozenset[bytes] = frozenset()
_CONNECTION_OPTIONS = HOP_BY_HOP | {b"close", b""}

_NEVER = HOP_BY_HOP | FRAMING | RESERVED
_NEVER_UPSTREAM = _NEVER | PROXY_CLAIMS | WRITTEN


def folded(name: bytes) -> bytes:
    """A name as reserved names are compared."""
    return name.translate(_FOLD)


# Names repeat from request to request: one look-up each. Made-up names may be as long as a head (32 KiB of a caller,
# 64 KiB of an upstream), and the bounds keep a flood of them at 16 MiB.
@lru_cache(maxsize=512)
def passes_upstream(name: bytes) -> bool:
    """Whether a caller's header of this name may be copied to an upstream."""
    return _passes(name, _NEVER_UPSTREAM)


@lru_cache(maxsize=256)
def passes_downstream(name: bytes) -> bool:
    """Whether an upstream's header of this name may be copied to the caller."""
    return _passes(name, _NEVER)


def connection_names(values: Sequence[bytes]) -> frozenset[bytes]:
    """The header names, in lower case, that `Connection` binds to this connection beside those of every connection
    (RFC 9110 §7.6.1).
    """
    if not values or (len(values) == 1 and values[0].lower() in _CONNECTION_OPTIONS):
        return _NO_NAMES
    tokens = b",".join(values).lower().split(b",")
    return frozenset([token.strip(b" \t") for token in tokens]) - _CONNECTION_OPTIONS


def without_unsafe(headers: Pairs) -> Pairs:
    """The headers whose values hold neither CR, LF nor NUL: bytes that could end a header early (RFC 9110 §5.5).

    The parsers have refused them already; one look at all values together makes this second lock cheap.
    """
    if not _is_unsafe(b"".join(map(_VALUE, headers))):
        return headers
    return [header for header in headers if not _is_unsafe(header[1])]


def _is_unsafe(value: bytes) -> bool:
    return 0 in value or 10 in value or 13 in value  # as numbers: `in` is slow when it is asked for bytes


def _passes(name: bytes, never: frozenset[bytes]) -> bool:
    if _TOKEN.fullmatch(name) is None:
        return False
    comparable = folded(name)
    return comparable not in never and not comparable.startswith(RESERVED_PREFIXES)
