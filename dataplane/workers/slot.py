"""What the supervisor knows of one worker's place."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

from dataplane.workers.link import Link
from dataplane.workers.restarts import Restarts


@dataclass
class Slot:
    """The place of one worker. `pid` is 0 while there is none."""

    number: int
    restarts: Restarts = field(default_factory=Restarts)
    sockets: list[socket.socket] = field(default_factory=list)
    tls_sockets: list[socket.socket] = field(default_factory=list)
    pid: int = 0
    link: Link | None = None
    ready: bool = False
    started: float = 0.0
    heard: float = 0.0
    due: float = 0.0
    """When to start a worker, where there is none."""
    kill_at: float | None = None
    """It stands still, and is killed then."""

    def close_sockets(self) -> None:
        for sock in (*self.sockets, *self.tls_sockets):
            sock.close()
        self.sockets = []
        self.tls_sockets = []
