"""The host that a request names: `Host` and the authority of an absolute-form target, by one strict grammar."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from dataplane.http1.heads import Authority, ProtocolError

# Narrower than RFC 3986's reg-name: no escapes and no sub-delims, which no resolver knows and other readers split at.
# The underscore stays: names of containers and of services have it.
_NAME = re.compile(rb"([A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*)\.?(?::([0-9]{1,5}))?")
_IPV6 = re.compile(rb"\[([0-9A-Fa-f:.]{2,45})\](?::([0-9]{1,5}))?")
# A last label that reads as a number makes browsers read the whole as an IPv4 address (WHATWG URL, "ends in a number").
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")

NAME_MAX_BYTES = 253
PORT_MAX = 65_535


@lru_cache(maxsize=1024)
def parse_authority(value: bytes) -> Authority:
    """`host[:port]` as an `Authority`; the host is a name, an IPv4 address or an IPv6 address in brackets.

    The host is in lower case, an IPv6 address in its canonical text; one trailing dot is dropped. Raises
    `ProtocolError("bad_request")` for anything else: user info, a path, a list, an empty host or port, a port above
    65535, a zone, an empty label, a number that is no dotted IPv4 address (RFC 9110 §7.2, RFC 3986 §3.2).

    Answers are remembered, failures are not; what is remembered is at most some 300 bytes.
    """
    match = _NAME.fullmatch(value)
    if match is not None:
        host = match[1].decode("ascii").lower()
        if len(host) > NAME_MAX_BYTES or not _name_or_ipv4(host):
            raise ProtocolError("bad_request", "a malformed host")
    else:
        match = _IPV6.fullmatch(value)
        if match is None:
            raise ProtocolError("bad_request", "a malformed host")
        try:
            host = str(IPv6Address(match[1].decode("ascii")))
        except AddressValueError:
            raise ProtocolError("bad_request", "a malformed host") from None
    port = int(match[2]) if match[2] is not None else None
    if port is not None and port > PORT_MAX:
        raise ProtocolError("bad_request", "a host with a port out of range")
    return Authority(host, port, value.decode("ascii"))


def same_authority(one: Authority, other: Authority, default_port: int) -> bool:
    """Both name the same host and port; a port that is not named is `default_port`."""
    return one.host == other.host and (default_port if one.port is None else one.port) == (
        default_port if other.port is None else other.port
    )


def _name_or_ipv4(host: str) -> bool:
    if _NUMBER.fullmatch(host[host.rfind(".") + 1 :]) is None:
        return True
    try:
        IPv4Address(host)
    except AddressValueError:
        return False
    return True
