"""Routes that no write may remove or change (`GATEWAY_PROTECTED_ROUTES`)."""

from __future__ import annotations

from collections.abc import Set

from common.routetable.table import RouteTable


def protected_changes(before: RouteTable, after: RouteTable, protected: Set[str]) -> tuple[str, ...]:
    """The protected routes of `before` that `after` lacks or has otherwise, in the order of `before`.

    Compiled routes are compared: a changed default changes every route that has it, and another spelling of the same
    route changes nothing.
    """
    later = {route.id: route for route in after.routes if route.id in protected}
    return tuple(route.id for route in before.routes if route.id in protected and later.get(route.id) != route)
