"""Whatever bytes are given as a table: a table, or problems; never another exception, never half of it."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from common.routetable.compiled import DeploymentDefaults
from common.routetable.load import Problem, RouteTableInvalid, load_route_table
from common.routetable.table import RouteTable
from common.routetable.warnings import Surroundings, permissive_settings
from tests.support.route_tables import route

SEED: dict[str, Any] = {
    "version": 2,
    "hosts": ["a.example"],
    "defaults": {"auth": {"mode": "any"}, "timeouts": {"connectMs": 5}, "rateLimits": {"client": {"max": 5}}},
    "trustedProxies": ["10.0.0.4/32"],
    "reservedPaths": ["/x"],
    "routes": [
        route(
            "a",
            "/a/{id}/",
            auth={"workspace": {"param": "id"}},
            rewrite="/{id}/{rest}",
            upstream=["http://a", "http://b"],
        ),
        route(
            "b", "/b", host="*.a.example", methods=["GET"], upstreamHost="request", rateLimits={"principal": {"max": 1}}
        ),
    ],
}

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(2**70), max_value=2**70),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(
        ["", "/", "/{a}", "/%", "http://", "http://[", "http://[::1]:99999", "http://u:p@h", "*.", "*", "[", "]", "[]",
         "10.0.0.0/8", "::/0", "\ud800", "\x00", "/a\x00", "{", "none", "request", "xn--", "xn--\u00e9", "a" * 300,
         "\u3002", "1.2.3.4", "0x"]
    ),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict):
        for key, item in value.items():
            found += places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += places(item, (*path, index))
    return found


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """The seed with up to three of its values replaced, dropped, or joined by others."""
    document = copy.deepcopy(SEED)
    for _ in range(draw(st.integers(min_value=1, max_value=3))):
        place = draw(st.sampled_from([path for path in places(document) if path]))
        holder: Any = document
        for step in place[:-1]:
            holder = holder[step]
        action = draw(st.sampled_from(["replace", "replace", "drop", "add"]))
        if action == "replace":
            holder[place[-1]] = draw(values)
        elif action == "drop":
            del holder[place[-1]]
        elif isinstance(holder, dict):
            holder[draw(st.text(max_size=8))] = draw(values)
        else:
            holder.append(draw(values))
    return document


def judged(text: bytes) -> RouteTable | None:
    problems: tuple[Problem, ...] = ()
    try:
        table = load_route_table(text, DeploymentDefaults())
    except RouteTableInvalid as invalid:
        table, problems = None, invalid.problems
    assert (table is None) == bool(problems)
    assert all(problem.message and str(problem).isprintable() for problem in problems)
    if table is None:
        return None
    permissive_settings(table, Surroundings())
    table.match("a.example", "/a/b/c", "GET")
    return table


def test_the_seed_is_valid() -> None:
    assert judged(json.dumps(SEED).encode()) is not None


@given(mutated())
def test_a_broken_table_is_a_list_of_problems(document: Any) -> None:
    judged(json.dumps(document).encode())


@given(values)
def test_any_json_value_is_judged(value: Any) -> None:
    judged(json.dumps(value).encode())


@given(st.binary(max_size=60))
def test_any_bytes_are_judged(text: bytes) -> None:
    judged(text)


@given(st.data())
def test_a_file_cut_anywhere_is_refused(data: st.DataObject) -> None:
    text = json.dumps(SEED).encode()
    assert judged(text[: data.draw(st.integers(min_value=0, max_value=len(text) - 1))]) is None


@given(st.text(max_size=40))
def test_any_text_in_any_field_of_texts_is_judged(text: str) -> None:
    for place in (("hosts", 0), ("trustedProxies", 0), ("reservedPaths", 0)):
        document = copy.deepcopy(SEED)
        document[place[0]][place[1]] = text
        judged(json.dumps(document).encode())
    for field in ("id", "rewrite", "upstream", "upstreamHost"):
        document = copy.deepcopy(SEED)
        document["routes"][1][field] = text
        judged(json.dumps(document).encode())
    for field in ("path", "host"):
        document = copy.deepcopy(SEED)
        document["routes"][1]["match"][field] = text
        judged(json.dumps(document).encode())
