"""The port that several workers listen on, kept by the supervisor from its start to its end."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

_Address = tuple[socket.AddressFamily, tuple[Any, ...]]


class ReservedPort:
    """Addresses with a bound socket on each, which nobody listens on: no other program gets the port meanwhile, also
    while no worker listens.
    """

    def __init__(self, addresses: list[_Address], kept: list[socket.socket]) -> None:
        self._addresses = addresses
        self._kept = kept
        self.number: int = kept[0].getsockname()[1]

    def sockets(self) -> list[socket.socket]:
        """New sockets for one worker, one an address, bound and not listening yet. `OSError` when there are none."""
        made: list[socket.socket] = []
        with _closed_on_failure(made):
            for family, address in self._addresses:
                made.append(_bound(family, address, shared=True))
        return made

    def close(self) -> None:
        for sock in self._kept:
            sock.close()


def reserve_port(host: str, port: int) -> ReservedPort:
    """Bind every address of `host`; port 0 takes any free one, the same on each.

    `OSError` when an address cannot be had. `SO_REUSEPORT` would let another gateway of the same user share the port
    without a word, so each is first bound without it.
    """
    kept: list[socket.socket] = []
    addresses: list[_Address] = []
    absent: OSError | None = None
    with _closed_on_failure(kept):
        for family, address in _resolved(host, port):
            try:
                if port:
                    address = (address[0], port, *address[2:])
                    _bound(family, address, shared=False).close()
                kept.append(_bound(family, address, shared=True))
            except OSError as error:
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                absent = error  # a name may have an address of a family that this machine does not use
                continue
            port = kept[0].getsockname()[1]
            addresses.append((family, (address[0], port, *address[2:])))
        if absent is not None and not kept:
            raise absent
    return ReservedPort(addresses, kept)


def _resolved(host: str, port: int) -> list[_Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))


def _bound(family: socket.AddressFamily, address: tuple[Any, ...], *, shared: bool) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    with _closed_on_failure([sock]):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # IPv4 has a socket of its own where the host has such an address, as asyncio's servers have it.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.setblocking(False)
        sock.bind(address)
    return sock


@contextmanager
def _closed_on_failure(sockets: list[socket.socket]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        for sock in sockets:
            with suppress(OSError):
                sock.close()
        raise
