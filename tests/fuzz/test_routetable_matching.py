"""The index against a scan that applies §3.3 word by word, over random tables and hostile paths."""

from __future__ import annotations

import re
import string
from typing import Any
from urllib.parse import unquote_to_bytes

from hypothesis import example, given
from hypothesis import strategies as st

from common.routetable.compiled import Route
from common.routetable.explain import explain
from common.routetable.paths import AmbiguousPath, is_plain, loosest_reading, read_path, strict_reading
from common.routetable.table import RouteTable
from tests.support.route_tables import loaded, route

UNRESERVED = string.ascii_letters + string.digits + "-._~"
HOSTS = ["*", "a.example", "*.example", "*.a.example", "b.example"]
REQUEST_HOSTS = [None, "a.example", "b.example", "x.a.example", "x.y.a.example", "example", "other.test"]

# Few spellings, so that templates share segments and requests hit them.
literals = st.sampled_from(["a", "b", "a", "b", "%61", "caf%c3%a9", "a%3Ab", "a:b", ".w"])
segments = st.one_of(literals, st.just("{}"), st.just("{}"))


@st.composite
def templates(draw: st.DrawFn) -> str:
    parts = draw(st.lists(segments, max_size=4))
    named = [f"{{p{index}}}" if part == "{}" else part for index, part in enumerate(parts)]
    return "/" + "/".join(named) + ("/" if named and draw(st.booleans()) else "")


@st.composite
def tables(draw: st.DrawFn) -> RouteTable:
    """A valid table: of routes that are ambiguous with an earlier one, none is kept."""
    hosts = draw(st.lists(st.sampled_from(HOSTS), min_size=1, max_size=3))
    taken: set[Any] = set()
    routes: list[Any] = []
    for number in draw(st.permutations(range(draw(st.integers(min_value=1, max_value=12))))):
        host, template = draw(st.sampled_from(hosts)), draw(templates())
        methods = draw(st.sampled_from([None, None, ["GET"], ["POST", "GET"]]))
        skeleton = re.sub(r"\{p\d\}", "{}", read_loosely(template))
        claimed = {(host, skeleton, method) for method in methods or [""]}
        if claimed & taken:
            continue
        taken |= claimed
        one = route(f"r{number}", template, host=host, methods=methods)
        names = re.findall(r"\{(p\d)\}", template)
        if names and draw(st.booleans()):
            one["auth"] = {"mode": "any", "workspace": {"param": draw(st.sampled_from(names))}}
        routes.append(one)
    return loaded(*routes)


pieces = st.sampled_from(
    ["a", "b", "a", "b", "x", "A", "caf%C3%A9", "%61", "%62", "", "a:b", "a%3ab", "%20", "%2561", "%2F", "a%2Fb", "%5C",
     "a\\b", "\\", ";", "a;b", ";a", "a%3Bx", "..", "%2e", "..;", "...", ".w", "%2Ew", "%c3", "%ff", "%09", "{p0}"]
)  # fmt: skip
plain_pieces = st.sampled_from(["a", "b", "x", "a:b"])
paths = st.lists(pieces, min_size=1, max_size=6).map(lambda parts: "/" + "/".join(parts))
raw_paths = st.text(alphabet="/.;%\\2fF5cCeE36aAbB#? \x00\xe9", max_size=24).map(lambda text: "/" + text)


@st.composite
def requests(draw: st.DrawFn, table: RouteTable) -> tuple[str | None, str, str]:
    """Host, path and method: near one of the table's templates, or anything."""
    host, method = draw(st.sampled_from(REQUEST_HOSTS)), draw(st.sampled_from(["GET", "POST", "PUT"]))
    if draw(st.integers(min_value=0, max_value=3)) == 0:
        return host, draw(paths), method
    values = draw(st.sampled_from([pieces, plain_pieces, plain_pieces]))
    path = re.sub(r"\{p\d\}", lambda _: draw(values), draw(st.sampled_from(table.routes)).path)
    return host, path + draw(st.sampled_from(["", "", "/", "/a", "/b/x", "//a", ";x", "%2Fb"])), method


def read_strictly(path: str) -> str:
    """§3.1 in so many words: decode escapes of unreserved characters, write the others in upper case."""
    out, at = "", 0
    while at < len(path):
        if path[at] == "%":
            character = chr(int(path[at + 1 : at + 3], 16))
            out += character if character in UNRESERVED else path[at : at + 3].upper()
            at += 3
        else:
            out += path[at]
            at += 1
    return out


def read_loosely(path: str) -> str:
    """§3.1 in so many words: decode everything once, backslash as slash, drop parameters, merge slashes."""
    decoded = unquote_to_bytes(path).decode("latin-1").replace("\\", "/")
    without = "/".join(segment.split(";")[0] for segment in decoded.split("/"))
    while "//" in without:
        without = without.replace("//", "/")
    return without


def template_segments(one: Route) -> list[str]:
    return [part for part in one.path.split("/")[1:] if part]


def matches(one: Route, host: str | None, reading: str, method: str, *, decoded: bool) -> bool:
    if one.methods is not None and method not in one.methods:
        return False
    if one.host.startswith("*."):
        if host is None or not host.endswith(one.host[1:]):
            return False
    elif one.host not in ("*", host):
        return False
    mine = template_segments(one)
    theirs = reading.split("/")[1:]
    for part, segment in zip(mine, theirs, strict=False):
        literal = unquote_to_bytes(part).decode("latin-1") if decoded else part
        if (part.startswith("{") and not segment) or (not part.startswith("{") and literal != segment):
            return False
    return len(theirs) > len(mine) if one.path.endswith("/") else len(theirs) >= len(mine)


