"""The development provider over HTTP, asked the way the gateway and a browser ask."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from common.settings.secret import Secret
from dataplane.dev.authorization import CODE_LIFETIME_S, Client
from dataplane.dev.provider import DevelopmentProvider

ISSUER = "http://127.0.0.1:4444"
CALLBACK = "http://localhost:8080/auth/callback"
SECRET = "a secret with = & and spaces"
CLIENT = Client("gateway", Secret(SECRET), (CALLBACK,), ("http://localhost:8080/",))
VERIFIER = "verifier-" * 6
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
NOW = 1_800_000_000


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now_s = float(NOW)

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def http(clock: Clock) -> AsyncIterator[httpx.AsyncClient]:
    provider = DevelopmentProvider(ISSUER, CLIENT, "gateway-api", clock=clock, monotonic=clock)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(provider.app), base_url=ISSUER) as client:
        yield client


async def _sign_in(http: httpx.AsyncClient, choice: dict[str, str], **changes: str) -> httpx.Response:
    parameters = {
        "client_id": "gateway",
        "redirect_uri": CALLBACK,
        "response_type": "code",
        "scope": "openid email profile",
        "state": "the state",
        "nonce": "the nonce",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        **changes,
    }
    page = await http.get("/authorize", params=parameters)
    assert page.status_code == 200
    found = re.search(r'name="interaction" value="([^"]+)"', page.text)
    assert found is not None
    return await http.post("/sign-in", data={"interaction": found[1], **choice})


def _answer(response: httpx.Response) -> dict[str, str]:
    location = response.headers["location"]
    assert location.startswith(f"{CALLBACK}?")
    return {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}


async def _exchange(http: httpx.AsyncClient, code: str, **changes: str) -> httpx.Response:
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": CALLBACK,
        "code_verifier": VERIFIER,
        **changes,
    }
    return await http.post("/token", data=form, auth=("gateway", "a+secret+with+%3D+%26+and+spaces"))


async def _verified(http: httpx.AsyncClient, token: str) -> Any:
    keys = KeySet.import_key_set((await http.get("/jwks")).json())
    return jwt.decode(token, keys, algorithms=["ES256"])


async def test_discovery_names_every_endpoint_below_the_issuer(http: httpx.AsyncClient) -> None:
    document = (await http.get("/.well-known/openid-configuration")).json()
    assert document["issuer"] == ISSUER
    endpoints = {name: url for name, url in document.items() if name.endswith(("_endpoint", "_uri"))}
    assert {urlsplit(url)[:2] for url in endpoints.values()} == {urlsplit(ISSUER)[:2]}
    assert set(endpoints) == {"authorization_endpoint", "token_endpoint", "jwks_uri", "end_session_endpoint"}


async def test_the_key_set_holds_no_private_part(http: httpx.AsyncClient) -> None:
    (key,) = (await http.get("/jwks")).json()["keys"]
    assert set(key) == {"kty", "crv", "x", "y", "kid", "use", "alg"}


async def test_a_login_gives_an_id_token_bound_to_the_nonce_and_the_client(http: httpx.AsyncClient) -> None:
    answer = _answer(await _sign_in(http, {"account": "member"}))
    assert answer["state"] == "the state"
    assert answer["iss"] == ISSUER
    response = await _exchange(http, answer["code"])
    assert response.headers["cache-control"] == "no-store"
    token = await _verified(http, response.json()["id_token"])
    assert token.claims == {
        "iss": ISSUER,
        "sub": "demo-member",
        "aud": "gateway",
        "iat": NOW,
        "exp": NOW + 300,
        "auth_time": NOW,
        "nonce": "the nonce",
        "email": "member@example.test",
        "email_verified": True,
        "name": "member",
        "roles": ["developer"],
    }


async def test_an_access_token_is_for_the_api_and_holds_no_nonce(http: httpx.AsyncClient) -> None:
    token = await _verified(http, (await http.post("/dev/token", data={"account": "guest"})).text)
    assert token.header["typ"] == "at+jwt"
    assert (token.claims["sub"], token.claims["aud"], token.claims["roles"]) == ("demo-guest", "gateway-api", [])
    assert "nonce" not in token.claims


async def test_a_code_is_exchanged_once(http: httpx.AsyncClient) -> None:
    code = _answer(await _sign_in(http, {"account": "member"}))["code"]
    assert (await _exchange(http, code)).status_code == 200
    again = await _exchange(http, code)
    assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")


async def test_a_code_is_worth_nothing_after_its_lifetime(http: httpx.AsyncClient, clock: Clock) -> None:
    code = _answer(await _sign_in(http, {"account": "member"}))["code"]
    clock.now_s += CODE_LIFETIME_S + 1
    assert (await _exchange(http, code)).json()["error"] == "invalid_grant"


async def test_a_stolen_code_is_worth_nothing_without_the_verifier(http: httpx.AsyncClient) -> None:
    code = _answer(await _sign_in(http, {"account": "member"}))["code"]
    assert (await _exchange(http, code, code_verifier="w" * 60)).json()["error"] == "invalid_grant"


async def test_a_wrong_client_secret_is_refused_and_the_code_survives(http: httpx.AsyncClient) -> None:
    code = _answer(await _sign_in(http, {"account": "member"}))["code"]
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    refused = await http.post("/token", data=form, auth=("gateway", "wrong"))
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    assert (await _exchange(http, code)).status_code == 200


async def test_the_secret_may_come_in_the_form_but_not_in_two_places(http: httpx.AsyncClient) -> None:
    code = _answer(await _sign_in(http, {"account": "member"}))["code"]
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": CALLBACK,
        "code_verifier": VERIFIER,
        "client_id": "gateway",
        "client_secret": SECRET,
    }
    twice = await http.post("/token", data=form, auth=("gateway", "x"))
    assert twice.json()["error"] == "invalid_request"
    assert (await http.post("/token", data=form)).status_code == 200


async def test_cancelling_is_told_to_the_client(http: httpx.AsyncClient) -> None:
    answer = _answer(await _sign_in(http, {"cancel": "yes"}))
    assert answer == {"error": "access_denied", "state": "the state", "iss": ISSUER}


async def test_the_sign_in_page_sends_its_form_to_itself_and_the_client_alone(http: httpx.AsyncClient) -> None:
    page = await http.get(
        "/authorize",
        params={
            "client_id": "gateway",
            "redirect_uri": CALLBACK,
            "response_type": "code",
            "scope": "openid",
            "state": "s",
            "nonce": "n",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
        },
    )
    policy = page.headers["content-security-policy"]
    assert "form-action 'self' http://localhost:8080;" in policy
    assert policy.startswith("default-src 'none'")


async def test_a_redirect_uri_that_is_not_registered_gets_a_page(http: httpx.AsyncClient) -> None:
    answer = await http.get("/authorize", params={"client_id": "gateway", "redirect_uri": "http://evil.test/<script>"})
    assert answer.status_code == 400
    assert "location" not in answer.headers
    assert "<script>" not in answer.text


@pytest.mark.parametrize(
    ("parameters", "status", "location"),
    [
        ({"post_logout_redirect_uri": "http://localhost:8080/"}, 303, "http://localhost:8080/"),
        (
            {"post_logout_redirect_uri": "http://localhost:8080/", "state": "a b"},
            303,
            "http://localhost:8080/?state=a+b",
        ),
        ({"post_logout_redirect_uri": "http://evil.test/"}, 400, None),
        ({}, 200, None),
    ],
)
async def test_logout_leads_on_to_a_registered_address_alone(
    http: httpx.AsyncClient, parameters: dict[str, str], status: int, location: str | None
) -> None:
    for answer in (await http.get("/end-session", params=parameters), await http.post("/end-session", data=parameters)):
        assert (answer.status_code, answer.headers.get("location")) == (status, location)


async def test_a_site_that_points_its_name_at_loopback_reads_nothing(http: httpx.AsyncClient) -> None:
    answer = await http.post("/dev/token", data={"account": "member"}, headers={"host": "evil.test:4444"})
    assert answer.status_code == 400
    assert "ey" not in answer.text


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"account=member", "text/plain"),
        (b"account=nobody", "application/x-www-form-urlencoded"),
        (b"account=member&account=guest", "application/x-www-form-urlencoded"),
        (b"account=member&x=" + b"y" * 20_000, "application/x-www-form-urlencoded"),
        (b"\xff\xfe", "application/x-www-form-urlencoded"),
        (b"", "application/x-www-form-urlencoded"),
    ],
)
async def test_a_body_that_is_no_form_gets_no_token(http: httpx.AsyncClient, body: bytes, content_type: str) -> None:
    answer = await http.post("/dev/token", content=body, headers={"content-type": content_type})
    assert answer.status_code == 400
    assert "account=member" in answer.text
