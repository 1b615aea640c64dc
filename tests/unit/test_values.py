"""What is kept so that it is not made anew."""

from __future__ import annotations

from collections import OrderedDict

from common.values import remember


def test_what_is_remembered_is_bounded_and_the_first_goes_first() -> None:
    known: OrderedDict[str, int] = OrderedDict()
    for value, key in enumerate("abcd"):
        assert remember(known, key, value, 3) == value
    assert known == {"b": 1, "c": 2, "d": 3}
    del known["b"]
    remember(known, "e", 4, 3)
    assert list(known) == ["c", "d", "e"]
