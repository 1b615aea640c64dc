"""The service over HTTP: statuses, tokens, bounds, and what its log says."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from common.settings.secret import Secret
from common.telemetry.log import Log
from dataplane.accessservice.app import access_app
from dataplane.accessservice.policy import read_policy
from dataplane.accessservice.question import REQUEST_MAX_BYTES

TOKEN = "a-token-that-stays-secret"
POLICY = read_policy(b'{"version": 1, "grants": [{"workspace": "w", "route": "*", "subjects": ["u"], "roles": ["x"]}]}')
ASKED = {"subject": "u", "workspaceId": "w", "routeId": "r", "roles": []}


class Served:
    """A client of the service in this very loop, and the lines of its log."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.policy = POLICY
        self.app = access_app(lambda: self.policy, Secret(TOKEN), Log(self.lines.append))

    async def send(self, method: str = "POST", path: str = "/v1/decisions", **given: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json", **given.pop("headers", {})}
        sent = {name: value for name, value in headers.items() if value is not None}
        if "json" in given:
            given["content"] = json.dumps(given.pop("json")).encode()
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://access") as client:
            return await client.request(method, path, headers=sent, **given)

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


async def test_an_allow_and_a_denial_are_both_200() -> None:
    served = Served()
    allowed = await served.send(json=ASKED)
    assert (allowed.status_code, allowed.json()) == (200, {"allow": True})
    denied = await served.send(json={**ASKED, "subject": "v"})
    assert denied.status_code == 200
    assert denied.json()["allow"] is False
    assert denied.json()["reasonCode"] == "missing_role"
    assert denied.headers["cache-control"] == "no-store"


async def test_a_policy_that_was_replaced_counts_at_the_next_request() -> None:
    served = Served()
    assert (await served.send(json=ASKED)).json() == {"allow": True}
    served.policy = read_policy(b'{"version": 1, "grants": []}')
    assert (await served.send(json=ASKED)).json()["allow"] is False


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN} {TOKEN}",
        f"Bearer {TOKEN.upper()}",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer, Bearer {TOKEN}",
    ],
)
async def test_a_caller_without_the_exact_token_is_401_before_the_body_is_read(authorization: str | None) -> None:
    served = Served()
    response = await served.send(content=b"not even JSON", headers={"authorization": authorization})
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.json()["error"] == "unauthorized"


async def test_two_authorization_lines_are_401() -> None:
    served = Served()
    transport = httpx.ASGITransport(app=served.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://access") as client:
        lines = [
            ("authorization", f"Bearer {TOKEN}"),
            ("authorization", "Bearer x"),
            ("content-type", "application/json"),
        ]
        response = await client.post("/v1/decisions", content=json.dumps(ASKED), headers=lines)
    assert response.status_code == 401


async def test_the_scheme_is_read_without_case() -> None:
    assert (await Served().send(json=ASKED, headers={"authorization": f"bearer {TOKEN}"})).status_code == 200


async def test_a_bad_question_says_what_is_wrong() -> None:
    response = await Served().send(json={"subject": 1, "routeId": "r"})
    assert response.status_code == 400
    assert response.json() == {
        "error": "bad_request",
        "message": "subject must be a string; roles must be a list of strings, [] where there are none",
    }


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/decisions/", "/v1/decisions/x", "/v1/Decisions", "/healthz/"])
async def test_another_path_is_404_and_no_redirect(path: str) -> None:
    response = await Served().send(path=path, json=ASKED)
    assert response.status_code == 404
    assert response.json()["error"] == "not_found"


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"])
async def test_another_method_is_405_and_names_the_one(method: str) -> None:
    response = await Served().send(method)
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"


@pytest.mark.parametrize("media_type", [None, "", "text/plain", "application/jsonx", "application/xml"])
async def test_a_body_of_another_media_type_is_415(media_type: str | None) -> None:
    assert (await Served().send(json=ASKED, headers={"content-type": media_type})).status_code == 415


@pytest.mark.parametrize("media_type", ["application/json", "Application/JSON; charset=utf-8"])
async def test_json_is_json_with_its_parameters(media_type: str) -> None:
    assert (await Served().send(json=ASKED, headers={"content-type": media_type})).status_code == 200


@pytest.mark.parametrize(("more", "status"), [(0, 200), (1, 413)])
async def test_the_body_is_bounded_to_the_byte(more: int, status: int) -> None:
    body = json.dumps(ASKED).encode().ljust(REQUEST_MAX_BYTES + more)
    assert (await Served().send(content=body)).status_code == status


async def test_a_body_without_a_declared_length_is_bounded_too() -> None:
    async def endless() -> Any:
        for _ in range(REQUEST_MAX_BYTES // 1_000 + 2):
            yield b" " * 1_000

    response = await Served().send(content=endless())
    assert response.status_code == 413
    assert response.headers["connection"] == "close"


async def test_health_needs_no_token() -> None:
    response = await Served().send("GET", "/healthz", headers={"authorization": None})
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


async def test_a_bug_is_500_and_never_an_allow() -> None:
    def broken() -> Any:
        raise RuntimeError("SECRET")

    app = access_app(broken, Secret(TOKEN))
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://access") as client:
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        response = await client.post("/v1/decisions", content=json.dumps(ASKED), headers=headers)
    assert response.status_code == 500
    assert response.json()["error"] == "internal_error"
    assert "SECRET" not in response.text


async def test_each_decision_is_logged_with_who_and_what() -> None:
    served = Served()
    await served.send(json={**ASKED, "subject": "v"})
    (event,) = served.events()
    assert {name: event[name] for name in ("msg", "subject", "workspaceId", "route", "allow", "reasonCode")} == {
        "msg": "decision",
        "subject": "v",
        "workspaceId": "w",
        "route": "r",
        "allow": False,
        "reasonCode": "missing_role",
    }


async def test_no_token_right_or_wrong_reaches_the_log_or_an_answer() -> None:
    served = Served()
    answers = [
        await served.send(json=ASKED),
        await served.send(json=ASKED, headers={"authorization": "Bearer MARKER-WRONG"}),
        await served.send(content=b"{", headers={"x-api-key": "MARKER-KEY"}),
    ]
    written = b"".join(served.lines).decode() + "".join(answer.text + str(answer.headers) for answer in answers)
    for secret in (TOKEN, "MARKER-WRONG", "MARKER-KEY"):
        assert secret not in written
