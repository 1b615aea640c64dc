"""The fields of a table outside its routes: names of the gateway, trusted ranges, reserved paths (§2.2, §3.1)."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TypeVar

from common.routetable.compiled import TrustedProxies
from common.routetable.hosts import host_name
from common.routetable.problems import Problem, Problems
from common.routetable.templates import parse_literal_path

GATEWAY_PATHS = (
    "/auth/login",
    "/auth/callback",
    "/auth/logout",
    "/auth/session",
    "/healthz",
    "/readyz",
    "/metrics",
    "/.well-known/acme-challenge",
)
"""What the gateway answers itself (§2.2): reserved with everything below, on every name of the gateway."""

MAX_TRUSTED_ADDRESSES = 16
"""Every workload of a trusted range may speak for any caller, so production bounds each range (§7.3)."""

_RANGE = re.compile(r"[0-9A-Fa-f.:]+/[0-9]{1,3}")
T = TypeVar("T", bound=Hashable)


def read_hosts(hosts: list[str], problems: Problems) -> frozenset[str]:
    """The names of the gateway, normalised."""
    return frozenset(_each(hosts, "hosts", host_name, problems))


def read_trusted_proxies(ranges: list[str], problems: Problems) -> TrustedProxies:
    """The trusted ranges: networks with a prefix length and without host bits."""
    return _each(ranges, "trustedProxies", _network, problems)


def read_reserved_paths(paths: list[str], problems: Problems) -> tuple[str, ...]:
    """The configured reserved prefixes, in their strict reading."""
    return _each(paths, "reservedPaths", _reserved, problems)


def wide_ranges(ranges: TrustedProxies) -> tuple[Problem, ...]:
    """Ranges that production refuses (§4.3), as problems of the table."""
    return tuple(
        Problem(
            f"trustedProxies[{index}]",
            f"{network} covers more than {MAX_TRUSTED_ADDRESSES} addresses, which production refuses: every workload "
            "in it could speak for any caller",
        )
        for index, network in enumerate(ranges)
        if network.num_addresses > MAX_TRUSTED_ADDRESSES
    )


def _each(texts: list[str], field: str, read: Callable[[str], T], problems: Problems) -> tuple[T, ...]:
    found: dict[T, None] = {}
    for index, text in enumerate(texts):
        try:
            value = read(text)
        except ValueError as error:
            problems.add(f"{field}[{index}]", str(error))
            continue
        if value in found:
            problems.add(f"{field}[{index}]", "is listed twice")
        found[value] = None
    return tuple(found)


def _reserved(text: str) -> str:
    return parse_literal_path(text).text


def _network(text: str) -> IPv4Network | IPv6Network:
    if _RANGE.fullmatch(text) is None:
        try:
            whole = ip_network(text)
        except ValueError:
            raise ValueError("is not a range: write an address and a prefix length, such as 10.0.0.4/32") from None
        raise ValueError(f"is not a range: write {whole} for this one address")
    try:
        return ip_network(text)
    except ValueError:
        pass
    try:
        widened = ip_network(text, strict=False)
    except ValueError:
        raise ValueError("is not a range of IPv4 or IPv6 addresses") from None
    raise ValueError(f"has bits set behind its prefix: write {widened}")
