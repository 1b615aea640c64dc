"""What a gateway would make of a document, beside the active one: values in, values out, for a thread or a process."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import asdict, dataclass

import orjson

from common.routetable.compiled import DeploymentDefaults
from common.routetable.diff import TableDifference, table_difference
from common.routetable.load import load_route_table
from common.routetable.problems import Problem, RouteTableInvalid
from common.routetable.table import RouteTable
from common.routetable.toplevel import wide_ranges
from common.routetable.warnings import PermissiveSetting, Surroundings, permissive_settings

MAX_WARNINGS = 1_000
"""As many as problems: a reader of more reads none."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a document is judged by, besides itself: as much of the gateways' environment as matters."""

    defaults: DeploymentDefaults
    surroundings: Surroundings
    production: bool = False
    access_named: bool = True
    """False: whether the gateways have an Access service is not known here."""
    protected: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Judged:
    """The problems of a document; without any, its warnings and what it would do to protected routes."""

    problems: tuple[Problem, ...] = ()
    warnings: tuple[PermissiveSetting, ...] = ()
    protected: tuple[str, ...] = ()
    """Protected routes of the active table that it removes or changes."""
    active_invalid: bool = False
    """The active table is none under these terms, so what happens to protected routes cannot be told."""


def judge(document: bytes, active: bytes | None, terms: Terms) -> Judged:
    """Load a document as a gateway does, and compare its protected routes with those of the active document, which is
    looked at only where there are any.
    """
    try:
        table = load_route_table(document, terms.defaults)
    except RouteTableInvalid as invalid:
        return Judged(invalid.problems)
    if terms.production and not terms.surroundings.trusted_proxies:
        problems = wide_ranges(table.trusted_proxies)
        if problems:
            return Judged(problems)
    warnings = _warnings(table, terms)
    if active is None or not terms.protected:
        return Judged(warnings=warnings)
    try:
        before = load_route_table(active, terms.defaults)
    except RouteTableInvalid:
        return Judged(warnings=warnings, active_invalid=True)
    return Judged(warnings=warnings, protected=protected_changes(before, table, terms.protected))


def _warnings(table: RouteTable, terms: Terms) -> tuple[PermissiveSetting, ...]:
    found = permissive_settings(table, terms.surroundings)
    if terms.production and not terms.access_named and any(route.access_check for route in table.routes):
        unsure = "routes ask Access, and a gateway without GATEWAY_ACCESS_URL and its token refuses this table"
        found = (PermissiveSetting("", "GATEWAY_ACCESS_URL", unsure), *found)
    if len(found) > MAX_WARNINGS:
        cut = PermissiveSetting("", "", f"only the first {MAX_WARNINGS} of {len(found)} warnings are listed")
        return (*found[:MAX_WARNINGS], cut)
    return found


def protected_changes(before: RouteTable, after: RouteTable, protected: Set[str]) -> tuple[str, ...]:
    """The protected routes of `before` that `after` lacks or has otherwise, in the order of `before`.

    Compiled routes are compared: a changed default changes every route that has it, and another spelling of the same
    route changes nothing.
    """
    later = {route.id: route for route in after.routes if route.id in protected}
    return tuple(route.id for route in before.routes if route.id in protected and later.get(route.id) != route)


def compare(before: bytes | None, after: bytes, names: tuple[str, str]) -> bytes:
    """What turns a valid document (None: the empty store's) into another, as the JSON of the API's `TableDiff`."""
    found: TableDifference = table_difference(
        None if before is None else orjson.loads(before), orjson.loads(after), names=names
    )
    return orjson.dumps(asdict(found))
