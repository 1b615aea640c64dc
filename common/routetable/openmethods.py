"""Paths of a route that asks for an identity, which by another method lead to a route that asks for none.

A route that lists methods leaves the others to less specific routes, and takes its own methods from more specific ones
that list none (§3.3: the method comes before the path). Either may open a path that was meant to be closed.
"""

from __future__ import annotations

from common.routetable.compiled import Route
from common.routetable.paths import AmbiguousPath
from common.routetable.table import RouteTable
from common.routetable.templates import parse_template

_STAND_IN = "~"
"""For a placeholder; hardly anybody's literal."""
_USUAL = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def open_methods(table: RouteTable) -> dict[str, str]:
    """By the id of each such route, what to tell of it. Two routes of one path that divide its methods are meant so."""
    listed = {method for route in table.routes for method in route.methods or ()}
    if not listed or all(route.auth_mode != "none" for route in table.routes):
        return {}
    methods = sorted({*listed, *_USUAL})
    found = {}
    for route in table.routes:
        if route.auth_mode != "none":
            takers = _takers(table, route, methods).items()
            told = (
                f"{', '.join(ways)} to this path goes to route {taker}, which anybody may call"
                for taker, ways in takers
            )
            if message := "; ".join(told):
                found[route.id] = message
    return found


def _takers(table: RouteTable, route: Route, methods: list[str]) -> dict[str, list[str]]:
    """The open routes that take a path of this one, with the methods by which they do."""
    template = parse_template(route.path)
    path = "/" + "/".join(literal or _STAND_IN for literal in template.literals)
    if template.is_prefix and template.literals:
        path += "/"
    host = None if route.host == "*" else route.host.replace("*", _STAND_IN)
    takers: dict[str, list[str]] = {}
    for method in methods:
        try:
            match = table.match(host, path, method)
        except AmbiguousPath:
            return {}
        taker = None if match is None else match.route
        if taker is not None and taker.auth_mode == "none" and (taker.host, taker.path) != (route.host, route.path):
            takers.setdefault(taker.id, []).append(method)
    return takers
