"""Callers on many connections, of which some ask at a time: `round_load.py PORT PATH CONNECTIONS [HEADER …]`.

Each connection asks in its turn, so the one that asks next is the one that asked longest ago. Prints `ready` once all
are open and were answered once, and for each line `AT_ONCE SECONDS` on standard input a line of JSON: how many answers
came, in how many seconds. Any other answer than a whole 200 ends it.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections import deque

from tests.bench.peers.paced_load import whole

PATIENCE_S = 60.0


class Load:
    """All connections, in the order in which they ask."""

    def __init__(self, port: int, path: str, connections: int, headers: list[str]) -> None:
        lines = "".join(f"{header}\r\n" for header in headers)
        self._request = f"GET {path} HTTP/1.1\r\nhost: bench\r\naccept: application/json\r\n{lines}\r\n".encode()
        self._poll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        self._held: dict[int, bytes] = {}
        self._turn: deque[int] = deque()
        for _ in range(connections):
            sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets[sock.fileno()] = sock
            self._held[sock.fileno()] = b""
            self._poll.register(sock, select.EPOLLIN)
            self._turn.append(sock.fileno())
        self.run(min(connections, 32), 0.0, connections)

    def run(self, at_once: int, seconds: float, at_least: int = 0) -> dict[str, float]:
        began = time.monotonic()
        ends = began + seconds
        asked = answered = 0
        while answered < asked or answered < at_least or time.monotonic() < ends:
            going_on = asked < at_least or time.monotonic() < ends
            while going_on and asked - answered < at_once:
                fd = self._turn.popleft()
                self._sockets[fd].sendall(self._request)
                asked += 1
            if answered < asked:
                answered += self._receive()
        return {"requests": answered, "seconds": time.monotonic() - began}

    def _receive(self) -> int:
        ready = self._poll.poll(PATIENCE_S)
        if not ready:
            raise SystemExit("answers did not come")
        count = 0
        for fd, _ in ready:
            data = self._sockets[fd].recv(65_536)
            if not data:
                raise SystemExit("a connection was closed")
            data = self._held[fd] + data
            answer = whole(data)
            if answer is None:
                self._held[fd] = data
                continue
            if answer != (200, True):
                raise SystemExit(f"answered with {data[:300]!r}")
            self._held[fd] = b""
            self._turn.append(fd)
            count += 1
        return count


def main(port: int, path: str, connections: int, headers: list[str]) -> None:
    load = Load(port, path, connections, headers)
    print("ready", flush=True)
    for line in sys.stdin:
        at_once, seconds = line.split()
        print(json.dumps(load.run(int(at_once), float(seconds))), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:])
