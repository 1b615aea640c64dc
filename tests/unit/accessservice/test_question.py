"""A question of the protocol is read strictly, and a refusal says all that is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dataplane.accessservice.question import Question, QuestionInvalid, read_question

WHOLE: dict[str, Any] = {"subject": "u", "workspaceId": "w", "routeId": "r", "roles": ["a"]}


def refusal(body: object) -> tuple[str, ...]:
    with pytest.raises(QuestionInvalid) as caught:
        read_question(body if isinstance(body, bytes) else json.dumps(body).encode())
    return caught.value.problems


def test_a_whole_question_is_read() -> None:
    assert read_question(json.dumps(WHOLE).encode()) == Question("u", "w", "r", ("a",))


def test_a_question_without_a_workspace_is_read_as_that() -> None:
    assert read_question(b'{"subject": "u", "routeId": "r", "roles": []}') == Question("u", None, "r", ())


def test_fields_of_a_newer_gateway_are_ignored() -> None:
    assert read_question(json.dumps({**WHOLE, "method": "GET", "x": [{}]}).encode()) == Question("u", "w", "r", ("a",))


def test_every_field_that_is_wrong_is_named_at_once_and_no_value_repeated() -> None:
    found = refusal({"subject": ["SECRET"], "workspaceId": None, "routeId": "", "roles": "SECRET"})
    assert found == (
        "subject must be a string",
        "workspaceId must be a string; leave it out where there is none",
        "routeId must not be empty",
        "roles must be a list of strings, [] where there are none",
    )


@pytest.mark.parametrize("name", ["subject", "routeId", "roles"])
def test_what_the_protocol_requires_is_required(name: str) -> None:
    (problem,) = refusal({key: value for key, value in WHOLE.items() if key != name})
    assert problem.startswith(name)


@pytest.mark.parametrize("roles", [None, {}, "a", 1, [1], ["a", None], [["a"]], [True]])
def test_roles_are_a_list_of_strings(roles: object) -> None:
    (problem,) = refusal({**WHOLE, "roles": roles})
    assert problem.startswith("roles")


@pytest.mark.parametrize("body", [b"", b"{", b"nul", b"\xff", b'{"subject": "a", "subject": "b"}', b"[" * 50_000])
def test_a_body_that_has_no_one_meaning_is_refused(body: bytes) -> None:
    (problem,) = refusal(body)
    assert problem.startswith("the body is not JSON")


@pytest.mark.parametrize("body", [b"[]", b"null", b'"x"', b"1"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    assert refusal(body) == ("the body must be an object",)
