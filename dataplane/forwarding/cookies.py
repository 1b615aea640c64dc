"""Cookies of a request: read once, by one rule, and forwarded exactly as they were read (§7.1, RFC 6265 §4.2, §5.4).

An upstream that parsed the line differently could find the gateway's cookie where the gateway saw none; so what goes
upstream is printed from what was parsed, never cut out of the original line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataplane.http1.heads import Headers

SESSION_COOKIE = "gateway_session"
STATE_COOKIE = "gateway_oidc_state"
GATEWAY_COOKIES = frozenset({SESSION_COOKIE.encode(), STATE_COOKIE.encode()})

# Bytes 0x80-0x9f are left alone: in UTF-8 they are the insides of ordinary characters.
CONTROLS = bytes([*range(0x20), 0x7F])

_OWS = b" \t"


def parse_cookies(values: Sequence[bytes]) -> list[tuple[str, str]]:
    """Name and value of every cookie in the request's `Cookie` headers, in order; a name may occur more than once.

    A pair without a name (or without `=`) is dropped, and so is a name that holds a control character. Control
    characters are removed from values. Quotes have no meaning (RFC 6265 §5.2). Text is latin-1, byte for byte.
    """
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in _pairs(values)]


def cookies_of(headers: Headers) -> tuple[tuple[str, str], ...]:
    """`parse_cookies` of a request's headers (for `RequestHead.derived`)."""
    return tuple(parse_cookies([value for name, value in headers if name == b"cookie"]))


def upstream_cookie(values: Sequence[bytes]) -> bytes | None:
    """The one `Cookie` value that the upstream gets: the pairs of `parse_cookies` without the gateway's own.

    None where nothing remains, so no empty header is sent. Pairs keep their order and their bytes.
    """
    kept = [name + b"=" + value for name, value in _pairs(values) if name not in GATEWAY_COOKIES]
    return b"; ".join(kept) if kept else None


def _pairs(values: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    pairs = []
    for line in values:
        has_controls = line.translate(None, CONTROLS) != line
        for pair in line.split(b";"):
            name, equals, value = pair.partition(b"=")
            name = name.strip(_OWS)
            if not name or not equals:
                continue
            if has_controls:
                if name.translate(None, CONTROLS) != name:
                    continue
                value = value.translate(None, CONTROLS)
            pairs.append((name, value.strip(_OWS)))
    return pairs
