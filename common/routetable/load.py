"""A file's bytes to a `RouteTable`, or every reason why not. It is never half-applied (§3)."""

from __future__ import annotations

from collections.abc import Sequence

from common.routetable.checks import Placed, check_ambiguity, check_ids, check_reserved
from common.routetable.compile import Scope, check_defaults, compile_route
from common.routetable.compiled import DeploymentDefaults
from common.routetable.document import read_document
from common.routetable.model import DefaultsPart, TableV2
from common.routetable.problems import Problem, Problems, RouteTableInvalid
from common.routetable.shape import RawTable, read_route, read_table, version_of
from common.routetable.table import RouteTable
from common.routetable.templates import parse_template
from common.routetable.toplevel import read_hosts, read_reserved_paths, read_trusted_proxies

__all__ = ["Problem", "RouteTableInvalid", "load_route_table"]


def load_route_table(text: bytes, defaults: DeploymentDefaults) -> RouteTable:
    """The compiled table of a JSON document. Raises `RouteTableInvalid` with all problems at once.

    Takes time in proportion to the text (about 0.1 ms a route), so it is called off the event loop.
    """
    problems = Problems()
    raw = read_document(text, problems)
    if not isinstance(raw, dict):
        problems.add("", "must be a JSON object")
        raise RouteTableInvalid(problems.listed())
    table = _compiled(raw, defaults, problems)
    problems.raise_if_any()
    return table


def _compiled(raw: RawTable, deployment: DeploymentDefaults, problems: Problems) -> RouteTable:
    version = version_of(raw, problems)
    model = read_table(raw, version, problems)
    hosts = read_hosts(model.hosts, problems) if isinstance(model, TableV2) else frozenset()
    reserved_paths = read_reserved_paths(model.reserved_paths, problems)
    trusted_proxies = read_trusted_proxies(model.trusted_proxies, problems)
    scope = Scope(version, model.defaults or DefaultsPart(), deployment, problems)
    check_defaults(scope)
    placed = _routes(raw, scope)
    check_ids(placed, problems)
    check_ambiguity(placed, problems)
    check_reserved(placed, hosts, reserved_paths, problems)
    routes = () if problems.any else tuple(one.route for one in placed)
    return RouteTable(version, routes, hosts, reserved_paths, trusted_proxies)


def _routes(raw: RawTable, scope: Scope) -> Sequence[Placed]:
    problems = scope.problems
    declared = raw.get("routes")
    if not isinstance(declared, list):
        problems.add("routes", "is required" if declared is None else "must be a list")
        return ()
    placed = []
    for index, one in enumerate(declared):
        if problems.full:
            break
        model = read_route(one, scope.version, index, problems)
        if model is not None:
            route = compile_route(model, f"routes[{index}]", scope)
            placed.append(Placed(route, parse_template(route.path), index))
    return placed
