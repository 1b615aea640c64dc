"""Keys of budgets (§9): one encoder, whose keys cannot be confused by their parts.

`deployment:total`, `client:<address>`, `<route>:<address>`, `none:<address>`, `<route>:sub:<subject>`,
`login:<address>`, `callback:<address>`. A part holds no `:`, and different texts and addresses are different parts.
"""

from __future__ import annotations

import re
import socket
from functools import lru_cache
from hashlib import sha256

_ESCAPED = re.compile(r"[\x00-\x1f\x7f-\x9f:%\ud800-\udfff]")
_PART_MAX_CHARS = 128  # A subject may be as long as a header; ten thousand keys of it would not be a bounded table.
_MAPPED_IPV4 = bytes(10) + b"\xff\xff"
_FIXED_FIRST_PARTS = frozenset(("deployment", "client", "none", "login", "callback"))


def key_part(text: str) -> str:
    """A text as one part of a key: two texts never give the same part, and no part holds a `:` (§9).

    Control characters (Unicode's Cc), `:` and the `%` that escapes them are written as `%3A`, lone surrogates as
    `%uD800`. A text over 128 characters is its SHA-256 behind `%h`.
    """
    if len(text) > _PART_MAX_CHARS:
        return "%h" + sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    if ":" not in text and "%" not in text and text.isprintable():
        return text
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}" if found[0] <= "\xff" else f"%u{ord(found[0]):X}", text)


# Callers repeat; the bound keeps a flood of addresses from growing it.
@lru_cache(maxsize=4096)
def address_part(address: str) -> str:
    """A caller's address as a part of a key: IPv4 as it is, IPv6 as its /64 (16 hexadecimal digits, then `/64`).

    An IPv4-mapped address is the IPv4 one, and a zone is dropped, so that no caller has a choice of keys. Whatever is
    no address (`""` for a socket without one) is `%t` and its `key_part`, which no address gives.
    """
    try:
        return socket.inet_ntop(socket.AF_INET, socket.inet_pton(socket.AF_INET, address))
    except (OSError, ValueError):
        pass
    try:
        packed = socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    except (OSError, ValueError):
        return "%t" + key_part(address)
    if packed.startswith(_MAPPED_IPV4):
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return packed[:8].hex() + "/64"


def route_part(route_id: str) -> str:
    """A route's id as the first part of a key. An id that is one of the fixed first parts has its first letter escaped:
    the budget of a route that is named `client` is not the budget of all routes."""
    return route_id if route_id not in _FIXED_FIRST_PARTS else f"%{ord(route_id[0]):02X}{route_id[1:]}"
