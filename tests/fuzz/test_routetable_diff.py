"""Two valid tables differ exactly when they say something else, and the diff leads from one to the other."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from common.routetable.canonical import canonical
from common.routetable.compiled import DeploymentDefaults
from common.routetable.diff import FieldChange, TableDifference, table_difference
from common.routetable.load import load_route_table
from common.routetable.unified import height, written

URLS = ["http://a.internal", "http://b.internal/x", "https://c.internal:444"]
CREDENTIALS = ["", "", "u:p1@", "u:p2@", "v@"]

ms = st.sampled_from([1, 2, 500])
policies = st.fixed_dictionaries(
    {},
    optional={
        "timeouts": st.fixed_dictionaries({}, optional={"connectMs": ms, "uploadMs": ms, "bodyMs": ms}),
        "maxBodyBytes": ms,
        "rateLimits": st.fixed_dictionaries({}, optional={"client": st.fixed_dictionaries({"max": ms})}),
        "crossSite": st.sampled_from(["strict", "navigation"]),
        "websocket": st.booleans(),
        "forwardAuthorization": st.booleans(),
    },
)
methods = st.lists(st.sampled_from(["GET", "POST", "PUT"]), min_size=1, unique=True)


@st.composite
def upstreams(draw: st.DrawFn, version: int) -> Any:
    urls = draw(st.lists(st.sampled_from(URLS), min_size=1, max_size=3, unique=True))
    if version == 1:
        urls = [url.replace("://", f"://{draw(st.sampled_from(CREDENTIALS))}") for url in urls]
    return urls if len(urls) > 1 or draw(st.booleans()) else urls[0]


@st.composite
def tables(draw: st.DrawFn, version: int = 2) -> dict[str, Any]:
    """A valid table of few ids, so that two tables share routes."""
    routes = []
    for route_id in draw(st.lists(st.sampled_from("abcde"), max_size=4, unique=True)):
        match: dict[str, Any] = {"path": f"/{route_id}{draw(st.sampled_from(['', '/', '/x']))}"}
        if draw(st.booleans()):
            match["methods"] = draw(methods)
        upstream = draw(upstreams(version))
        routes.append(
            {"id": route_id, "match": match, "upstream": upstream, "auth": {"mode": "none"}, **draw(policies)}
        )
    top: dict[str, Any] = {"version": version, "routes": routes}
    if draw(st.booleans()):
        top["defaults"] = draw(policies)
    for key, values in (("hosts", ["a.example", "b.example"]), ("reservedPaths", ["/r", "/s"])):
        if draw(st.booleans()) and not (version == 1 and key == "hosts"):
            top[key] = draw(st.lists(st.sampled_from(values), unique=True))
    return top


stores = st.one_of(st.none(), tables())


def lines_of(document: Any) -> list[str]:
    return [] if document is None else list(written(canonical(document), 0))


def patched(lines: list[str], unified: str) -> list[str]:
    """What `patch` makes of the lines; asserts that the diff fits to the line."""
    out: list[str] = []
    at = 0
    for text in unified.splitlines()[2:]:
        head = re.match(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@ \S", text)
        if head is not None:
            start = int(head[1]) - (1 if int(head[2]) else 0)
            out += lines[at:start]
            at = start
            assert len(out) == int(head[3]) - (1 if int(head[4]) else 0)
            continue
        if text[0] != "+":
            assert lines[at] == text[1:]
            at += 1
        if text[0] != "-":
            out.append(text[1:])
    return out + lines[at:]


def with_fields(value: dict[str, Any], fields: tuple[FieldChange, ...], attribute: str) -> dict[str, Any]:
    """The object with every named field as it was `before` or `after`, and without what that leaves empty."""
    result = copy.deepcopy(value)
    for field in fields:
        *around, last = field.path.split(".")
        holder = result
        for name in around:
            holder = holder.setdefault(name, {})
        holder[last] = getattr(field, attribute)
    return pruned(result)


def pruned(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {key: pruned(item) for key, item in value.items()}
    return {key: item for key, item in inner.items() if item not in (None, {})}


def is_empty(found: TableDifference) -> bool:
    return not (found.added or found.removed or found.changed or found.settings)


@given(tables())
def test_the_tables_of_this_file_are_valid(document: Any) -> None:
    load_route_table(json.dumps(document).encode(), DeploymentDefaults())


@given(stores)
def test_a_table_differs_in_nothing_from_itself(document: Any) -> None:
    assert not table_difference(document, copy.deepcopy(document))


@given(st.data(), st.sampled_from([1, 2]))
def test_there_is_no_difference_exactly_when_the_canonical_documents_are_equal(data: st.DataObject, kind: int) -> None:
    before, after = data.draw(tables(kind)), data.draw(tables(kind))
    found = table_difference(before, after)
    same = canonical(before) == canonical(after)
    assert bool(found) == (not same)
    assert is_empty(found) == same


@given(stores, stores)
def test_the_unified_diff_makes_the_one_text_of_the_other(before: Any, after: Any) -> None:
    unified = table_difference(before, after).unified
    assert patched(lines_of(before), unified) == lines_of(after)


@given(tables(), tables())
def test_the_named_fields_are_all_that_differs(before: Any, after: Any) -> None:
    old, new = canonical(before), canonical(after)
    found = table_difference(before, after)
    old_routes = {one["id"]: one for one in old.pop("routes")}
    new_routes = {one["id"]: one for one in new.pop("routes")}
    assert with_fields(old, found.settings, "after") == pruned(new)
    assert set(found.added) == new_routes.keys() - old_routes.keys()
    assert set(found.removed) == old_routes.keys() - new_routes.keys()
    for change in found.changed:
        assert with_fields(old_routes[change.id], change.fields, "after") == pruned(new_routes[change.id])
        assert with_fields(new_routes[change.id], change.fields, "before") == pruned(old_routes[change.id])


@given(stores, stores)
def test_the_way_back_names_the_same(before: Any, after: Any) -> None:
    there, back = table_difference(before, after), table_difference(after, before)
    assert (there.added, there.removed) == (back.removed, back.added)
    assert [change.id for change in there.changed] == [change.id for change in back.changed]
    assert [field.path for field in there.settings] == [field.path for field in back.settings]


@given(tables())
def test_a_height_is_a_number_of_lines(document: Any) -> None:
    assert height(document) == len(list(written(document, 0)))


@given(tables(1), tables(1))
def test_no_credential_of_version_1_is_shown(before: Any, after: Any) -> None:
    text = repr(table_difference(before, after))
    assert not re.search(r"//(?!\[redacted)[^/\"']*@|p1|p2", text)
