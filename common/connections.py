"""How many connections a server holds, of everybody and of one address, and which of them take no answer."""

from __future__ import annotations

import resource
from collections import Counter
from ipaddress import IPv6Address, IPv6Network, ip_address

CONNECTIONS_MAX = 1_000
"""More than people, pipelines and gateways open at once; each takes a descriptor and some kilobytes."""
DESCRIPTORS_KEPT = 100
"""For the shared state, processes, files and the log: what is open may never take the last descriptor."""


def connections_max() -> int:
    """As many as the process's descriptors allow, at most `CONNECTIONS_MAX`."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = CONNECTIONS_MAX if soft == resource.RLIM_INFINITY else soft - DESCRIPTORS_KEPT
    return max(8, min(CONNECTIONS_MAX, room))


def host_of(address: str) -> str:
    """What stands for the host of a socket's address: a host of IPv6 has all addresses of its /64."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        mapped = parsed.ipv4_mapped
        return str(mapped or IPv6Network((int(parsed) >> 64 << 64, 64)))
    return str(parsed)


class Places:
    """So many connections at once; `of_one` of them at most for one host."""

    def __init__(self, most: int, of_one: int) -> None:
        self.most = most
        self._of_one = of_one
        self._taken: Counter[str] = Counter()
        self._all = 0

    def take(self, host: str) -> bool:
        """Whether there is a place, which is taken then, until it is left."""
        if self._all >= self.most or self._taken.get(host, 0) >= self._of_one:
            return False
        self._all += 1
        self._taken[host] += 1
        return True

    def leave(self, host: str) -> None:
        """Give a place back."""
        self._all -= 1
        self._taken[host] -= 1
        if not self._taken[host]:
            del self._taken[host]