def specificity(one: Route) -> tuple[Any, ...]:
    """§3.3, rules 1 to 5, and between 4 and 5 the slash at the end."""
    kind = 2 if one.host == "*" else 1 if one.host.startswith("*.") else 0
    return (
        kind,
        -len(one.host) if kind == 1 else 0,
        one.methods is None,
        -len(one.path.split("{")[0]),
        -len(template_segments(one)),
        not one.path.endswith("/"),
        one.id,
    )


def scan(table: RouteTable, host: str | None, reading: str, method: str, *, decoded: bool) -> Route | None:
    fitting = [one for one in table.routes if matches(one, host, reading, method, decoded=decoded)]
    return min(fitting, key=specificity, default=None)


def workspace(one: Route, reading: str) -> str | None:
    if one.workspace_param is None:
        return None
    return reading.split("/")[1:][template_segments(one).index(f"{{{one.workspace_param}}}")]


def expected(table: RouteTable, host: str | None, path: str, method: str) -> Route | str | None:
    """The route, None, or why the request is refused."""
    strict, loosest = read_strictly(path), read_loosely(path)
    if {".", ".."} & set(loosest.split("/")):
        return "dot segment"
    one = scan(table, host, strict, method, decoded=False)
    if one is not scan(table, host, loosest, method, decoded=True):
        return "different routes"
    if one is not None and one.workspace_param is not None:
        decoded = unquote_to_bytes(workspace(one, strict) or "").decode("latin-1")
        if decoded != workspace(one, loosest):
            return "different workspaces"
    return one


@given(tables(), st.data())
def test_the_index_agrees_with_a_scan_by_the_rules(table: RouteTable, data: st.DataObject) -> None:
    for host, path, method in data.draw(st.lists(requests(table), min_size=10, max_size=20)):
        wanted = expected(table, host, path, method)
        found: Route | str | None
        try:
            match = table.match(host, path, method)
            found = None if match is None else match.route
        except AmbiguousPath as refused:
            found = refused.reason
        if isinstance(wanted, str):
            assert isinstance(found, str), (host, path, method)
            assert wanted in found
        else:
            assert found is wanted, (host, path, method)


@given(tables(), st.data())
def test_captures_and_rest_put_together_are_the_path_as_sent(table: RouteTable, data: st.DataObject) -> None:
    host, path, method = data.draw(requests(table))
    try:
        match = table.match(host, path, method)
    except AmbiguousPath:
        return
    if match is None:
        return
    sent = path.split("/")[1:]
    mine = template_segments(match.route)
    for part, segment in zip(mine, sent, strict=False):
        if part.startswith("{"):
            assert match.params[part[1:-1]] == segment
        else:
            assert strict_reading(segment) == part
    assert len(match.params) == sum(part.startswith("{") for part in mine)
    assert match.rest == "/".join(sent[len(mine) :])


@given(paths | raw_paths)
@example("/c:d")
@example("/c%3Ad/x")
def test_no_path_that_the_loosest_reading_sends_to_a_protected_route_reaches_another(path: str) -> None:
    table = loaded(
        route("open", "/"),
        route("open-too", "/ab/{x}/"),
        route("guarded", "/a", auth={"mode": "session"}),
        route("guarded-deep", "/b/{x}/a:b", auth={"mode": "session"}),
        route("guarded-escape", "/c%3Ad", auth={"mode": "session"}),
    )
    try:
        match = table.match(None, path, "GET")
    except AmbiguousPath:
        return
    if path == "*":
        return
    assert match is not None
    careless = read_loosely(path).split("/")[1:]
    if careless[0] == "c:d":
        assert match.route.id == "guarded-escape"
    if careless[0] == "a":
        assert match.route.id == "guarded"
    if careless[0] == "b" and len(careless) > 2 and careless[1] and careless[2] == "a:b":
        assert match.route.id == "guarded-deep"


@given(paths | raw_paths)
@example("/%2541")
@example("/%25%34%31")
@example("/....//a")
@example("/%2e%2e%2e%2e//a")
def test_readings_are_those_of_the_contract_and_repeat_safe(path: str) -> None:
    try:
        readings = read_path(path)
    except AmbiguousPath:
        assert not is_plain(path)
        return
    assert readings.strict == read_strictly(path)
    assert readings.loosest == read_loosely(path)
    assert strict_reading(readings.strict) == readings.strict
    assert loosest_reading(readings.strict) == readings.loosest
    for reading in (readings.strict, readings.loosest):
        assert not {".", ".."} & set(reading.split("/"))
    assert "" not in readings.loosest.split("/")[1:-1]
    if is_plain(path):
        assert readings.strict == readings.loosest == path


@given(tables(), st.data())
def test_an_explanation_is_what_match_does(table: RouteTable, data: st.DataObject) -> None:
    host, path, method = data.draw(requests(table))
    explanation = explain(table, host, path, method)
    try:
        match = table.match(host, path, method)
    except AmbiguousPath:
        assert explanation.outcome == "bad_request"
        return
    assert explanation.match == match
    assert explanation.outcome == ("no_route" if match is None else "route")
    if match is not None:
        fitting = [one for one in table.routes if matches(one, host, strict_reading(path), method, decoded=False)]
        ranked = [one.id for one in sorted(fitting, key=specificity)]
        assert [match.route.id, *(beaten.route_id for beaten in explanation.beaten)] == ranked
