"""Callers who do not wait for each other: `paced_load.py PORT PATH [HEADER …]`.

Requests fall due at a fixed rate, whatever became of those before (an open loop), each on a connection of which nothing
is awaited; one that finds none goes out as soon as there is one, and its delay is counted. Prints `ready`; then, for
each line `RATE SECONDS CONNECTIONS` on its standard input, one line of JSON: how many fell due, were sent, and were
answered with which status, and of each status the delays from the sending (`sent_…`) and from when it was due.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from array import array
from collections import deque
from typing import Any

PATIENCE_S = 10.0
"""What an answer may take once nothing more is sent."""


class Caller:
    """One connection, opened anew where the gateway closed it."""

    __slots__ = ("due", "held", "sent", "sock")

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        self.held = b""
        self.due = self.sent = 0


def whole(data: bytes) -> tuple[int, bool] | None:
    """Status of a whole answer, and whether the connection goes on; None while it is not whole."""
    head, found, body = data.partition(b"\r\n\r\n")
    if not found:
        return None
    lines = head.lower().split(b"\r\n")
    length = next(int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
    if len(body) < length:
        return None
    return int(head[9:12]), b"connection: close" not in lines


class Load:
    """The callers of one run."""

    def __init__(self, port: int, path: str, headers: list[str], connections: int) -> None:
        self._port = port
        lines = "".join(f"{header}\r\n" for header in ("host: bench", "accept: application/json", *headers))
        self._request = f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode()
        self._poll = select.epoll()
        self._callers: dict[int, Caller] = {}
        self._idle: deque[Caller] = deque()
        self._from_due: dict[int, array[int]] = {}
        self._from_sent: dict[int, array[int]] = {}
        self._lost = 0
        self._waiting = 0
        for _ in range(connections):
            self._open()

    def run(self, rate: float, seconds: float) -> dict[str, Any]:
        now_ns = time.perf_counter_ns
        began = now_ns()
        step = 1e9 / rate
        total, sent = int(rate * seconds), 0
        end = began + int(seconds * 1e9)
        while sent < total and (now := now_ns()) < end:
            while sent < total and self._idle and began + step * sent <= now:
                self._send(self._idle.popleft(), began + int(step * sent))
                sent += 1
            due_in = began + step * sent - now_ns() if self._idle else end - now_ns()
            self._receive(max(0.0, due_in / 1e9))
        took_s = (now_ns() - began) / 1e9
        until = now_ns() + int(PATIENCE_S * 1e9)
        while self._waiting and now_ns() < until:
            self._receive(0.1)
        for caller in self._callers.values():
            caller.sock.close()
        return {
            "due": total,
            "sent": sent,
            "seconds": took_s,
            "lost": self._lost,
            "unanswered": self._waiting,
            "answers": {status: self._told(status) for status in self._from_due},
        }

    def _told(self, status: int) -> dict[str, float]:
        due, sent = sorted(self._from_due[status]), sorted(self._from_sent[status])
        return {
            "count": len(due),
            "due_p50_ms": due[len(due) // 2] / 1e6,
            "due_p99_ms": due[len(due) * 99 // 100] / 1e6,
            "sent_p50_ms": sent[len(sent) // 2] / 1e6,
            "sent_p99_ms": sent[len(sent) * 99 // 100] / 1e6,
        }

    def _open(self) -> None:
        caller = Caller(self._port)
        self._callers[caller.sock.fileno()] = caller
        self._poll.register(caller.sock, select.EPOLLIN)
        self._idle.append(caller)

    def _send(self, caller: Caller, due: int) -> None:
        caller.due, caller.sent = due, time.perf_counter_ns()
        self._waiting += 1
        try:
            caller.sock.send(self._request)
        except ConnectionError:
            self._gone(caller)

    def _receive(self, wait_s: float) -> None:
        for fd, _ in self._poll.poll(wait_s):
            caller = self._callers[fd]
            try:
                data = caller.sock.recv(65_536)
            except ConnectionError:
                data = b""
            if not data:
                self._gone(caller)
                continue
            caller.held += data
            answer = whole(caller.held)
            if answer is None:
                continue
            status, stays = answer
            now = time.perf_counter_ns()
            self._from_due.setdefault(status, array("q")).append(now - caller.due)
            self._from_sent.setdefault(status, array("q")).append(now - caller.sent)
            caller.held, caller.due = b"", 0
            self._waiting -= 1
            if stays:
                self._idle.append(caller)
            else:
                self._gone(caller)

    def _gone(self, caller: Caller) -> None:
        """The connection is closed; what was asked on it is lost."""
        if caller.due:
            self._lost += 1
            self._waiting -= 1
        elif caller in self._idle:
            self._idle.remove(caller)
        self._callers.pop(caller.sock.fileno()).sock.close()
        self._open()


def main(port: int, path: str, headers: list[str]) -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        rate, seconds, connections = line.split()
        print(json.dumps(Load(port, path, headers, int(connections)).run(float(rate), float(seconds))), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
