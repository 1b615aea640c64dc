"""The bound on what is inside the gateway at once (§2.4, §11.2): a place is taken or refused, never waited for.

One instance counts requests (`GATEWAY_MAX_PENDING_REQUESTS`), another the exchanges with upstreams
(`GATEWAY_MAX_CONCURRENT_REQUESTS`). A request that does not fit is refused at once: a queue in front of a slow
dependency would only hold more of the process for longer.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dataplane.errors import GatewayError

if TYPE_CHECKING:
    from dataplane.exchange import Exchange


class Admission:
    """At most `limit` at once; 0 bounds nothing and still counts.

    Every `enter` that returned is followed by exactly one `leave`, whatever happens between them. `active` is how many
    are inside; `gateway_active_requests` and `gateway_active_exchanges` read it when they are scraped.
    """

    __slots__ = ("_limit", "_what", "active")

    def __init__(self, limit: int, what: str) -> None:
        self._limit = limit or math.inf
        self._what = what
        self.active = 0

    def enter(self) -> None:
        """Take a place; `GatewayError("gateway_overloaded")` when there is none, and then nothing is taken."""
        if self.active >= self._limit:
            raise GatewayError("gateway_overloaded", f"{self.active} {self._what}")
        self.active += 1

    def leave_once(self, x: Exchange) -> None:
        """Give the place of a request back that still holds one: when its response begins, or when it is over."""
        if x.admitted:
            x.admitted = False
            self.leave()

    def leave(self) -> None:
        """Give the place back. Once too often is a bug that would raise the bound for good: `RuntimeError`."""
        if self.active == 0:
            raise RuntimeError(f"left without having entered: {self._what}")
        self.active -= 1
