"""The published schema and the examples agree with the code that judges tables."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from common.routetable.compiled import DeploymentDefaults
from common.routetable.load import load_route_table
from common.routetable.schema import route_table_schema, schema_text
from tests.support.route_tables import document, problems_of, route

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "docs/examples").glob("route-table*.json"))
VALIDATOR = Draft202012Validator(route_table_schema())
FULL = route(
    "x",
    "/{id}/",
    host="a.example",
    methods=["GET"],
    auth={"mode": "any", "workspace": {"param": "id", "requireUuid": False}},
    upstream=["http://a", "https://b"],
    upstreamHost="request",
    rewrite="/{rest}",
    accessCheck=True,
    accessCacheTtlMs=0,
    accessStaleGraceMs=0,
    forwardAuthorization=True,
    crossSite="strict",
    websocket=True,
    timeouts={"connectMs": 1, "uploadMs": 1, "responseMs": 1, "firstByteMs": 1, "bodyMs": 1},
    maxBodyBytes=0,
    replayMaxBytes=0,
    upstreamAttemptMs=1,
    rateLimits={"client": {"max": 1, "windowMs": 60, "bucketMs": 1}, "principal": {"max": 0}},
)


def test_the_published_schema_is_the_one_the_code_makes() -> None:
    published = (ROOT / "openapi/route-table.schema.json").read_text(encoding="utf-8")
    assert published == schema_text(), "run: python -m common.routetable.schema > openapi/route-table.schema.json"


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(route_table_schema())
    assert "null" not in schema_text()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_fits_the_schema_and_loads(path: Path) -> None:
    VALIDATOR.validate(json.loads(path.read_bytes()))
    assert load_route_table(path.read_bytes(), DeploymentDefaults()).routes


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4


def test_every_field_of_the_contract_fits_schema_and_loader() -> None:
    text = document(
        FULL,
        hosts=["a.example"],
        trustedProxies=["10.0.0.4/32"],
        reservedPaths=["/x"],
        defaults={key: FULL[key] for key in ("auth", "timeouts", "maxBodyBytes", "rateLimits", "crossSite", "websocket",
                                             "forwardAuthorization", "accessCacheTtlMs", "accessStaleGraceMs",
                                             "upstreamAttemptMs", "replayMaxBytes")},
    )  # fmt: skip
    assert problems_of(text) == {}
    VALIDATOR.validate(json.loads(text))


@pytest.mark.parametrize(
    "text",
    [
        document(route("x", "/", oops=1)),
        document(route("X", "/")),
        document(route("x", "no-slash")),
        document(route("x", "/", upstream=[])),
        document(route("x", "/", upstream=1)),
        document(route("x", "/", timeouts={"connectMs": 0})),
        document(route("x", "/", rewrite=None)),
        document(route("x", "/", rateLimits={"client": {}})),
        document(route("x", "/", upstreamHost="request"), version=1),
        document(version=1, hosts=[]),
        document(version=3),
        document(hosts=["a", "a"]),
        b"{}",
    ],
)
def test_what_the_schema_refuses_the_loader_refuses_too(text: bytes) -> None:
    assert not VALIDATOR.is_valid(json.loads(text))
    assert problems_of(text) != {}


def test_the_reference_names_every_field_of_the_schema() -> None:
    reference = (ROOT / "docs/route-table.md").read_text(encoding="utf-8")
    fields: set[str] = set()

    def collect(part: Any) -> None:
        if isinstance(part, dict):
            fields.update(part.get("properties", {}))
            for value in part.values():
                collect(value)

    collect(route_table_schema())
    prose = re.sub(r"```.*?```", "", reference, flags=re.DOTALL)
    named = set(re.findall(r"[A-Za-z]+", " ".join(re.findall(r"`([^`]+)`", prose))))
    assert fields - named == set()


def test_every_table_in_the_reference_is_valid() -> None:
    reference = (ROOT / "docs/route-table.md").read_text(encoding="utf-8")
    tables = [text for text in re.findall(r"```json\n(.*?)```", reference, re.DOTALL) if '"version"' in text]
    assert tables
    for text in tables:
        assert problems_of(text.encode()) == {}
