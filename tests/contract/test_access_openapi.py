"""`openapi/access.yaml` is valid, and both sides keep to it: what the gateway asks, what the service answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from common.settings.secret import Secret
from dataplane.access.protocol import DECISIONS_PATH, AccessDecision, parse_decision, question
from dataplane.accessservice.app import access_app
from dataplane.accessservice.conformance.checks import CHECKS
from dataplane.accessservice.policy import read_policy
from dataplane.accessservice.question import Question, read_question

ROOT = Path(__file__).parents[2]
SPEC: dict[str, Any] = yaml.safe_load((ROOT / "openapi/access.yaml").read_text())
OPERATION: dict[str, Any] = SPEC["paths"][DECISIONS_PATH]["post"]
SCHEMAS: dict[str, Any] = SPEC["components"]["schemas"]
POLICY = read_policy((ROOT / "docs/examples/access-policy.json").read_bytes())
WORKSPACE = "11111111-1111-4111-8111-111111111111"


def fits(schema: str, value: object) -> None:
    Draft202012Validator(SCHEMAS[schema]).validate(value)


def examples(content: dict[str, Any]) -> list[Any]:
    return [example["value"] for example in content["application/json"]["examples"].values()]


async def ask(body: bytes, *, token: str = "t", **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(app=access_app(POLICY, Secret("t")))
    async with httpx.AsyncClient(transport=transport, base_url="http://access") as client:
        given_headers = {"authorization": f"Bearer {token}", "content-type": "application/json", **headers}
        return await client.post(DECISIONS_PATH, content=body, headers=given_headers)


def test_the_document_is_openapi_3_1() -> None:
    validate(SPEC)
    assert SPEC["openapi"].startswith("3.1")


def test_every_example_fits_its_schema_and_is_read_as_it_says() -> None:
    for example in examples(OPERATION["requestBody"]["content"]):
        fits("Question", example)
        read_question(json.dumps(example).encode())
    for status, response in OPERATION["responses"].items():
        for example in examples(response["content"]):
            fits("Decision" if status == "200" else "Problem", example)
            if status == "200":
                outcome = parse_decision(200, json.dumps(example).encode())
                assert isinstance(outcome, AccessDecision)
                assert outcome.allow is example["allow"]
                assert outcome.reason == example.get("reasonCode", "")


text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=50)


@given(
    text, st.none() | text, st.from_regex(r"\A[a-z0-9][a-z0-9-]{0,63}\Z"), st.lists(st.text(max_size=20), max_size=5)
)
def test_every_question_of_the_gateway_fits_and_is_read_back_by_the_service(
    subject: str, workspace_id: str | None, route_id: str, roles: list[str]
) -> None:
    body = question(subject, workspace_id, route_id, roles)
    fits("Question", json.loads(body))
    assert read_question(body) == Question(subject, workspace_id, route_id, tuple(roles))


@pytest.mark.parametrize(
    ("subject", "workspace_id", "status"),
    [("user-1", WORKSPACE, 200), ("nobody", WORKSPACE, 200), ("user-1", None, 200), ("", None, 400)],
)
async def test_every_answer_of_the_service_fits(subject: str, workspace_id: str | None, status: int) -> None:
    response = await ask(question(subject, workspace_id, "workspace-api", []))
    assert response.status_code == status
    fits("Decision" if status == 200 else "Problem", response.json())
    assert response.headers["content-type"] == "application/json"


async def test_every_refusal_of_the_service_is_documented_and_fits() -> None:
    documented = OPERATION["responses"]
    whole = question("user-1", WORKSPACE, "workspace-api", [])
    refusals = {
        400: await ask(b"{"),
        401: await ask(whole, token="other"),
        413: await ask(b" " * 300_000),
        415: await ask(whole, **{"content-type": "text/plain"}),
    }
    for status, response in refusals.items():
        assert response.status_code == status
        assert str(status) in documented or f"{status // 100}XX" in documented
        fits("Problem", response.json())


def test_the_schema_refuses_what_the_service_refuses() -> None:
    """What the conformance program sends as malformed breaks the published schema too."""
    validator = Draft202012Validator(SCHEMAS["Question"])
    whole = {"subject": "u", "workspaceId": "w", "routeId": "r", "roles": ["a"]}
    assert validator.is_valid(whole)
    for name, value in [("subject", 1), ("subject", ""), ("routeId", []), ("workspaceId", None), ("workspaceId", "")]:
        assert not validator.is_valid({**whole, name: value})
    for value in ("admin", ["a", 1], None):
        assert not validator.is_valid({**whole, "roles": value})
    for name in ("subject", "routeId", "roles"):
        assert not validator.is_valid({key: value for key, value in whole.items() if key != name})


def test_every_check_of_the_conformance_program_has_its_own_name() -> None:
    assert len({check.id for check in CHECKS}) == len(CHECKS)
