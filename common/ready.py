"""Answers that are there already, for calls that may have to wait for theirs.

    asked = store.read_session(...)                        an awaitable, whatever the store is
    session = asked[0] if isinstance(asked, Ready) else await asked

Most calls on the path of a request wait for nothing, and a coroutine for each would cost more than what it does.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")


class Ready(tuple[T]):
    """Holds one answer: `Ready((answer,))`. It may be awaited like any other, and more than once."""

    __slots__ = ()

    # Itself, not its answer, as other awaitables are: whoever gathers several has a result for each.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __await__(self) -> Generator[Any, None, T]:
        yield from ()  # nothing to wait for
        return self[0]


DONE: Ready[None] = Ready((None,))
"""What a step gives back that had nothing to wait for."""
