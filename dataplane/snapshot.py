"""The configuration a request begins with and keeps: one immutable value, swapped by one assignment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from common.routetable.compiled import TrustedProxies
    from common.routetable.table import RouteTable


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A compiled table with what is derived from it and the environment.

    `generation` counts the tables this process has served, from 1. `revision` is the store's, 0 for a file.
    `trusted_proxies` is the environment's where set, else the table's.
    """

    table: RouteTable
    generation: int
    revision: int
    source: Literal["file", "store"]
    trusted_proxies: TrustedProxies
