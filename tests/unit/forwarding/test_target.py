"""Where a request goes at its upstream."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dataplane.forwarding.target import upstream_path
from tests.support.forwarding import UPSTREAM, match

BASED = replace(UPSTREAM, base_path="/base")


@pytest.mark.parametrize(
    "path", ["/", "/ws/123", "/ws/123/", "//a//b", "/a%2Fb", "/%61", "/a;b=c", "/%C3%a9", "/{id}", "/a+b%20c"]
)
def test_the_path_is_forwarded_as_sent_behind_the_base_path(path: str) -> None:
    assert upstream_path(UPSTREAM, match(), path) == path
    assert upstream_path(BASED, match(), path) == "/base" + path


def test_a_rewrite_takes_the_callers_spelling_and_the_rest() -> None:
    found = match("docs/a%2Fb/", {"workspaceId": "caf%C3%A9%2f1"}, rewrite="/v1/workspaces/{workspaceId}/{rest}")
    assert upstream_path(UPSTREAM, found, "/ignored") == "/v1/workspaces/caf%C3%A9%2f1/docs/a%2Fb/"
    assert upstream_path(BASED, found, "/ignored") == "/base/v1/workspaces/caf%C3%A9%2f1/docs/a%2Fb/"


def test_an_empty_rest_leaves_the_slash_in_front_of_it() -> None:
    assert upstream_path(UPSTREAM, match("", {"a": "1"}, rewrite="/v1/{a}/{rest}"), "/x") == "/v1/1/"


def test_a_rewrite_without_rest_drops_what_follows() -> None:
    assert upstream_path(UPSTREAM, match("dropped/too", {"a": "1"}, rewrite="/fixed/{a}/x"), "/x") == "/fixed/1/x"
    assert upstream_path(UPSTREAM, match("dropped", rewrite="/fixed"), "/x") == "/fixed"


def test_a_value_that_looks_like_a_placeholder_is_only_a_value() -> None:
    found = match("{a}", {"a": "{rest}", "b": "{a}"}, rewrite="/{a}/{b}/{rest}")
    assert upstream_path(UPSTREAM, found, "/x") == "/{rest}/{a}/{a}"


def test_the_asterisk_form_names_the_server() -> None:
    assert upstream_path(BASED, match(rewrite="/v1/{rest}"), "*") == "*"


def test_a_placeholder_that_the_route_lacks_is_never_sent() -> None:
    with pytest.raises(KeyError):
        upstream_path(UPSTREAM, match(rewrite="/{missing}"), "/x")
