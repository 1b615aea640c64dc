"""A WebSocket echo that costs little, so that it is not what is timed: `websocket_echo.py PORT`.

One thread over epoll with blocking writes, whole messages in one frame each. Callers are to mask with zeros, which
leaves nothing to unmask: any other mask is refused.
"""

from __future__ import annotations

import re
import select
import socket
import sys

from dataplane.websocket.handshake import accept_of

CLOSE = 8
NO_MASK = bytes(4)
READ_BYTES = 1 << 18


class Connection:
    """One caller: its handshake, then its frames."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._held = b""
        self._open = False

    def readable(self) -> bool:
        """Answer what has come; False at the end."""
        try:
            data = self._sock.recv(READ_BYTES)
            if not data:
                return False
            self._held += data
            if not self._open and not self._shake_hands():
                return True
            return self._echo()
        except ConnectionError:
            return False

    def _shake_hands(self) -> bool:
        head, end, behind = self._held.partition(b"\r\n\r\n")
        if not end:
            return False
        key = re.search(rb"\r\nsec-websocket-key: *([^\r]+)", head, re.IGNORECASE)
        if key is None:
            raise ConnectionError("no WebSocket handshake")
        self._sock.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
            b"sec-websocket-accept: " + accept_of(key[1]) + b"\r\n\r\n"
        )
        self._held, self._open = behind, True
        return True

    def _echo(self) -> bool:
        held, at, answers, stays = self._held, 0, [], True
        while len(held) - at >= 6:
            length, start = held[at + 1] & 0x7F, at + 2
            if length == 126:
                length, start = int.from_bytes(held[start : start + 2], "big"), start + 2
            end = start + 4 + length
            if len(held) < end:
                break
            if held[start : start + 4] != NO_MASK:
                raise ConnectionError("masked with something")
            answers.append(bytes((held[at], held[at + 1] & 0x7F)) + held[at + 2 : start] + held[start + 4 : end])
            stays = held[at] & 0xF != CLOSE
            at = end
        self._held = held[at:]
        if answers:
            self._sock.sendall(b"".join(answers))
        return stays


def main(port: int) -> None:
    listener = socket.create_server(("127.0.0.1", port), backlog=1024)
    poll = select.epoll()
    poll.register(listener, select.EPOLLIN)
    open_now: dict[int, tuple[socket.socket, Connection]] = {}
    while True:
        for fd, _ in poll.poll():
            if fd == listener.fileno():
                sock, _ = listener.accept()
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                open_now[sock.fileno()] = (sock, Connection(sock))
                poll.register(sock, select.EPOLLIN)
                continue
            sock, connection = open_now[fd]
            if not connection.readable():
                del open_now[fd]
                sock.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
