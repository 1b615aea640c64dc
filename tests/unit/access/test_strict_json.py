"""JSON that Access sends, read strictly and in bounded time."""

from __future__ import annotations

import pytest

from dataplane.access.strict_json import strict_json


class Counting(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counting.compared += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def test_a_repeated_name_is_found_without_comparing_every_name_with_every_other() -> None:
    """Nine thousand names fit an answer of Access; comparing each pair of them would stop the loop for a second."""
    from dataplane.access.strict_json import _unique

    names = [Counting(f"n{number}") for number in range(9_000)]
    with pytest.raises(ValueError, match="n8999"):
        _unique([(name, 0) for name in [*names, Counting("n8999")]])
    assert Counting.compared < 100_000


def test_the_repeated_name_is_named() -> None:
    with pytest.raises(ValueError, match='"b" stands twice'):
        strict_json(b'{"a": 1, "b": 2, "b": 3}')
