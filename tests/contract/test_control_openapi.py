"""`openapi/control.json` says what the code does, each outcome with an example that fits its schema (§14.1)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from controlplane.app import build_api
from controlplane.errors import KINDS
from controlplane.openapi import openapi_text
from tests.support.control import Control

PUBLISHED = Path(__file__).parents[2] / "openapi/control.json"
DOCUMENT: dict[str, Any] = json.loads(PUBLISHED.read_text())

SCOPED = {"401", "403", "429", "500", "503"}


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def examples(content: dict[str, Any]) -> list[Any]:
    named = [one["value"] for one in content.get("examples", {}).values()]
    return [*named, *([content["example"]] if "example" in content else [])]


def fits(schema: dict[str, Any], example: Any) -> None:
    Draft202012Validator({**schema, "components": DOCUMENT["components"]}).validate(example)


def test_the_published_description_is_the_one_that_the_code_makes() -> None:
    assert PUBLISHED.read_text() == openapi_text(build_api()), (
        "run: python -m controlplane.openapi > openapi/control.json; "
        "python -m controlplane.reference docs/control-api.md"
    )


def test_the_description_is_valid_openapi() -> None:
    validate(DOCUMENT)


async def test_the_description_that_is_served_is_the_published_one() -> None:
    answer = await Control().send("GET", "/openapi.json", token=None)
    assert answer.json() == DOCUMENT


def test_the_operations_are_those_of_the_contract() -> None:
    assert {(method.upper(), path) for method, path, _ in operations()} == {
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("GET", "/metrics"),
        ("GET", "/v1/config"),
        ("PUT", "/v1/config"),
        ("POST", "/v1/config/validate"),
        ("POST", "/v1/config/rollback"),
        ("GET", "/v1/config/revisions"),
        ("GET", "/v1/config/revisions/{revision}"),
        ("GET", "/v1/config/diff"),
        ("GET", "/v1/replicas"),
        ("GET", "/v1/sessions"),
        ("DELETE", "/v1/sessions"),
        ("DELETE", "/v1/sessions/{handle}"),
        ("DELETE", "/v1/decisions"),
        ("GET", "/v1/audit"),
        ("GET", "/v1/me"),
    }


@pytest.mark.parametrize(("method", "path", "operation"), list(operations()))
def test_each_operation_is_told_whole(method: str, path: str, operation: dict[str, Any]) -> None:
    assert operation["operationId"]
    assert operation["summary"]
    assert len(operation["tags"]) == 1
    if path.startswith("/v1/"):
        assert operation["security"] == [{"token": []}]
        assert operation["responses"].keys() >= SCOPED
    for status, response in operation["responses"].items():
        assert "x-request-id" in response["headers"]
        assert status not in {"429", "503"} or "retry-after" in response["headers"]
        (content,) = response["content"].values()
        assert examples(content), f"{status} has no example"
        for example in examples(content):
            fits(content["schema"], example)
            if int(status) >= 400 and "error" in example:
                assert KINDS[example["error"]].status == int(status)


def test_operations_have_names_of_their_own() -> None:
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(names) == len(set(names))


def test_no_object_takes_or_gives_what_is_not_declared() -> None:
    open_ones = [
        name
        for name, schema in DOCUMENT["components"]["schemas"].items()
        if schema.get("type") == "object" and schema.get("additionalProperties") is not False
    ]
    assert open_ones == []


def test_every_code_has_an_operation_that_shows_it() -> None:
    shown = {
        example["error"]
        for _, _, operation in operations()
        for status, response in operation["responses"].items()
        if int(status) >= 400
        for content in response["content"].values()
        for example in examples(content)
        if "error" in example
    }
    # What no operation answers: a method that a path does not take is none of its operations.
    assert shown == KINDS.keys() - {"method_not_allowed"}
