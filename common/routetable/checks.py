"""What routes may not do to each other or to the gateway: share an id, be ambiguous, claim a reserved path (§3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from common.routetable.compiled import Route
from common.routetable.paths import decoded_once
from common.routetable.problems import Problems
from common.routetable.templates import Template
from common.routetable.toplevel import GATEWAY_PATHS


@dataclass(frozen=True, slots=True)
class Placed:
    """A route with its place in the file."""

    route: Route
    template: Template
    index: int

    @property
    def where(self) -> str:
        return f"routes[{self.index}]"


def check_ids(routes: Sequence[Placed], problems: Problems) -> None:
    """Every id stands once."""
    first: dict[str, int] = {}
    for placed in routes:
        place = f"{placed.where}.id"
        if problems.touch(place):
            continue
        known = first.setdefault(placed.route.id, placed.index)
        if known != placed.index:
            problems.add(place, f"the id {placed.route.id} is taken by routes[{known}]")


def check_ambiguity(routes: Sequence[Placed], problems: Problems) -> None:
    """No two routes match exactly the same request: same host, same skeleton of the path, a method in common.

    Skeletons are compared as decoded: two routes that differ only in an escape would make every request to them
    ambiguous.
    """
    taken: dict[tuple[object, ...], Placed] = {}
    for placed in routes:
        if problems.touch(f"{placed.where}.match"):
            continue
        route = placed.route
        skeleton = placed.template.skeleton
        for method in sorted(route.methods) if route.methods is not None else [""]:
            other = taken.setdefault((route.host, skeleton, method), placed)
            if other is not placed:
                shared = f" for {method}" if method else ""
                problems.add(
                    f"{placed.where}.match.path",
                    f"is ambiguous: {other.route.id} ({other.where}) matches the same requests{shared}",
                )


def check_reserved(
    routes: Sequence[Placed], hosts: frozenset[str], reserved_paths: Sequence[str], problems: Problems
) -> None:
    """No route claims a reserved path on a host that can be a name of the gateway.

    It claims one when its literal prefix is that path or below it; a `/` above it claims nothing.
    """
    if problems.touch("hosts"):
        return
    reserved = [(path, decoded_once(path)) for path in (*GATEWAY_PATHS, *reserved_paths)]
    for placed in routes:
        if problems.touch(f"{placed.where}.match.path") or problems.touch(f"{placed.where}.match.host"):
            continue
        if not can_be_gateway(placed.route.host, hosts):
            continue
        prefix = decoded_once(placed.template.literal_prefix)
        for path, decoded in reserved:
            if prefix == decoded or prefix.startswith(decoded if decoded.endswith("/") else f"{decoded}/"):
                problems.add(
                    f"{placed.where}.match.path", f"claims {path}, which is reserved on the names of the gateway"
                )


def can_be_gateway(host: str, hosts: frozenset[str]) -> bool:
    """A request for this host of a route can be one for a name of the gateway."""
    if not hosts or host == "*":
        return True
    if host.startswith("*."):
        return any(name.endswith(host[1:]) for name in hosts)
    return host in hosts
