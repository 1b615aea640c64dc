"""Callers of a WebSocket echo: `websocket_load.py PORT CONNECTIONS PAYLOAD_BYTES IN_FLIGHT`.

Each connection sends its messages in one write, waits until all are back, compares them, and sends the next. One thread
over epoll; masked with zeros, so that no time goes into masks. Prints `ready`, and for each line `SECONDS` on its
standard input one line of JSON: messages, the seconds they took, and p50 and p99 of the time from the write to the last
message back.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import time
from array import array

HANDSHAKE = (
    b"GET /echo HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"
)
BINARY = 2
PATIENCE_S = 10.0


def frame(payload: bytes, mask: bytes) -> bytes:
    bit = 0x80 if mask else 0
    length = len(payload)
    size = bytes((bit | length,)) if length < 126 else bytes((bit | 126,)) + length.to_bytes(2, "big")
    return bytes((0x80 | BINARY,)) + size + mask + payload


def opened(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(HANDSHAKE)
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = sock.recv(1)
        if not byte:
            break
        head += byte
    if not head.startswith(b"HTTP/1.1 101 "):
        raise SystemExit(f"the handshake was answered with {head[:300]!r}")
    return sock


class Load:
    """All connections, and how far each has come."""

    def __init__(self, port: int, connections: int, payload_bytes: int, in_flight: int) -> None:
        # Another payload for each run: what comes back is this run's.
        payloads = [os.urandom(payload_bytes) for _ in range(in_flight)]
        self._sent = b"".join(frame(payload, bytes(4)) for payload in payloads)
        self._expected = b"".join(frame(payload, b"") for payload in payloads)
        self._in_flight = in_flight
        self._poll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        for _ in range(connections):
            sock = opened(port)
            self._sockets[sock.fileno()] = sock
            self._poll.register(sock, select.EPOLLIN)

    def run(self, seconds: float) -> dict[str, float]:
        sent, expected, now_ns = self._sent, self._expected, time.perf_counter_ns
        held: dict[int, bytes] = dict.fromkeys(self._sockets, b"")
        took_ns = array("q")
        began_ns = now_ns()
        until_ns = began_ns + int(seconds * 1e9)
        sent_at = dict.fromkeys(self._sockets, began_ns)
        for fd, sock in self._sockets.items():
            sent_at[fd] = now_ns()
            sock.sendall(sent)
        waiting = len(self._sockets)
        while waiting:
            ready = self._poll.poll(PATIENCE_S)
            if not ready:
                raise SystemExit("messages did not come back")
            for fd, _ in ready:
                sock = self._sockets[fd]
                data = sock.recv(1 << 18)
                if not data:
                    raise SystemExit("a connection was closed while it was timed")
                if len(data) < len(expected):
                    data = held[fd] + data
                    if len(data) < len(expected):
                        held[fd] = data
                        continue
                    held[fd] = b""
                if data != expected:
                    raise SystemExit("another message came back than was sent")
                now = now_ns()
                took_ns.append(now - sent_at[fd])
                if now < until_ns:
                    sent_at[fd] = now
                    sock.sendall(sent)
                else:
                    waiting -= 1
        took_s = (now_ns() - began_ns) / 1e9
        ordered = sorted(took_ns)
        return {
            "messages": len(ordered) * self._in_flight,
            "seconds": took_s,
            "p50_us": ordered[len(ordered) // 2] / 1000,
            "p99_us": ordered[len(ordered) * 99 // 100] / 1000,
        }


def main(port: int, connections: int, payload_bytes: int, in_flight: int) -> None:
    load = Load(port, connections, payload_bytes, in_flight)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(load.run(float(line))), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
