"""How much of documents one operator, and all of them, may have in hand at once: received, worked on, and sent.

Without a bound whoever may only look could fill the memory, or make others wait as long as they please.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controlplane.errors import RETRY_AFTER_S, ApiError, retry_after

if TYPE_CHECKING:
    from controlplane.authentication import Caller

LARGE_BYTES = 1_048_576
"""What is larger counts by itself, since a few of them are all the memory there is."""


@dataclass(frozen=True, slots=True)
class Share:
    """Requests with documents at once: of an operator; with large ones, of an operator and of all of the scope."""

    requests: int
    large: int
    large_of_all: int


SHARES = {"read": Share(32, 3, 4), "operate": Share(0, 0, 0), "config": Share(256, 4, 4)}
"""By scope, so that whoever looks takes no room from whoever publishes."""


class Rooms:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str]] = Counter()
        self._large: Counter[tuple[str, str]] = Counter()
        self._large_of_all: Counter[str] = Counter()

    @contextlib.contextmanager
    def enter(self, caller: Caller) -> Iterator[Room]:
        """Room for the documents of one request, for the length of the block; 503 when the caller has too many."""
        who, share = (caller.scope, caller.operator), SHARES[caller.scope]
        if self._requests[who] >= share.requests:
            raise _overloaded(f"{caller.operator} has {share.requests} requests with tables open.")
        room = Room(self, caller)
        self._requests[who] += 1
        try:
            yield room
        finally:
            self._requests[who] -= 1
            if room.large:
                self._large[who] -= 1
                self._large_of_all[caller.scope] -= 1

    def take_large(self, caller: Caller) -> None:
        """See `Room.holds`."""
        who, share = (caller.scope, caller.operator), SHARES[caller.scope]
        if self._large[who] >= share.large or self._large_of_all[caller.scope] >= share.large_of_all:
            raise _overloaded("As many large tables are being worked on as there is room for.")
        self._large[who] += 1
        self._large_of_all[caller.scope] += 1


class Room:
    """What one request has in hand."""

    def __init__(self, rooms: Rooms, caller: Caller) -> None:
        self._rooms = rooms
        self._caller = caller
        self.large = False

    @property
    def first(self) -> bool:
        """Whether its work is done before that of others."""
        return self._caller.scope == "config"

    def holds(self, size: int) -> None:
        """Say that it has a document of `size` bytes, or that much of one; 503 when there is no room for it."""
        if size > LARGE_BYTES and not self.large:
            self._rooms.take_large(self._caller)
            self.large = True


def _overloaded(message: str) -> ApiError:
    return ApiError("overloaded", f"{message} Nothing was judged; try again.", headers=retry_after(RETRY_AFTER_S))
