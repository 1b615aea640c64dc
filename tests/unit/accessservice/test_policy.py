"""The policy's rules, and that a wrong one is refused as a whole with every problem named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.accessservice.policy import ALLOWED, NO_GRANT, NO_ROLE, POLICY_MAX_BYTES, PolicyInvalid, read_policy
from dataplane.accessservice.question import Question

EXAMPLE = Path(__file__).parents[3] / "docs/examples/access-policy.json"


def policy(*grants: dict[str, Any]) -> bytes:
    return json.dumps({"version": 1, "grants": grants}).encode()


def asked(subject: str = "u", workspace_id: str | None = "w", route_id: str = "r", *roles: str) -> Question:
    return Question(subject, workspace_id, route_id, roles)


def problems(text: bytes) -> dict[str, str]:
    with pytest.raises(PolicyInvalid) as caught:
        read_policy(text)
    return {problem.path: problem.message for problem in caught.value.problems}


# Deciding


def test_a_listed_subject_is_allowed() -> None:
    assert read_policy(policy({"workspace": "w", "route": "r", "subjects": ["u"]})).rule(asked()) == ALLOWED


def test_one_held_role_is_enough() -> None:
    rules = read_policy(policy({"workspace": "w", "route": "r", "roles": ["a", "b"]}))
    assert rules.rule(asked("x", "w", "r", "z", "b")) == ALLOWED


@pytest.mark.parametrize(
    ("grant", "ruling"),
    [
        ({"workspace": "w", "route": "r", "subjects": ["x"]}, NO_GRANT),
        ({"workspace": "w", "route": "r", "roles": ["a"]}, NO_ROLE),
        ({"workspace": "w", "route": "r", "subjects": ["x"], "roles": ["a"]}, NO_ROLE),
        ({"workspace": "*", "route": "*", "roles": ["a"]}, NO_ROLE),
        ({"workspace": "w2", "route": "r", "roles": ["a"]}, NO_GRANT),
        ({"workspace": "w", "route": "r2", "roles": ["a"]}, NO_GRANT),
        ({"route": "r", "roles": ["a"]}, NO_GRANT),
        ({"route": "r", "subjects": ["u"]}, NO_GRANT),
        ({"workspace": "W", "route": "r", "subjects": ["u"]}, NO_GRANT),
        ({"workspace": "w", "route": "r", "subjects": ["U", "u ", "uu", "", "u\u0000"][0:1]}, NO_GRANT),
    ],
)
def test_everything_else_is_denied_with_the_code_of_the_contract(grant: dict[str, Any], ruling: object) -> None:
    assert read_policy(policy(grant)).rule(asked()) == ruling


def test_an_empty_policy_denies() -> None:
    assert read_policy(policy()).rule(asked()) == NO_GRANT


def test_the_wildcard_of_a_workspace_is_any_named_one_and_never_none() -> None:
    rules = read_policy(policy({"workspace": "*", "route": "*", "subjects": ["u"]}))
    assert rules.rule(asked("u", "anything", "any-route")) == ALLOWED
    assert rules.rule(asked("u", None, "any-route")) == NO_GRANT


def test_a_grant_without_a_workspace_speaks_only_of_questions_without_one() -> None:
    rules = read_policy(policy({"route": "r", "subjects": ["u"]}))
    assert rules.rule(asked("u", None, "r")) == ALLOWED
    assert rules.rule(asked("u", "w", "r")) == NO_GRANT
    assert rules.rule(asked("u", None, "r2")) == NO_GRANT


def test_grants_add_up_whatever_their_order() -> None:
    grants = [
        {"workspace": "w", "route": "*", "subjects": ["a"]},
        {"workspace": "w", "route": "r", "roles": ["x"]},
        {"workspace": "w", "route": "r", "subjects": ["b"]},
    ]
    for order in (grants, grants[::-1]):
        rules = read_policy(policy(*order))
        assert [rules.rule(asked(subject)).allow for subject in "abc"] == [True, True, False]
        assert rules.rule(asked("c")) == NO_ROLE


names = st.sampled_from(["a", "b", "*"])
grants_of = st.fixed_dictionaries(
    {"route": names, "subjects": st.lists(st.sampled_from(["u", "v"]), min_size=1, max_size=2)},
    optional={"workspace": names, "roles": st.lists(st.sampled_from(["x", "y"]), max_size=2)},
)


@given(
    st.lists(grants_of, max_size=5),
    st.sampled_from(["u", "v", "w"]),
    st.sampled_from([None, "a", "b", "c"]),
    st.sampled_from(["a", "b", "c"]),
    st.lists(st.sampled_from(["x", "y", "z"]), max_size=2),
)
def test_the_rules_are_those_of_the_contract_read_word_for_word(
    grants: list[dict[str, Any]], subject: str, workspace_id: str | None, route_id: str, roles: list[str]
) -> None:
    def about(grant: dict[str, Any]) -> bool:
        named = grant.get("workspace")
        workspace = named is None if workspace_id is None else named in (workspace_id, "*")
        return workspace and grant["route"] in (route_id, "*")

    matching = [grant for grant in grants if about(grant)]
    allowed = any(subject in g["subjects"] or set(g.get("roles", [])) & set(roles) for g in matching)
    code = "missing_role" if any(g.get("roles") for g in matching) else "access_denied"
    ruling = read_policy(policy(*grants)).rule(Question(subject, workspace_id, route_id, tuple(roles)))
    assert ruling.allow == allowed
    assert ruling.reason_code == ("" if allowed else code)


def test_the_example_of_the_documentation_does_what_it_shows() -> None:
    rules = read_policy(EXAMPLE.read_bytes())
    first, second = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
    assert rules.rule(asked("user-1", first, "any")).allow
    assert rules.rule(asked("someone", first, "any", "team-blue")).allow
    assert rules.rule(asked("user-2", first, "any")) == NO_ROLE
    assert rules.rule(asked("user-2", second, "workspace-api")).allow
    assert not rules.rule(asked("user-2", second, "other")).allow
    assert rules.rule(asked("someone", "any", "any", "support")).allow
    assert rules.rule(asked("someone", None, "admin-api", "platform-admin")).allow
    assert rules.rule(asked("someone", None, "admin-api", "support")) == NO_ROLE


# Reading


def test_every_problem_is_named_at_once_with_its_place() -> None:
    text = json.dumps(
        {
            "version": 2,
            "grant": [],
            "grants": [
                {"workspace": "w", "subjects": ["u"]},
                {"workspace": None, "route": "r", "subjects": ["u"]},
                {"workspace": "w", "route": "", "role": ["a"], "subjects": ["u"]},
                {"workspace": "w", "route": "r"},
                {"workspace": "w", "route": "r", "subjects": "u"},
                {"workspace": "w", "route": "r", "subjects": [1], "roles": ["*"]},
                "x",
                {"workspace": 1, "route": "r", "subjects": ["u" * 513]},
            ],
        }
    )
    found = problems(text.encode())
    assert found == {
        "version": "must be 1",
        "grant": "is unknown; did you mean grants?",
        "grants[0].route": "is required",
        "grants[1].workspace": "must not be null: leave the field out to speak of requests without one",
        "grants[2].route": "must not be empty",
        "grants[2].role": "is unknown; did you mean roles?",
        "grants[3]": "grants nothing to anyone: name subjects, roles or both",
        "grants[4].subjects": "must be a list",
        "grants[5].subjects[0]": "must be a string",
        "grants[5].roles": "holds *, which is no wildcard here: name each one",
        "grants[6]": "must be an object",
        "grants[7].workspace": "must be a string",
        "grants[7].subjects[0]": "is longer than 512 characters",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is not valid JSON"),
        (b"{", "is not valid JSON"),
        (b"\xff", "is not valid JSON: not UTF-8 at byte 0"),
        (b'\xef\xbb\xbf{"version": 1, "grants": []}', "is not valid JSON"),
        (b'{"version": 1, "version": 1, "grants": []}', "stands twice"),
        (b'{"version": 1, "grants": [], "x": NaN}', "NaN is not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b" " * (POLICY_MAX_BYTES + 1), "is larger than"),
        (b"[]", "must be an object"),
        (b"null", "must be an object"),
    ],
)
def test_what_is_no_policy_at_all_is_said_in_one_line(text: bytes, message: str) -> None:
    found = problems(text)
    assert list(found) == [""]
    assert message in found[""]


@pytest.mark.parametrize("version", [True, 1.0, "1", None, 0, 2])
def test_a_version_is_the_number_one(version: object) -> None:
    assert problems(json.dumps({"version": version, "grants": []}).encode()) == {"version": "must be 1"}
