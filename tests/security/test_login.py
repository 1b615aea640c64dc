"""Logins with a provider that misbehaves: an ID token that is not this login's never becomes a session."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from common.state.ports import StateUnavailable
from dataplane.errors import GatewayError
from tests.support.auth_harness import exchange
from tests.support.auth_stack import Stack, User
from tests.support.jose import assembled, ec_key, key_set, public_jwk, rsa_key, signed
from tests.support.oidc_provider import (
    Behaviour,
    OddProvider,
    OddRequest,
    Write,
    answers,
    answers_json,
    breaks_off,
    hangs,
    resets,
)


class Case:
    """A stack, its user, and a provider whose token endpoint answers what a test says."""

    def __init__(self, odd: OddProvider, stack: Stack, user: User) -> None:
        self.odd = odd
        self.stack = stack
        self.user = user
        self.nonce = ""

    async def start(self, target: str = "/app") -> str:
        """Start a login; the callback that the browser will come back with."""
        query = parse_qs(urlsplit(await self.user.login(target)).query)
        self.nonce = query["nonce"][0]
        return f"/auth/callback?code=the-code&state={query['state'][0]}"

    def claims(self, **changes: object) -> dict[str, Any]:
        now = time.time()
        full = {
            "iss": self.odd.origin, "aud": "gateway", "sub": "alice", "iat": now, "exp": now + 300, "nonce": self.nonce,
            **changes,
        }  # fmt: skip
        return {name: value for name, value in full.items() if value is not None}

    def gives(self, id_token: object) -> None:
        """What the token endpoint answers from now on."""
        token = id_token.decode() if isinstance(id_token, bytes) else id_token
        self.odd.behaviours["/token"] = answers_json({"id_token": token, "access_token": "x", "token_type": "Bearer"})

    async def outcome(self) -> str:
        """Where a login that is started now ends: the page, or the code that refuses it."""
        callback = await self.start()
        return await self._finish(callback)

    async def _finish(self, callback: str) -> str:
        try:
            return await self.user.finish(callback)
        except GatewayError as error:
            return error.code


@pytest.fixture
async def case() -> AsyncIterator[Case]:
    async with OddProvider() as odd:
        odd.behaviours["/.well-known/openid-configuration"] = answers_json(
            {
                "issuer": odd.origin,
                "authorization_endpoint": f"{odd.origin}/auth",
                "token_endpoint": f"{odd.origin}/token",
                "jwks_uri": f"{odd.origin}/keys",
            }
        )
        odd.behaviours["/keys"] = answers_json(key_set(ec_key("a"), rsa_key("r")))
        async with Stack(odd.origin, oidc_timeout_s=0.5) as stack, User(stack) as user:
            yield Case(odd, stack, user)


async def test_the_harness_logs_in(case: Case) -> None:
    callback = await case.start()
    case.gives(signed(case.claims(), ec_key("a")))
    assert await case._finish(callback) == "/app"
    assert "gateway_session" in case.user.browser


@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": None}, {"nonce": "another"}, {"nonce": ""}, {"iss": "https://evil.example"}, {"iss": None},
        {"aud": "another"}, {"aud": None}, {"aud": ["gateway", "another"]}, {"aud": []},
        {"aud": ["gateway", "another"], "azp": "another"}, {"azp": "another"},
        {"exp": 1}, {"exp": None}, {"exp": "9999999999"}, {"iat": None}, {"iat": 9_999_999_999},
        {"nbf": 9_999_999_999}, {"sub": None}, {"sub": ""}, {"sub": 5},
    ],
)  # fmt: skip
async def test_an_id_token_that_says_something_else_is_no_login(case: Case, changes: dict[str, object]) -> None:
    callback = await case.start()
    case.gives(signed(case.claims(**changes), ec_key("a")))
    assert await case._finish(callback) == "login_failed"
    assert case.user.browser.jar == {}
    assert case.stack.logins("failed") == 1


async def test_an_id_token_that_the_provider_did_not_sign_is_no_login(case: Case) -> None:
    tokens: dict[str, Callable[[], bytes]] = {
        "another key": lambda: signed(case.claims(), ec_key("b")),
        "another key, same name": lambda: signed(case.claims(), ec_key("b"), header={"kid": "a"}),
        "a key of its own": lambda: signed(case.claims(), ec_key("b"), header={"jwk": public_jwk(ec_key("b"))}),
        "none": lambda: assembled({"alg": "none"}, b"{}", b""),
        "a logout token": lambda: signed(case.claims(), ec_key("a"), header={"typ": "logout+jwt"}),
        "an access token": lambda: signed(case.claims(), ec_key("a"), header={"typ": "at+jwt"}),
        "no token": lambda: b"a.b.c",
    }
    for name, token in tokens.items():
        callback = await case.start()
        case.gives(token())
        assert await case._finish(callback) == "login_failed", name
        assert "gateway_session" not in case.user.browser


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        (hangs, "identity_provider_unavailable"),
        (resets, "identity_provider_unavailable"),
        (breaks_off, "identity_provider_unavailable"),
        (answers_json({}, status="500 Oh"), "identity_provider_unavailable"),
        (answers_json({"error": "invalid_grant"}, status="400 Bad Request"), "login_failed"),
        (answers(b"<html>"), "login_failed"),
        (answers_json({"access_token": "x"}), "login_failed"),
        (answers_json({"id_token": "x"}, status="307 Moved"), "login_failed"),
    ],
)
async def test_a_token_endpoint_that_misbehaves_gives_no_session(case: Case, behaviour: Behaviour, code: str) -> None:
    case.odd.behaviours["/token"] = behaviour
    assert await case.outcome() == code
    assert case.user.browser.jar == {}
    assert case.odd.count("/token") == 1
    assert case.stack.logins("unavailable" if code.startswith("identity") else "failed") == 1


@pytest.mark.parametrize(
    "behaviour", [hangs, resets, answers(b"nonsense"), answers_json({"keys": []}), answers_json({}, status="503 No")]
)
async def test_without_keys_an_id_token_cannot_be_judged(case: Case, behaviour: Behaviour) -> None:
    case.odd.behaviours["/keys"] = behaviour
    callback = await case.start()
    case.gives(signed(case.claims(), ec_key("a")))
    assert await case._finish(callback) == "identity_provider_unavailable"
    assert case.user.browser.jar == {}


@pytest.mark.parametrize(
    "behaviour",
    [hangs, resets, answers(b"nonsense"), answers_json({}), answers_json([]), answers_json({}, status="500 No")],
)
async def test_a_provider_without_usable_metadata_is_503_and_heals(case: Case, behaviour: Behaviour) -> None:
    good = case.odd.behaviours["/.well-known/openid-configuration"]
    case.odd.behaviours["/.well-known/openid-configuration"] = behaviour
    assert await case.user.refusal(case.stack.login, "/auth/login") == "identity_provider_unavailable"
    assert case.user.browser.jar == {}
    case.odd.behaviours["/.well-known/openid-configuration"] = good
    case.stack.later_s = 2
    assert (await case.start()).startswith("/auth/callback?")


async def test_the_code_is_sent_once_with_verifier_and_credential_in_no_address(case: Case) -> None:
    callback = await case.start()
    case.gives(signed(case.claims(), ec_key("a")))
    await case._finish(callback)
    (request,) = [each for each in case.odd.requests if urlsplit(each.target).path == "/token"]
    assert (request.method, request.target) == ("POST", "/token")
    assert request.headers["authorization"].startswith("Basic ")
    assert request.form["redirect_uri"] == "https://gateway.test/auth/callback"
    assert set(request.form) == {"grant_type", "code", "redirect_uri", "code_verifier"}
    for each in case.odd.requests:
        assert "code" not in urlsplit(each.target).query
        assert "cookie" not in each.headers


async def test_the_callback_address_is_the_configured_one_whatever_the_request_says(case: Case) -> None:
    x = exchange(
        "/auth/login?redirect=/app",
        {"x-forwarded-host": "evil.example", "x-forwarded-proto": "http", "forwarded": "host=evil.example"},
        host="evil.example",
        scheme="http",
    )
    reply = await case.stack.login(x)
    query = parse_qs(urlsplit(dict(reply.headers)[b"location"].decode()).query)
    assert query["redirect_uri"] == ["https://gateway.test/auth/callback"]
    assert b"; Secure" in x.response_headers[0][1]


@pytest.mark.parametrize(("public_url", "secure"), [("https://gateway.test", True), ("http://localhost:8080", False)])
async def test_cookies_are_secure_unless_the_public_url_is_http(case: Case, public_url: str, secure: bool) -> None:
    async with Stack(case.odd.origin, public_url=public_url) as stack:
        login = exchange("/auth/login")
        await stack.login(login)
        dead = exchange("/app", {"cookie": "gateway_session=x"}, mode="session")
        with pytest.raises(GatewayError):
            await stack.parts.step(dead)
        lines = [value for x in (login, dead) for _, value in x.response_headers]
        assert [line.endswith(b"; Secure") for line in lines] == [secure, secure]


async def test_a_store_that_is_away_is_503_and_gives_no_cookie(case: Case) -> None:
    async def away(_: object) -> None:
        raise StateUnavailable("no answer")

    case.stack.state.create_session = away  # type: ignore[method-assign,assignment]
    callback = await case.start()
    case.gives(signed(case.claims(), ec_key("a")))
    assert await case._finish(callback) == "session_store_unavailable"
    assert case.stack.logins("unavailable") == 1
    assert "gateway_session" not in case.user.browser


@pytest.mark.parametrize("operation", ["read_session", "delete_session"])
async def test_a_store_that_is_away_clears_no_cookie_at_logout_or_session(case: Case, operation: str) -> None:
    async def away(_: object) -> None:
        raise StateUnavailable("no answer")

    setattr(case.stack.state, operation, away)
    endpoint = case.stack.session if operation == "read_session" else case.stack.logout
    x = exchange("/auth/x", {"cookie": "gateway_session=" + "A" * 43})
    with pytest.raises(GatewayError) as refused:
        await endpoint(x)
    assert refused.value.code == "session_store_unavailable"
    assert x.response_headers == []


async def test_a_page_of_the_public_url_may_log_out_behind_a_proxy_that_renames_the_host(case: Case) -> None:
    x = exchange("/auth/logout", {"origin": "https://gateway.test"}, method="POST", host="internal", scheme="http")
    assert (await case.stack.logout(x)).status == 302
    for origin in ("https://internal", "http://gateway.test"):
        x = exchange("/auth/logout", {"origin": origin}, method="POST", host="internal", scheme="http")
        with pytest.raises(GatewayError) as refused:
            await case.stack.logout(x)
        assert refused.value.code == "cross_site_request"


async def test_a_refused_login_limit_starts_nothing(case: Case) -> None:
    async def refuse(_: object, part: str) -> None:
        raise GatewayError("too_many_requests")

    case.stack.login_limit = refuse
    assert await case.user.refusal(case.stack.login, "/auth/login") == "too_many_requests"
    assert case.user.browser.jar == {}
    assert case.stack.logins("started") == 0


async def test_one_state_cookie_sent_again_and_again_does_not_turn_the_gateway_on_its_provider(case: Case) -> None:
    """A cookie cannot be taken back, so each callback with it would ask the provider: they are counted."""
    counted: list[str] = []

    async def one_callback(_: object, part: str) -> None:
        counted.append(part)
        if counted.count("callback") > 1:
            raise GatewayError("too_many_requests")

    callback = await case.start()
    captured = dict(case.user.browser.jar)
    case.stack.login_limit = one_callback
    case.gives("no token at all")
    assert await case.user.refusal(case.stack.callback, callback) == "login_failed"
    asked = len(case.odd.requests)
    for _ in range(3):
        case.user.browser.jar = dict(captured)
        assert await case.user.refusal(case.stack.callback, callback) == "too_many_requests"
        assert case.user.browser.jar == captured  # the page may be loaded again when the time is over
    assert len(case.odd.requests) == asked


async def test_a_callback_that_asks_nobody_is_not_counted(case: Case) -> None:
    async def refuse(_: object, part: str) -> None:
        raise AssertionError(part)

    callback = await case.start()
    case.stack.login_limit = refuse
    for query in ("state=unknown&code=x", f"{callback.partition('&')[2]}&error=access_denied"):
        assert await case.user.refusal(case.stack.callback, f"/auth/callback?{query}") == "login_failed"


async def test_a_query_of_any_kind_is_answered(case: Case) -> None:
    many = "&".join(f"a{number}=b" for number in range(500))
    deep = "redirect=" + "%25" * 900
    for query in (
        many,
        deep,
        "redirect=%",
        "redirect=%ff%fe",
        "redirect",
        "=&=&",
        "%00=%00",
        "redirect=/a&redirect=/b",
    ):
        x = exchange(f"/auth/login?{query}")
        assert (await case.stack.login(x)).status == 302
        assert await case.user.refusal(case.stack.callback, f"/auth/callback?{query}") == "login_failed"


async def test_an_endpoint_with_line_breaks_in_the_metadata_reaches_no_location(case: Case) -> None:
    async def behave(request: OddRequest, write: Write) -> None:
        body = b'{"issuer":"%s","authorization_endpoint":"%s/a\\r\\nset-cookie: x","token_endpoint":"x","jwks_uri":"x"}'
        origin = case.odd.origin.encode()
        await answers(body % (origin, origin))(request, write)

    case.odd.behaviours["/.well-known/openid-configuration"] = behave
    assert await case.user.refusal(case.stack.login, "/auth/login") == "identity_provider_unavailable"
