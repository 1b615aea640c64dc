"""Host names as the table writes them and requests are compared with: lower case, A-labels, no trailing dot."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address

import idna

MAX_HOST_CHARACTERS = 253
"""RFC 1035 §3.1: a longer name cannot exist."""

# An underscore is no part of a host name in DNS, but names of containers and services carry it.
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[0-9]{1,5}")


def host_name(text: str) -> str:
    """An exact name or address, normalised; an IPv6 address loses its brackets. ValueError says what is wrong."""
    if text.startswith("["):
        return _ipv6(text)
    if not text:
        raise ValueError("is empty: name a host")
    if ":" in text:
        raise ValueError("must be a host without a port or scheme (an IPv6 address stands in brackets)")
    if "*" in text:
        raise ValueError("must be an exact host name: a wildcard is not possible here")
    name = _a_labels(text.removesuffix(".")).lower()
    if len(name) > MAX_HOST_CHARACTERS:
        raise ValueError(f"is longer than {MAX_HOST_CHARACTERS} characters")
    labels = name.split(".")
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError("is not a host name")
    if _NUMBER.fullmatch(labels[-1]):
        return _ipv4(name)
    return name


def host_pattern(text: str) -> str:
    """`*`, `*.example.com` or an exact name, normalised (§3.1). ValueError says what is wrong."""
    if text == "*":
        return text
    if not text.startswith("*."):
        if "*" in text:
            raise ValueError("may use a wildcard only as the whole first label: *.example.com")
        return host_name(text)
    base = host_name(text[2:])
    if is_address(base):
        raise ValueError("cannot use a wildcard with an address")
    return f"*.{base}"


def host_with_port(text: str) -> tuple[str, int | None]:
    """Host and port of `app`, `app:3000`, `[::1]:3000`; the host as `host_name` gives it."""
    if text.startswith("["):
        host, bracket, rest = text.partition("]")
        if not bracket:
            raise ValueError("has an unclosed bracket")
        host += bracket
    else:
        host, colon, after = text.partition(":")
        rest = colon + after
    if not rest:
        return host_name(host), None
    port = rest.removeprefix(":")
    if not rest.startswith(":") or _PORT.fullmatch(port) is None or not 1 <= int(port) <= 65_535:
        raise ValueError("has a port that is not a number from 1 to 65535")
    return host_name(host), int(port)


def bracketed(host: str) -> str:
    """The host as it stands in a URL or a `Host` header: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def is_address(host: str) -> bool:
    """The host is an IPv4 or IPv6 address (without brackets)."""
    return ":" in host or host.rpartition(".")[2].isdigit()


def _a_labels(name: str) -> str:
    if name.isascii():
        return name
    try:
        return idna.encode(name, uts46=True).decode("ascii")
    except idna.IDNAError as error:
        raise ValueError("is not a valid internationalised name: write it in its A-label form (xn--…)") from error


def _ipv4(name: str) -> str:
    try:
        return str(IPv4Address(name))
    except AddressValueError:
        raise ValueError("ends in a number but is not an IPv4 address") from None


def _ipv6(text: str) -> str:
    if not text.endswith("]") or "%" in text:
        raise ValueError("is not an IPv6 address in brackets, without a zone")
    try:
        return str(IPv6Address(text[1:-1]))
    except AddressValueError:
        raise ValueError("is not an IPv6 address") from None
