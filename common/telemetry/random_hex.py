"""Random ids that are made for each request, drawn from the system's generator many at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

DRAWN_BYTES = 4096


class Drawn:
    """Gives ids that `make` makes of random bytes: a system call for each would be most of its cost.

    No id is given out twice, whatever threads ask at once, and a forked process draws its own.
    """

    def __init__(self, make: Callable[[], list[str]]) -> None:
        self._make = make
        self._ids: Iterator[str] = iter(())
        os.register_at_fork(after_in_child=self._forget)

    def draw(self) -> str:
        """The next id."""
        # One look at an iterator over a list cannot be interrupted, so no two threads get the same id.
        drawn = next(self._ids, None)
        return self._drawn_anew() if drawn is None else drawn

    def _drawn_anew(self) -> str:
        ids = iter(self._make())
        first = next(ids)
        self._ids = ids
        return first

    def _forget(self) -> None:
        self._ids = iter(())


def hex_ids(digits: int) -> list[str]:
    """Ids of as many hexadecimal digits, an even number, in lower case."""
    size = digits // 2
    return os.urandom(DRAWN_BYTES // size * size).hex("-", size).split("-")


# Where the 32 digits of a UUID stand in its text, but for that of the version.
_UUID_PLACES = (*range(8), *range(9, 13), 14, *range(15, 18), *range(19, 23), *range(24, 36))
_UUID_LINE = b"--------------4---------------------\n"
_VERSION, _VARIANT = 12, 16
# RFC 9562 §4.1: the two high bits of the variant digit are 10, its two low bits stay random.
_AS_VARIANT = bytes.maketrans(b"0123456789abcdef", b"89ab" * 4)


def uuids() -> list[str]:
    """Random UUIDs, version 4, as text (RFC 9562 §5.4): 122 random bits each, like those of `uuid.uuid4()`."""
    digits = os.urandom(DRAWN_BYTES).hex().encode("ascii")
    text = bytearray(_UUID_LINE * (DRAWN_BYTES // 16))
    line = len(_UUID_LINE)
    for digit, place in enumerate(_UUID_PLACES):  # this digit of all of them
        if digit == _VARIANT:
            text[place::line] = digits[digit::32].translate(_AS_VARIANT)
        elif digit != _VERSION:
            text[place::line] = digits[digit::32]
    return text.decode("ascii").split("\n")[:-1]
