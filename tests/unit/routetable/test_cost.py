"""Matching costs what the path is deep, not what the table is long (PERFORMANCE.md: 10 000 routes as 10)."""

from __future__ import annotations

import itertools
import sys
from types import FrameType
from typing import Any

import pytest

from common.routetable.table import RouteTable
from tests.support.route_tables import loaded, route, selected

MANY = 2_000


def lines_run(table: RouteTable, host: str | None, path: str) -> int:
    """How many lines of Python a match runs: a measure of its steps that no other load on the machine changes."""
    table.match(host, path, "GET")
    count = 0

    def trace(_: FrameType, event: str, __: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        table.match(host, path, "GET")
    finally:
        sys.settrace(before)
    return count


def literal(number: int) -> Any:
    return route(f"r-{number}", f"/svc-{number}/api/")


def placeholder_behind(number: int) -> Any:
    return route(f"r-{number}", f"/svc-{number}/{{id}}/things/{{thing}}")


def placeholder_in_front(number: int) -> Any:
    return route(f"r-{number}", f"/{{tenant}}/svc-{number}/{{id}}/")


def deep_placeholders(number: int) -> Any:
    return route(f"r-{number}", f"/api/{{a}}/{{b}}/svc-{number}")


def own_host(number: int) -> Any:
    return route(f"r-{number}", "/", host=f"h{number}.example.com")


def own_wildcard(number: int) -> Any:
    return route(f"r-{number}", "/", host=f"*.h{number}.example.com")


SHAPES = [
    (literal, None, "/svc-{}/api/x"),
    (placeholder_behind, None, "/svc-{}/7/things/8"),
    (placeholder_in_front, None, "/acme/svc-{}/7/x"),
    (deep_placeholders, None, "/api/1/2/svc-{}"),
    (own_host, "h{}.example.com", "/x"),
    (own_wildcard, "a.h{}.example.com", "/x"),
]


@pytest.mark.parametrize(("shape", "host", "path"), SHAPES)
def test_a_match_among_thousands_runs_the_lines_of_one_among_ten(shape: Any, host: str | None, path: str) -> None:
    few = loaded(*(shape(number) for number in range(10)), route("all", "/"))
    many = loaded(*(shape(number) for number in range(MANY)), route("all", "/"))
    for few_number, many_number in ((0, 0), (9, MANY - 1), (3, MANY // 2), ("none", "none")):
        hosts = [host and host.format(number) for number in (few_number, many_number)]
        paths = [path.format(number) for number in (few_number, many_number)]
        assert lines_run(few, hosts[0], paths[0]) == lines_run(many, hosts[1], paths[1])
    assert selected(many, path.format(MANY - 1), host=host and host.format(MANY - 1)) == f"r-{MANY - 1}"


def test_a_path_of_two_readings_among_ten_thousand_runs_the_lines_of_one_among_ten() -> None:
    few = loaded(*(literal(number) for number in range(10)), route("all", "/"))
    many = loaded(*(literal(number) for number in range(10_000)), route("all", "/"))
    assert lines_run(few, None, "/svc-9/api/caf%C3%A9") == lines_run(many, None, "/svc-9999/api/caf%C3%A9")


def test_a_long_path_costs_no_more_than_the_table_is_deep() -> None:
    table = loaded(*(placeholder_behind(number) for number in range(10)), route("all", "/"))
    assert lines_run(table, None, "/svc-1/2/things/3" + "/x" * 4_000) == lines_run(table, None, "/svc-1/2/things/3/x")


def test_templates_that_all_match_one_path_are_not_all_tried() -> None:
    # Literal or placeholder in each of ten segments: 1 024 templates, every one of which matches.
    combinations = itertools.product(("s", "{{p{}}}"), repeat=10)
    routes = [
        route(f"r-{number:04}", "/" + "/".join(part.format(at) for at, part in enumerate(parts)))
        for number, parts in enumerate(combinations)
    ]
    table = loaded(*routes)
    path = "/" + "/".join("s" * 10)
    assert selected(table, path) == "r-0000"
    assert selected(table, path.replace("/s/s", "/s/t", 1)) == "r-0256"
    assert lines_run(table, None, path) < 400


def test_the_best_branch_is_tried_first_whatever_its_kind() -> None:
    # As above behind a placeholder, where the id alone decides; here the placeholders have the better ids.
    combinations = list(itertools.product(("s", "{{p{}}}"), repeat=10))
    routes = [
        route(f"r-{number:04}", "/{first}/" + "/".join(part.format(at) for at, part in enumerate(parts)))
        for number, parts in enumerate(reversed(combinations))
    ]
    table = loaded(*routes)
    path = "/x/" + "/".join("s" * 10)
    assert selected(table, path) == "r-0000"
    assert lines_run(table, None, path) < 400
