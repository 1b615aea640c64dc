"""The conformance program passes what follows the protocol, and finds each mistake, exactly."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from starlette.types import ASGIApp

from common.settings.secret import Secret
from dataplane.accessservice.app import access_app
from dataplane.accessservice.conformance import Pair, Report, Result, Target, run_checks
from dataplane.accessservice.policy import read_policy
from tests.support.access_services import (
    MEMBER,
    MISTAKES,
    RIGHT,
    ROLE,
    STRANGER,
    TOKEN,
    WORKSPACE,
    Hangs,
    Service,
)
from tests.support.ports import closed_port

ROOT = Path(__file__).parents[2]
POLICY = read_policy(
    json.dumps(
        {"version": 1, "grants": [{"workspace": WORKSPACE, "route": "*", "subjects": [MEMBER], "roles": [ROLE]}]}
    ).encode()
)


def target(url: str = "http://access.test", **given: object) -> Target:
    values: dict[str, object] = {
        "url": url,
        "token": Secret(TOKEN),
        "allow": Pair(MEMBER, WORKSPACE),
        "deny": Pair(STRANGER, WORKSPACE),
        "reason_code": "missing_role",
        "timeout_s": 60.0,
        **given,
    }
    return Target(**values)  # type: ignore[arg-type]


async def check(app: ASGIApp, **given: object) -> Report:
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return await run_checks(target(**given), httpx.AsyncClient(transport=transport))


def not_passed(report: Report) -> dict[str, Result]:
    return {result.id: result for result in report.results if result.outcome != "passed"}


async def test_the_reference_service_passes_every_check() -> None:
    report = await check(access_app(POLICY, Secret(TOKEN)))
    assert not_passed(report) == {}
    assert report.passed


async def test_a_service_written_against_the_document_alone_passes_every_check() -> None:
    report = await check(RIGHT)
    assert not_passed(report) == {}


async def test_a_caller_known_by_role_alone_passes() -> None:
    report = await check(access_app(POLICY, Secret(TOKEN)), allow=Pair("user-3", WORKSPACE), roles=(ROLE,))
    assert not_passed(report) == {}


async def test_a_deployment_without_workspaces_passes() -> None:
    policy = read_policy(b'{"version": 1, "grants": [{"route": "conformance", "subjects": ["user-1"]}]}')
    report = await check(
        access_app(policy, Secret(TOKEN)), allow=Pair(MEMBER, None), deny=Pair(STRANGER, None), reason_code=""
    )
    assert not_passed(report) == {}


@pytest.mark.parametrize(("service", "expected"), MISTAKES.values(), ids=MISTAKES.keys())
async def test_each_mistake_is_found_and_nothing_else(service: Service, expected: set[str]) -> None:
    report = await check(service, timeout_s=0.5 if isinstance(service, Hangs) else 60.0)
    found = not_passed(report)
    assert set(found) == expected
    for result in found.values():
        assert result.found
        assert result.advice
        assert TOKEN not in result.found + result.advice
    assert report.passed is all(result.outcome == "warning" for result in found.values())


async def test_a_wrong_token_of_the_engineer_is_said_to_be_that() -> None:
    report = await check(RIGHT, token=Secret("another"))
    assert not report.passed
    assert "the token was not accepted" in not_passed(report)["allow"].advice


async def test_a_service_that_is_not_there_ends_the_run_at_once() -> None:
    report = await run_checks(target(f"http://127.0.0.1:{closed_port()}"))
    assert not report.passed
    assert report.results[0].outcome == "failed"
    assert "start the service" in report.results[0].advice
    assert {result.outcome for result in report.results[1:]} == {"skipped"}


async def test_what_a_service_says_cannot_move_the_terminal() -> None:
    async def hostile(scope: object, receive: object, send: object) -> None:
        await send({"type": "http.response.start", "status": 500, "headers": []})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b"\x1b[2J\x1b]0;owned\x07\r\nline\xff"})  # type: ignore[operator]

    report = await check(hostile)
    for result in report.results:
        assert (result.found + result.advice).isprintable()
