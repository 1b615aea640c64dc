"""Loopback ports that nothing else in the test run will take."""

from __future__ import annotations

import random
import socket

# Below the kernel's ephemeral range (32768 up), so neither a bind to port 0 nor an outgoing connection is ever given
# one of these; and low enough that a port 10 000 above it is free for a peer that derives a second one.
_LOWEST = 20_000
_HIGHEST = 31_999
_ATTEMPTS = 200


def bound_socket(host: str = "127.0.0.1") -> socket.socket:
    """A TCP socket bound to a port of the kernel's choice, not listening yet: hand it to the server under test.

    There is no moment at which another process could take the port. The caller closes it.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, 0))
    except OSError:
        sock.close()
        raise
    return sock


def port_of(sock: socket.socket) -> int:
    """The port a socket is bound to."""
    port: int = sock.getsockname()[1]
    return port


def free_port() -> int:
    """A port number for a program that takes no ready socket.

    It is free when this returns; between that and the program's bind only another caller of this function could take
    it, and they draw from 12 000 at random.
    """
    draw = random.SystemRandom()
    for _ in range(_ATTEMPTS):
        port = draw.randint(_LOWEST, _HIGHEST)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise RuntimeError(f"no free port between {_LOWEST} and {_HIGHEST}")


def closed_port() -> int:
    """A port on which a connection is refused, for tests of a server that is down."""
    return free_port()
