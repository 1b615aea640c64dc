"""The forms of URLs and hosts that settings accept (RFC 3986, narrowed), and which hosts are private."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from common.routetable.hosts import bracketed, host_name
from common.routetable.upstreams import DEFAULT_PORTS

_VISIBLE = re.compile(r"[!-~]+")

_PRIVATE_NETWORKS = tuple(
    ip_network(text)
    for text in (
        "127.0.0.0/8",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "169.254.0.0/16",
        "::1/128",
        "fc00::/7",
        "fe80::/10",
    )
)
_PRIVATE_SUFFIXES = (".internal", ".local", ".svc", ".localhost")


@dataclass(frozen=True, slots=True)
class HttpUrl:
    """An http or https URL without user info, query or fragment; `host` in lower case, IPv6 without brackets."""

    scheme: str
    host: str
    port: int | None
    path: str

    @property
    def origin(self) -> str:
        """Scheme, host and port as an origin is written (RFC 6454 §6.2): no port where it is the scheme's own."""
        host = bracketed(self.host)
        if self.port is None or self.port == DEFAULT_PORTS[self.scheme]:
            return f"{self.scheme}://{host}"
        return f"{self.scheme}://{host}:{self.port}"


def parse_http_url(text: str) -> HttpUrl:
    """The parts of a URL; `ValueError` names the first thing that such a URL may not have."""
    if _VISIBLE.fullmatch(text) is None or "\\" in text:
        raise ValueError(
            "holds a character that a URL cannot have; write other scripts as A-labels and percent-escapes"
        )
    try:
        parts = urlsplit(text)
    except ValueError:
        raise ValueError("has no valid host") from None
    if parts.scheme not in DEFAULT_PORTS:
        raise ValueError("does not begin with http:// or https://")
    if "@" in parts.netloc:
        raise ValueError("holds a user name or password; remove it")
    if "?" in text or "#" in text:
        raise ValueError("holds a query or fragment; remove it")
    try:
        port = parts.port
    except ValueError:
        raise ValueError("has a port that is not a number from 1 to 65535") from None
    if port == 0 or parts.netloc.endswith(":"):
        raise ValueError("has a port that is not a number from 1 to 65535")
    return HttpUrl(parts.scheme, _host(parts.netloc, parts.hostname or ""), port, parts.path)


def is_host(text: str) -> bool:
    """Whether a text is a host name or an address, without port and brackets."""
    return _address(text) is not None or _is_name(text)


def is_private_host(host: str) -> bool:
    """Whether a host is on the deployment's own network (CONTRACT, Settled details, Environment).

    Loopback, RFC 1918, unique local, link-local; a single label; names below `.internal`, `.local`, `.svc` (and
    `.localhost`, RFC 6761 §6.3). What a resolver would read as an address is one only in its usual form.
    """
    name = host.lower().removeprefix("[").removesuffix("]")
    address = _address(name)
    if address is not None:
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in _PRIVATE_NETWORKS if network.version == address.version)
    name = name.removesuffix(".")
    return _is_name(name) and ("." not in name or name.endswith(_PRIVATE_SUFFIXES))


def _host(netloc: str, hostname: str) -> str:
    bracketed = netloc.startswith("[")
    if bracketed and isinstance(_address(hostname), IPv6Address) and "%" not in hostname:
        return hostname
    if bracketed or not is_host(hostname) or ":" in hostname:
        raise ValueError("has no valid host")
    return hostname


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _is_name(text: str) -> bool:
    """An ASCII host name by the grammar of the route table.

    What a resolver reads as an address, however few its parts (`127.1`, `0x7f000001`, `2130706433`), is none.
    """
    try:
        host_name(text)
    except ValueError:
        return False
    return text.isascii() and not text.startswith("[")
