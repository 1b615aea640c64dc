"""What one turn of the event loop asks for, sent together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Turn(Generic[T]):
    """Hands what was added during one turn of the loop to `send`, in batches of at most `most`.

    The first of a turn is sent when the turn ends, so one that comes alone waits for nothing but what was ready to run
    beside it.
    """

    __slots__ = ("_items", "_most", "_send")

    def __init__(self, send: Callable[[list[T]], None], *, most: int) -> None:
        self._send = send
        self._most = most
        self._items: list[T] = []

    def add(self, item: T) -> None:
        items = self._items
        items.append(item)
        if len(items) == 1:
            asyncio.get_running_loop().call_soon(self._flush)
        elif len(items) >= self._most:
            self._flush()

    def _flush(self) -> None:
        items = self._items
        if items:
            self._items = []
            self._send(items)
