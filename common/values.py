"""Values that are made anew for each request, and those that are kept so that they are not."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

K = TypeVar("K")
T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def hot_value(cls: type[T]) -> type[T]:
    """A dataclass with slots whose fields nobody may set: the type checker sees to it, where `frozen=True` would do so
    at run time and make a new value four times as dear. For what is made anew for each request; like anything that
    can be compared and is not frozen, it has no hash.
    """
    return dataclass(slots=True)(cls)


def remember(known: OrderedDict[K, T], key: K, value: T, limit: int) -> T:
    """Keep `value` under `key` among at most `limit`; what was kept first goes first.

    The first of a plain dict lies behind the places of all that were dropped: finding it takes microseconds.
    """
    if len(known) >= limit:
        known.popitem(last=False)
    known[key] = value
    return value
