"""The sample upstream believes a signed identity and nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from common.identity.headers import IdentityFields
from common.identity.signature import IdentitySigner, identity_payload
from dataplane.dev.accounts import WORKSPACE_ID
from dataplane.dev.upstream import SampleUpstream

SIGNER = IdentitySigner()
PROVIDER = "http://127.0.0.1:4444"
HTML = {"accept": "text/html"}


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    upstream = SampleUpstream(SIGNER.public_key_pem, PROVIDER, event_interval_s=0.0)
    transport = httpx.ASGITransport(upstream.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:5555") as client:
        yield client


def _signed(path: str, query: str = "", *, email: str = "member@example.test", method: str = "GET") -> dict[str, str]:
    fields = IdentityFields(subject="demo-member", email=email, workspace_id=WORKSPACE_ID, roles=("developer",))
    payload = identity_payload(fields, method=method, path=path, query=query, host="localhost:8080")
    return {
        "x-gateway-user-id": "demo-member",
        "x-gateway-email": email,
        "x-gateway-roles": "developer",
        "x-gateway-workspace-id": WORKSPACE_ID,
        "x-forwarded-host": "localhost:8080",
        "x-gateway-signature": SIGNER.sign(payload).decode(),
    }


async def test_a_signed_request_is_believed(http: httpx.AsyncClient) -> None:
    seen = (await http.get("/me?tab=1", headers=_signed("/me", "?tab=1"))).json()
    assert seen["identity"] == {
        "signature": "verified",
        "subject": "demo-member",
        "email": "member@example.test",
        "workspaceId": WORKSPACE_ID,
    }
    assert (seen["method"], seen["path"], seen["query"]) == ("GET", "/me", "?tab=1")


@pytest.mark.parametrize(
    "headers",
    [
        {"x-gateway-user-id": "demo-member"},
        {**_signed("/other")},
        {**_signed("/me"), "x-gateway-email": "someone-else@example.test"},
        {**_signed("/me"), "x-gateway-signature": "v4=a..b"},
        {**_signed("/me"), "x-forwarded-host": "evil.test"},
    ],
    ids=["unsigned", "of another path", "changed", "of another version", "for another host"],
)
async def test_an_identity_that_does_not_verify_is_shown_as_none(
    http: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    identity = (await http.get("/me", headers=headers)).json()["identity"]
    assert identity["signature"] != "verified"
    assert (identity["subject"], identity["email"], identity["workspaceId"]) == ("", "", "")
    page = (await http.get("/me", headers={**headers, **HTML})).text
    assert "The identity signature is valid" not in page
    assert "Sign out" not in page


async def test_pages_escape_what_the_request_brought(http: httpx.AsyncClient) -> None:
    headers = {**_signed("/me", email='"><script>alert(1)</script>'), **HTML, "x-note": "<img src=x onerror=alert(1)>"}
    page = (await http.get("/me", headers=headers)).text
    assert "The identity signature is valid" in page
    assert "<img" not in page
    assert "<script>" not in page


@pytest.mark.parametrize("path", ["/", "/me", f"/workspaces/{WORKSPACE_ID}", "/stream"])
async def test_every_page_loads_only_what_this_origin_serves(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.get(path, headers={**_signed(path), **HTML})
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'self'; script-src 'self'")
    assert f"form-action 'self' {PROVIDER};" in policy
    assert "http:" not in answer.text
    assert "https:" not in answer.text


@pytest.mark.parametrize(("name", "type_"), [("style.css", "text/css"), ("stream.js", "text/javascript")])
async def test_assets_come_from_the_package(http: httpx.AsyncClient, name: str, type_: str) -> None:
    answer = await http.get(f"/assets/{name}")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith(type_)


@pytest.mark.parametrize("name", ["none.css", "..%2f__init__.py", "__init__.py", "style.css%00", ".css"])
async def test_nothing_but_assets_is_served_as_one(http: httpx.AsyncClient, name: str) -> None:
    assert (await http.get(f"/assets/{name}")).status_code == 404


async def test_events_are_numbered_and_name_the_caller(http: httpx.AsyncClient) -> None:
    answer = await http.get("/events?count=3", headers=_signed("/events", "?count=3"))
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    assert [(event["number"], event["subject"]) for event in events] == [(n, "demo-member") for n in (1, 2, 3)]


async def test_the_echo_tells_length_and_digest_of_the_body(http: httpx.AsyncClient) -> None:
    body = b"x" * 100_000
    answer = (await http.post("/api/echo", content=body)).json()
    assert answer["body"] == {"bytes": 100_000, "sha256": hashlib.sha256(body).hexdigest()}


@pytest.mark.parametrize(("sent", "size"), [("0", 0), ("1", 1), ("70000", 70_000), ("-5", 1_048_576), ("x", 1_048_576)])
async def test_a_large_body_has_just_the_size_asked_for(http: httpx.AsyncClient, sent: str, size: int) -> None:
    answer = await http.get(f"/api/large?bytes={sent}")
    assert len(answer.content) == size == int(answer.headers["content-length"])


async def test_the_slow_endpoint_says_how_long_it_waited(http: httpx.AsyncClient) -> None:
    assert (await http.get("/api/slow?ms=1")).json() == {"waitedMs": 1}
