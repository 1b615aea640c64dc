"""Why a request goes where it goes: the route that handles it, what it beat and by which rule, and the steps that run.

It answers from `RouteTable.match` itself, and finds the routes around the answer by reading all of them one by one: for
people, never on the path of a request.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from common.routetable.compiled import Match, Route
from common.routetable.match import precedence
from common.routetable.paths import AmbiguousPath, read_path
from common.routetable.steps import Step, steps_of
from common.routetable.table import RouteTable
from common.routetable.templates import Template, parse_template

Outcome = Literal["route", "gateway", "not_found", "no_route", "bad_request"]

# The gateway's own endpoints (§2.2): on its names, and on every name.
_OWN = {
    "/auth/login": ("GET", "HEAD"),
    "/auth/callback": ("GET", "HEAD"),
    "/auth/logout": ("GET", "HEAD", "POST"),
    "/auth/session": ("GET", "HEAD"),
}
_EVERYWHERE = dict.fromkeys(("/healthz", "/readyz", "/metrics"), ("GET", "HEAD"))

MAX_NEAR_MISSES = 5


@dataclass(frozen=True, slots=True)
class Beaten:
    """A route that matches the request too, and the rule of §3.3 by which it lost."""

    route_id: str
    rule: str
    why: str


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A route that matches the request in all but one respect."""

    route_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """What becomes of one request. `reason` says it in words; `strict` and `loosest` are `""` where the path is refused
    for its form. `steps` are those of §2.3 from admission on, for a request that a route handles.
    """

    method: str
    host: str | None
    path: str
    strict: str
    loosest: str
    outcome: Outcome
    reason: str
    match: Match | None = None
    beaten: tuple[Beaten, ...] = ()
    near_misses: tuple[NearMiss, ...] = ()
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class _Candidate:
    route: Route
    template: Template


def explain(table: RouteTable, host: str | None, path: str, method: str) -> Explanation:
    """What becomes of a request. Arguments as for `RouteTable.match`."""
    try:
        readings = read_path("/" if path == "*" else path)
    except AmbiguousPath as refused:
        return Explanation(method, host, path, "", "", "bad_request", f"{refused.reason}: 400")

    def outcome(kind: Outcome, reason: str) -> Explanation:
        return Explanation(method, host, path, readings.strict, readings.loosest, kind, reason)

    if method in _EVERYWHERE.get(path, ()):
        return outcome("gateway", "the gateway answers this path itself, on every name")
    if table.owns_host(host):
        if method in _OWN.get(path, ()):
            return outcome("gateway", "the gateway answers this path itself")
        if table.is_reserved(path):
            return outcome("not_found", "the path is reserved on the names of the gateway: 404")
    try:
        match = table.match(host, path, method)
    except AmbiguousPath as refused:
        return outcome("bad_request", f"{refused.reason}: 400")
    candidates = [_Candidate(route, parse_template(route.path)) for route in table.routes]
    strict = readings.strict
    if match is None:
        missed = tuple(_near_misses(candidates, host, strict, method))[:MAX_NEAR_MISSES]
        return Explanation(
            method, host, path, strict, readings.loosest, "no_route", "no route matches: 404", near_misses=missed
        )
    return Explanation(
        method, host, path, strict, readings.loosest, "route", f"{match.route.id} handles it", match,
        tuple(_beaten(candidates, match.route, host, strict, method)), (), steps_of(match),
    )  # fmt: skip


def matches_host(pattern: str, host: str | None) -> bool:
    """A route's host, compared with a request's (§3.1)."""
    if pattern == "*":
        return True
    if not host:
        return False
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and len(host) > len(pattern) - 1
    return host in (pattern, f"[{pattern}]")


def matches_path(template: Template, strict: str) -> bool:
    """A template, compared with the strict reading of a path segment by segment (§3.1)."""
    segments = strict[1:].split("/")
    count = len(template.literals)
    if len(segments) < count + template.is_prefix:
        return False
    return all(
        segment == literal if literal is not None else segment != ""
        for literal, segment in zip(template.literals, segments[:count], strict=True)
    )


def matches_method(route: Route, method: str) -> bool:
    return route.methods is None or method in route.methods


def _host_rank(pattern: str) -> tuple[int, int]:
    """The more specific host sorts first; of two wildcards the longer."""
    if pattern == "*":
        return 2, 0
    return (1, -len(pattern)) if pattern.startswith("*.") else (0, 0)


def _beaten(
    candidates: list[_Candidate], winner: Route, host: str | None, strict: str, method: str
) -> Iterator[Beaten]:
    others = [
        one
        for one in candidates
        if one.route is not winner
        and matches_host(one.route.host, host)
        and matches_path(one.template, strict)
        and matches_method(one.route, method)
    ]
    for other in sorted(others, key=lambda one: _order(one)):
        rule, why = _decided(_Candidate(winner, parse_template(winner.path)), other)
        yield Beaten(other.route.id, rule, why)


def _order(one: _Candidate) -> tuple[object, ...]:
    return _host_rank(one.route.host), one.route.methods is None, precedence(one.route.id, one.template)


def _decided(winner: _Candidate, loser: _Candidate) -> tuple[str, str]:
    """The first rule of §3.3 in which the two differ."""
    if _host_rank(winner.route.host) != _host_rank(loser.route.host):
        return "host", f"{winner.route.host} is more specific than {loser.route.host}"
    if (winner.route.methods is None) != (loser.route.methods is None):
        return "method", "it names no methods, and the winner names this one"
    mine, theirs = winner.template, loser.template
    if len(mine.literal_prefix) != len(theirs.literal_prefix):
        return "literal prefix", f"{mine.literal_prefix} is longer than {theirs.literal_prefix}"
    if len(mine.literals) != len(theirs.literals):
        return "segments", f"{mine.text} has more segments than {theirs.text}"
    if mine.is_prefix != theirs.is_prefix:
        return "slash", f"{mine.text} ends in a slash, {theirs.text} does not"
    return "id", f"{winner.route.id} comes before {loser.route.id}"


def _near_misses(candidates: list[_Candidate], host: str | None, strict: str, method: str) -> Iterator[NearMiss]:
    for one in sorted(candidates, key=_order):
        route = one.route
        fits = (
            matches_host(route.host, host),
            matches_path(one.template, strict),
            matches_method(route, method),
        )
        if fits == (True, True, False):
            yield NearMiss(route.id, f"handles {', '.join(sorted(route.methods or ()))} only")
        elif fits == (False, True, True):
            yield NearMiss(route.id, f"is for the host {route.host}")
        elif fits[0] and one.template.text == f"{strict}/":
            yield NearMiss(route.id, f"is for what lies below {one.template.text}")
