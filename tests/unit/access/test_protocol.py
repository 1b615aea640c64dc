"""What an answer of Access means, and what it is asked."""

from __future__ import annotations

import json

import pytest

from dataplane.access.protocol import (
    ANSWER_MAX_BYTES,
    AccessDecision,
    AccessFailure,
    parse_decision,
    question,
)


def denial(**fields: object) -> AccessDecision | AccessFailure:
    return parse_decision(200, json.dumps({"allow": False, **fields}).encode())


def test_only_a_boolean_true_allows() -> None:
    assert parse_decision(200, b'{"allow": true}') == AccessDecision(True)
    assert parse_decision(200, b' {"reason": "x", "allow":true, "more": [1, {"a": null}]}\n') == AccessDecision(True)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"null",
        b"true",
        b"[true]",
        b'"allow"',
        b"{}",
        b'{"allow": "true"}',
        b'{"allow": "false"}',
        b'{"allow": 1}',
        b'{"allow": 0}',
        b'{"allow": null}',
        b'{"allow": [true]}',
        b'{"allow": {"allow": true}}',
        b'{"Allow": true}',
        b'{"allow ": true}',
        b'{"allow": True}',
        b'{"allow": true',
        b'{"allow": true}{"allow": true}',
        b'{"allow": true} x',
        b"{'allow': true}",
        b'{"allow": true,}',
        b'{"allow": false, "allow": true}',
        b'{"allow": true, "allow": true}',
        b'{"allow": true, "\\u0061llow": false}',
        b'{"allow": true, "more": {"a": 1, "a": 2}}',
        b'{"allow": true, "score": NaN}',
        b'{"allow": true, "score": -Infinity}',
        b'{"allow": true, "n": ' + b"9" * 5_000 + b"}",
        b'\xef\xbb\xbf{"allow": true}',
        '{"allow": true}'.encode("utf-16"),
        '{"allow": true}'.encode("utf-32"),
        b'{"allow": true, "reason": "\xff"}',
        b'{"allow": true, "more": ' + b"[" * 30_000 + b"]" * 30_000 + b"}",
        b"<html>sign in</html>",
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00",
    ],
)
def test_anything_but_one_well_formed_object_with_a_boolean_is_an_outage(body: bytes) -> None:
    outcome = parse_decision(200, body)
    assert isinstance(outcome, AccessFailure)
    assert outcome.kind == "malformed"
    assert not outcome.rejected


def test_an_answer_is_read_up_to_its_bound_and_not_beyond() -> None:
    frame = b'{"allow": true, "reason": "%b"}'
    fits = frame % (b"x" * (ANSWER_MAX_BYTES - len(frame) + 2))
    assert len(fits) == ANSWER_MAX_BYTES
    assert parse_decision(200, fits) == AccessDecision(True)
    over = parse_decision(200, fits + b" ")
    assert isinstance(over, AccessFailure)
    assert over.kind == "too_large"


@pytest.mark.parametrize(
    "status", [100, 101, 199, 201, 202, 203, 204, 206, 301, 302, 307, 401, 403, 404, 422, 500, 503]
)
@pytest.mark.parametrize("body", [b'{"allow": true}', b'{"allow": false}', b""])
def test_any_other_status_is_an_outage_whatever_the_body_says(status: int, body: bytes) -> None:
    outcome = parse_decision(status, body)
    assert isinstance(outcome, AccessFailure)
    assert outcome.kind == "status"
    assert str(status) in outcome.detail


def test_a_400_speaks_of_the_question_and_not_of_the_service() -> None:
    outcome = parse_decision(400, b'{"allow": true}')
    assert isinstance(outcome, AccessFailure)
    assert outcome.rejected


@pytest.mark.parametrize(
    ("fields", "counted"),
    [
        ({"reasonCode": "missing_role"}, "missing_role"),
        ({"reasonCode": "access_denied"}, "access_denied"),
        ({"reasonCode": "quota_exceeded"}, "access_denied"),
        ({"reasonCode": ""}, "access_denied"),
        ({"reasonCode": None}, "access_denied"),
        ({"reasonCode": ["missing_role"]}, "access_denied"),
        ({"reasonCode": "access_denied", "reason": "the role is missing"}, "access_denied"),
        ({"reasonCode": "", "reason": "the role is missing"}, "access_denied"),
        ({"reasonCode": None, "reason": "the role is missing"}, "access_denied"),
        ({"reasonCode": "missing_role", "reason": "go away"}, "missing_role"),
        ({}, "access_denied"),
        ({"reason": "the subject does not have the role of the workspace"}, "missing_role"),
        ({"reason": "Roles: none"}, "missing_role"),
        ({"reason": "missing_role"}, "missing_role"),
        ({"reason": "the workspace is controlled by its owner"}, "access_denied"),
        ({"reason": "not a member"}, "access_denied"),
        ({"reason": ["role"]}, "access_denied"),
        ({"reason": None}, "access_denied"),
    ],
)
def test_a_denial_counts_by_its_code_and_by_its_text_only_without_one(fields: dict[str, object], counted: str) -> None:
    assert denial(**fields) == AccessDecision(False, counted)  # type: ignore[arg-type]


def test_a_failure_never_quotes_the_answer() -> None:
    for status, body in [
        (500, b"SECRET"),
        (200, b"SECRET"),
        (200, b'{"SECRET": 1}'),
        (401, b"SECRET"),
        (400, b"SECRET"),
    ]:
        assert "SECRET" not in repr(parse_decision(status, body))


def test_the_question_holds_what_the_protocol_names() -> None:
    assert json.loads(question("u-1", "w-1", "app", ("a", "b"))) == {
        "subject": "u-1",
        "workspaceId": "w-1",
        "routeId": "app",
        "roles": ["a", "b"],
    }
    assert json.loads(question("u-1", None, "app", [])) == {"subject": "u-1", "routeId": "app", "roles": []}


def test_text_that_is_not_unicode_cannot_be_asked_about() -> None:
    for parts in [("\ud800", "w", "r", ()), ("s", "\udfff", "r", ()), ("s", "w", "r", ("\ud800",))]:
        with pytest.raises(ValueError, match="cannot be written"):
            question(*parts)
