"""A `Location` that names the upstream itself, made relative (§7.2).

The authority is found as a browser finds it (WHATWG URL): white space and control characters around the value do not
count, tabs inside it do not either, and a backslash is a slash. Read in another way, `http://app:3000\\@evil.example/`
would name a different host here than in the browser.
"""

from __future__ import annotations

import re

from common.routetable.compiled import Upstream
from common.routetable.upstreams import DEFAULT_PORTS

_AROUND = bytes(range(0x21))
_IGNORED = b"\t\r\n"

_ABSOLUTE = re.compile(rb"(?:(https?):)?[/\\]{2}([^/\\?#]*)(.*)", re.IGNORECASE | re.DOTALL)
_AUTHORITY = re.compile(rb"(?:[^@]*@)*(\[[^\]@]*\]|[^:@\[\]]*)(?::([0-9]{0,5}))?")


def relative_location(value: bytes, upstream: Upstream, *, internal_host: str = "", public_name: str = "") -> bytes:
    """`value` as a path of the public host where it names `upstream`, unchanged where it names anything else.

    The upstream is named by its own host and port and by `internal_host`, the `Host` of its own that a route gives it.
    What carries `public_name`, the caller's effective host, is no secret, and may be a redirect to https: it stays.
    The path stays as the upstream wrote it, its base path included.
    """
    found = _ABSOLUTE.fullmatch(value.strip(_AROUND).translate(None, _IGNORED))
    if found is None:
        return value
    scheme = (found[1] or upstream.scheme.encode("ascii")).lower().decode("ascii")
    named = _host_and_port(found[2], scheme)
    if named is None or not _is_upstream(named, scheme, upstream, internal_host, public_name):
        return value
    rest: bytes = found[3]
    if rest[:1] not in (b"/", b"\\"):
        return b"/" + rest
    # Behind the authority's removal a second slash would begin a new one: `/./` keeps it a path (RFC 3986 §4.2).
    return b"/." + rest if rest[1:2] in (b"/", b"\\") else b"/" + rest[1:]


def _is_upstream(named: tuple[str, int], scheme: str, upstream: Upstream, internal_host: str, public_name: str) -> bool:
    own = (_name(upstream.host), upstream.port)
    if named == own:
        return True
    if named[0] == _name(public_name):
        return False
    given = _host_and_port(internal_host.encode("ascii", "replace"), upstream.scheme)
    return any(
        named == known or (named[0] == known[0] and _both_default(named[1], scheme, known[1], upstream.scheme))
        for known in (own, given)
        if known is not None
    )


def _both_default(port: int, scheme: str, known_port: int, known_scheme: str) -> bool:
    """An upstream behind plain http that believes in https names itself `https://app/`: the same server."""
    return port == DEFAULT_PORTS[scheme] and known_port == DEFAULT_PORTS[known_scheme]


def _host_and_port(authority: bytes, scheme: str) -> tuple[str, int] | None:
    found = _AUTHORITY.fullmatch(authority)
    if found is None or not found[1]:
        return None
    return _name(found[1].decode("latin-1")), int(found[2] or DEFAULT_PORTS[scheme])


def _name(host: str) -> str:
    return host.strip("[]").lower().removesuffix(".")
