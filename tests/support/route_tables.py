"""Route tables for tests: made from the few fields that a test is about, the rest filled in."""

from __future__ import annotations

import json
from typing import Any

from common.routetable.compiled import DeploymentDefaults, Route
from common.routetable.load import RouteTableInvalid, load_route_table
from common.routetable.table import RouteTable

UPSTREAM = "http://app.internal:3000"


def route(route_id: str, path: str, *, host: str | None = None, methods: list[str] | None = None, **more: Any) -> Any:
    """A route of the file; mode `none` and one upstream unless said otherwise."""
    match: dict[str, Any] = {"path": path}
    if host is not None:
        match["host"] = host
    if methods is not None:
        match["methods"] = methods
    return {"id": route_id, "match": match, "upstream": UPSTREAM, "auth": {"mode": "none"}, **more}


def document(*routes: Any, **top: Any) -> bytes:
    """A table of version 2 as the bytes of its file."""
    return json.dumps({"version": 2, **top, "routes": list(routes)}).encode()


def loaded(*routes: Any, **top: Any) -> RouteTable:
    return load_route_table(document(*routes, **top), DeploymentDefaults())


def compiled(one: Any, **top: Any) -> Route:
    """The only route of a table."""
    return loaded(one, **top).routes[0]


def problems_of(text: bytes) -> dict[str, str]:
    """Every problem of a table by its place; empty for a valid one."""
    try:
        load_route_table(text, DeploymentDefaults())
    except RouteTableInvalid as invalid:
        return {problem.path: problem.message for problem in invalid.problems}
    return {}


def selected(table: RouteTable, path: str, *, host: str | None = None, method: str = "GET") -> str | None:
    """The id of the route that a request selects."""
    match = table.match(host, path, method)
    return None if match is None else match.route.id
