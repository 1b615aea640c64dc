"""What is refused before the document is looked into: bytes that are no single JSON document."""

from __future__ import annotations

import json

import pytest

from common.routetable.document import MAX_TABLE_BYTES
from common.routetable.problems import MAX_PROBLEMS
from tests.support.route_tables import document, problems_of, route

VALID = document(route("x", "/"))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (b"", "empty"),
        (b" \n\t", "empty"),
        (b"{", "not valid JSON"),
        (b"{,}", "line 1, column 2"),
        (VALID + b"x", "not valid JSON"),
        (VALID[: len(VALID) // 2], "not valid JSON"),
        (b"\xef\xbb\xbf" + VALID, "not valid JSON"),
        (VALID.decode().encode("utf-16"), "not UTF-8"),
        (b'{"version": 2, "routes": [], "x": "\xff"}', "not UTF-8"),
        (b'{"version": NaN, "routes": []}', "NaN"),
        (b'{"version": -Infinity, "routes": []}', "-Infinity"),
        (b'{"version": ' + b"9" * 5_000 + b"}", "too many digits"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"[]", "JSON object"),
        (b"null", "JSON object"),
        (b"7", "JSON object"),
        (b'"text"', "JSON object"),
        (b"// comment\n{}", "not valid JSON"),
        (b'{"version": 2, "routes": [],}', "not valid JSON"),
    ],
)
def test_bytes_that_are_no_json_object_are_one_clear_problem(text: bytes, word: str) -> None:
    problems = problems_of(text)
    assert list(problems) == [""]
    assert word in problems[""]


def test_a_document_larger_than_can_be_pushed_is_not_read() -> None:
    padded = VALID[:-1] + b" " * (MAX_TABLE_BYTES - len(VALID)) + b"}"
    assert problems_of(padded) == {}
    assert "larger than" in problems_of(padded[:-1] + b" }")[""]


def test_nesting_beyond_what_a_table_has_is_a_problem_in_its_place() -> None:
    deep: object = 1
    for _ in range(30):
        deep = [deep]
    problems = problems_of(json.dumps({"version": 2, "routes": [], "x": deep}).encode())
    assert any(message == "is nested too deeply" for message in problems.values())


def test_a_repeated_key_is_named_wherever_it_stands() -> None:
    text = b"""{"version": 2, "version": 2, "routes": [
        {"id": "a", "id": "b", "match": {"path": "/"}, "upstream": "http://x", "auth": {"mode": "any", "mode": "any"}}
    ]}"""
    problems = problems_of(text)
    assert list(problems) == ["version", "routes[0].auth.mode", "routes[0].id"]
    assert all("more than once" in message for message in problems.values())


def test_null_is_never_a_value() -> None:
    problems = problems_of(document(route("x", "/", rewrite=None, websocket=None), hosts=None))
    assert list(problems) == ["hosts", "routes[0].rewrite", "routes[0].websocket"]
    assert all("null" in message for message in problems.values())


def test_a_lone_surrogate_is_a_problem_and_not_an_exception() -> None:
    text = b'{"version": 2, "routes": [{"id": "\\ud800", "match": {"path": "/\\ud800"}, "\\ud800": 1}]}'
    problems = problems_of(text)
    assert "routes[0].id" in problems
    assert "routes[0].match.path" in problems
    assert all(place.isascii() and message.isascii() for place, message in problems.items())


def test_odd_keys_stay_on_one_printable_line() -> None:
    text = json.dumps({"version": 2, "routes": [], "a\n\x1b[31m" + "k" * 500: 1}).encode()
    ((place, message),) = problems_of(text).items()
    assert place.isprintable()
    assert len(place) < 120
    assert message == "unknown key"


def test_the_number_of_problems_is_bounded_and_the_bound_is_told() -> None:
    problems = problems_of(document(*range(MAX_PROBLEMS + 500)))
    assert len(problems) == MAX_PROBLEMS + 1
    assert "only the first" in problems[""]
