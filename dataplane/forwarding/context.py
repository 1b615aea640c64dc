"""Who calls, under which scheme and host: the forwarding context of a request (§7.3).

What a proxy says counts only when the socket's other end is one of the trusted proxies. The chain of addresses is read
from its right end, where the proxies wrote; what a client put into it stands further left and is never attributed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING

from common.values import hot_value
from dataplane.forwarding.policy import Pairs, without_unsafe
from dataplane.http1.authority import parse_authority
from dataplane.http1.heads import Authority, ProtocolError
from dataplane.http1.write import Lines, header_lines

if TYPE_CHECKING:
    from common.routetable.compiled import TrustedProxies
    from dataplane.http1.heads import RequestHead

_OWS = b" \t"

# `203.0.113.9:4711` and `[2001:db8::9]:4711`: proxies that append the port of their peer write these.
_ENTRY = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([0-9.]{7,15}))(?::[0-9]{1,5})?|([0-9A-Fa-f:.]{2,45})")


@hot_value
class ForwardingContext:
    """The caller and the address it used.

    `client` is the caller's address in its canonical text (an IPv4-mapped IPv6 address is the IPv4 one), `""` for a
    socket without an address. `scheme` is `http` or `https`. `host` is the effective host as sent upstream in
    `x-forwarded-host` (`""` for HTTP/1.0 without one); `hostname` is its name alone for matching: lower case, without
    port, brackets and one trailing dot. `chain` is the value of `x-forwarded-for`: from the caller to the gateway's
    peer. `trusted` says that the peer is a trusted proxy. `lines` are the header lines that tell an upstream of it.
    """

    client: str
    scheme: str
    host: str
    hostname: str | None
    chain: bytes
    trusted: bool
    lines: Lines = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        told: Pairs = [(b"x-forwarded-for", self.chain)] if self.chain else []
        told.append((b"x-forwarded-proto", self.scheme.encode("ascii")))
        if self.host:
            told.append((b"x-forwarded-host", self.host.encode("ascii")))
        object.__setattr__(self, "lines", header_lines(without_unsafe(told)))


def forwarding_context(
    head: RequestHead, peer: str, *, trusted_proxies: TrustedProxies, hops: int, scheme: str
) -> ForwardingContext:
    """The context of a request that arrived from `peer` (an address without port, `""` for a socket without one).

    `hops` is the number of proxies in front (`GATEWAY_TRUSTED_PROXY_HOPS`); `scheme` the one that the listener or the
    public URL gives, used where no trusted proxy names another.
    """
    authority = head.authority
    if trusted_proxies:
        address = canonical_address(peer) or ""
        if is_trusted(address, trusted_proxies):
            authority = _forwarded_host(head.values(b"x-forwarded-host")) or authority
            client, chain = _caller(head.values(b"x-forwarded-for"), address, hops)
            host, hostname = ("", None) if authority is None else (authority.sent, authority.host)
            return ForwardingContext(client, forwarded_scheme(head) or scheme, host, hostname, chain, True)
    return (
        _direct(peer, scheme, "", None) if authority is None else _direct(peer, scheme, authority.sent, authority.host)
    )


# A caller asks again and again, under few names. The bound keeps a flood of addresses from growing it.
@lru_cache(maxsize=1024)
def _direct(peer: str, scheme: str, host: str, hostname: str | None) -> ForwardingContext:
    """The context of a request that came straight from its caller, or from whom nobody trusts."""
    address = canonical_address(peer) or ""
    return ForwardingContext(address, scheme, host, hostname, address.encode("ascii"), False)


def forwarded_scheme(head: RequestHead) -> str | None:
    """The scheme that a trusted proxy names; a list of several is no single answer, and counts as none."""
    lines = head.values(b"x-forwarded-proto")
    if len(lines) != 1:
        return None
    value = lines[0].lower()
    return value.decode("ascii") if value in (b"http", b"https") else None


def is_trusted(address: str, trusted_proxies: TrustedProxies) -> bool:
    """Whether a canonical address is in one of the ranges; `""` never is."""
    parsed = _parsed(address)
    return parsed is not None and any(parsed in network for network in trusted_proxies)


# Proxies and callers repeat; parsing costs microseconds. The bound keeps a flood of addresses from growing it.
@lru_cache(maxsize=4096)
def canonical_address(text: str) -> str | None:
    """The one spelling of an IP address, None where the text is not one.

    IPv6 in its short form without a zone; an IPv4-mapped one (`::ffff:192.0.2.1`, what a dual-stack socket reports) is
    the IPv4 address, so that one caller never has two names.
    """
    parsed = _parsed(text)
    return None if parsed is None else str(parsed)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        parsed = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return parsed.ipv4_mapped
    return parsed


def _caller(lines: Sequence[bytes], peer: str, hops: int) -> tuple[str, bytes]:
    """The caller's address and the chain from it to `peer`; the peer alone where the chain cannot be trusted."""
    entries = [entry.strip(_OWS) for entry in b",".join(lines).split(b",")]
    if 0 < hops <= len(entries) and b"" not in entries:
        found = [_entry_address(entry) for entry in entries[-hops:]]
        addresses = [address for address in found if address is not None]
        if len(addresses) == hops:
            return addresses[0], ", ".join([*addresses, peer]).encode("ascii")
    return peer, peer.encode("ascii")


def _entry_address(entry: bytes) -> str | None:
    found = _ENTRY.fullmatch(entry.decode("latin-1"))
    return None if found is None else canonical_address(found[1] or found[2] or found[3])


def _forwarded_host(lines: Sequence[bytes]) -> Authority | None:
    """The host that a trusted proxy names: the last value, because an appending proxy writes its own last.

    What is no host is ignored. It is read by the same grammar as `Host`.
    """
    if not lines:
        return None
    try:
        return parse_authority(lines[-1].rpartition(b",")[2].strip(_OWS))
    except ProtocolError:
        return None
