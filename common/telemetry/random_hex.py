"""Random hexadecimal digits for ids that are made for each request."""

from __future__ import annotations

import os
from collections.abc import Iterator

DRAWN_BYTES = 4096


class RandomHex:
    """Ids of one length from the system's generator, many at a time: a system call for each would be most of its cost.

    No digit is given out twice, whatever threads ask at once, and a forked process draws its own.
    """

    def __init__(self, digits: int) -> None:
        self._digits = digits
        self._ids: Iterator[str] = iter(())
        os.register_at_fork(after_in_child=self._forget)

    def draw(self) -> str:
        """The next id, in lower case."""
        # One look at an iterator over a list cannot be interrupted, so no two threads get the same id.
        drawn = next(self._ids, None)
        return self._drawn_anew() if drawn is None else drawn

    def _drawn_anew(self) -> str:
        digits = self._digits
        text = os.urandom(DRAWN_BYTES).hex()
        ids = iter([text[at : at + digits] for at in range(0, len(text) - digits + 1, digits)])
        first = next(ids)
        self._ids = ids
        return first

    def _forget(self) -> None:
        self._ids = iter(())
