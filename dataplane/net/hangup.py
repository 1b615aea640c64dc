"""What the kernel knows of a socket's other end: a socket that is not read tells nothing of it by itself."""

from __future__ import annotations

import asyncio
import select
from enum import Enum, auto


class Hangup(Enum):
    """`NONE`: nothing is known. `FINISHED`: the peer sends nothing more. `GONE`: the connection is dead both ways."""

    NONE = auto()
    FINISHED = auto()
    GONE = auto()


def hangup(transport: asyncio.BaseTransport) -> Hangup:
    """How the peer of an open transport left, if it did; one system call."""
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLRDHUP)
    events = poll.poll(0)
    if not events:
        return Hangup.NONE
    return Hangup.GONE if events[0][1] & (select.POLLHUP | select.POLLERR) else Hangup.FINISHED
