"""Operations of one kind that are asked for together, as one statement."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from time import perf_counter
from typing import Any, Generic, TypeVar

import asyncpg

from common.state.ports import StateUnavailable
from common.state.postgres.pool import Job, Pool
from common.state.watch import StateWatch

T = TypeVar("T")


class Lane(Generic[T]):
    """Items of one kind, handed to connections in batches: those of one turn of the loop, and those that came while
    `at_once` batches were on their way.

    `handle` answers every item of a batch, `fail` tells them that they are not answered.
    """

    def __init__(
        self,
        pool: Pool,
        handle: Callable[[asyncpg.Connection, list[T]], Awaitable[None]],
        fail: Callable[[list[T], Exception], None],
        *,
        name: str,
        watch: StateWatch,
        most: int,
        at_once: int,
    ) -> None:
        """`name` is the operation of which the watch is told, once a batch."""
        self._name = name
        self._watch = watch
        self._pool = pool
        self._handle = handle
        self._fail = fail
        self._most = most
        self._at_once = at_once
        self._running = 0
        self._items: deque[T] = deque()
        self._called = False

    def add(self, item: T) -> None:
        """Raises `StateUnavailable` as `Pool.submit` does."""
        self._pool.refuse_while_down(len(self._items))
        self._items.append(item)
        if not self._called:
            self._called = True
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._called = False
        while self._items and self._running < self._at_once:
            batch = [self._items.popleft() for _ in range(min(self._most, len(self._items)))]
            try:
                future = self._pool.submit(self._job(batch))
            except StateUnavailable as failure:
                self._fail([*batch, *self._take_all()], failure)
                return
            self._running += 1
            future.add_done_callback(partial(self._ended, batch, perf_counter()))

    def _ended(self, batch: list[T], began: float, done: asyncio.Future[Any]) -> None:
        self._running -= 1
        error = done.exception()
        self._watch.operation(self._name, "ok" if error is None else "unavailable", perf_counter() - began)
        if isinstance(error, Exception):
            self._fail(batch, error)
        if not self._pool.up:
            self._fail(self._take_all(), error if isinstance(error, Exception) else StateUnavailable("not connected"))
        self._dispatch()

    def _job(self, batch: list[T]) -> Job:
        return lambda connection: self._handle(connection, batch)

    def _take_all(self) -> list[T]:
        items, self._items = list(self._items), deque()
        return items


def fail_all(asks: Iterable[tuple[object, asyncio.Future[Any]]], error: Exception) -> None:
    """Tell those who wait for what they asked for that it is not answered."""
    for _, future in asks:
        if not future.done():
            future.set_exception(error)
            future.exception()  # One that was asked for ahead may never be awaited.
