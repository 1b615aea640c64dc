"""An explanation says what `match` does, and why (§3.3)."""

from __future__ import annotations

import pytest

from common.routetable.explain import explain
from tests.support.route_tables import loaded, route

UUID = "11111111-1111-4111-8111-111111111111"
TABLE = loaded(
    route("root", "/"),
    route("get", "/", host="a.example", methods=["GET"]),
    route("long", "/ws/{x}/files", host="a.example"),
    route("ws", "/ws/{id}/", host="a.example", auth={"mode": "any", "workspace": {"param": "id"}}),
    route("ws-get", "/ws/{id}", host="a.example", methods=["GET"]),
    route("wild", "/ws", host="*.example"),
    hosts=["a.example"],
)


def test_each_beaten_route_is_named_with_the_rule_that_decided() -> None:
    explanation = explain(TABLE, "a.example", f"/ws/{UUID}/files", "GET")
    assert explanation.outcome == "route"
    assert explanation.match is not None
    assert explanation.match.route.id == "ws-get"
    assert [(one.route_id, one.rule) for one in explanation.beaten] == [
        ("get", "literal prefix"),
        ("long", "method"),
        ("ws", "method"),
        ("wild", "host"),
        ("root", "host"),
    ]


def test_segments_slash_and_id_are_told_as_rules() -> None:
    table = loaded(route("c", "/x/{a}/b"), route("d", "/x/{a}/{b}"), route("a", "/x/{a}"), route("b", "/x/{a}/"))
    explanation = explain(table, None, "/x/1/b", "GET")
    assert [(one.route_id, one.rule) for one in explanation.beaten] == [
        ("d", "id"),
        ("b", "segments"),
        ("a", "segments"),
    ]
    assert [one.rule for one in explain(table, None, "/x/1/", "GET").beaten] == ["slash"]


@pytest.mark.parametrize(
    ("host", "path", "method", "outcome"),
    [
        ("a.example", "/auth/login", "GET", "gateway"),
        ("a.example", "/auth/logout", "POST", "gateway"),
        ("a.example", "/auth/login", "POST", "not_found"),
        ("other.test", "/auth/login", "GET", "route"),
        ("other.test", "/healthz", "GET", "gateway"),
        ("other.test", "/healthz", "POST", "route"),
        ("a.example", "/healthz", "POST", "not_found"),
        ("a.example", "//ws/x/y", "GET", "bad_request"),
        ("a.example", "/a/../b", "GET", "bad_request"),
        ("a.example", "no-slash", "GET", "bad_request"),
        (None, "*", "OPTIONS", "route"),
    ],
)
def test_the_outcome_is_the_dispatchers(host: str | None, path: str, method: str, outcome: str) -> None:
    assert explain(TABLE, host, path, method).outcome == outcome


def test_near_misses_say_what_was_missing() -> None:
    table = loaded(
        route("write", "/x", methods=["POST", "PUT"]), route("there", "/x", host="b.example"), route("under", "/y/")
    )
    found = {one.route_id: one.why for one in explain(table, "a.example", "/x", "GET").near_misses}
    assert found == {"write": "handles POST, PUT only", "there": "is for the host b.example"}
    assert [one.route_id for one in explain(table, None, "/y", "GET").near_misses] == ["under"]
    assert explain(table, None, "/z", "GET").outcome == "no_route"


def test_the_steps_are_those_that_the_route_asks_for() -> None:
    steps = {step.name: step for step in explain(TABLE, "a.example", f"/ws/{UUID}/x", "POST").steps}
    assert list(steps) == [
        "admission",
        "rate limits",
        "authentication",
        "principal limit",
        "cross-site guard",
        "workspace check",
        "dispatch",
    ]
    assert steps["authentication"].runs
    assert UUID in steps["workspace check"].detail
    opened = {step.name: step.runs for step in explain(TABLE, "other.test", "/", "GET").steps}
    assert not opened["authentication"]
    assert not opened["principal limit"]
    assert not opened["workspace check"]


def test_a_workspace_that_will_be_refused_is_told() -> None:
    steps = {step.name: step.detail for step in explain(TABLE, "a.example", "/ws/42/x", "POST").steps}
    assert "400" in steps["workspace check"]
