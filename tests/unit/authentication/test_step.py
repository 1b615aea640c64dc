"""The step picks the credential of the route's mode, judges that one alone, and says how it failed (§5.1)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from common.routetable.compiled import AuthMode
from common.state.ports import StateUnavailable
from dataplane.errors import GatewayError
from dataplane.exchange import Exchange
from dataplane.oidc.errors import ProviderUnavailable
from dataplane.replies import Answered
from tests.support.auth_harness import PAGE, Parts, Sent, exchange, location

CHALLENGE = (b"www-authenticate", b"Bearer")


@pytest.fixture
async def parts() -> AsyncIterator[Parts]:
    async with Parts() as built:
        yield built


async def outcome(parts: Parts, x: Exchange) -> str:
    """`ok`, the code of the error, or where the redirect leads."""
    try:
        await parts.step(x)
    except GatewayError as error:
        return error.code
    except Answered as answered:
        return location(answered.reply)
    return "ok"


async def refused(parts: Parts, x: Exchange) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        await parts.step(x)
    assert caught.value.code == "unauthorized"
    assert x.principal is None
    return caught.value


def bearer(token: bytes | str, scheme: str = "Bearer") -> dict[str, str]:
    return {"authorization": f"{scheme} {token.decode() if isinstance(token, bytes) else token}"}


async def test_a_route_without_authentication_takes_everybody_as_nobody(parts: Parts) -> None:
    session = await parts.session_cookie("alice")
    for headers in ({}, session, bearer("junk"), bearer(parts.token()), {"cookie": "gateway_session=junk"}):
        x = exchange("/", headers, mode="none")
        assert await outcome(parts, x) == "ok"
        assert x.principal is None
        assert x.session is None
        assert x.response_headers == []


async def test_the_session_cookie_authenticates(parts: Parts) -> None:
    for mode in ("session", "any"):
        x = exchange("/", await parts.session_cookie("alice"), mode=mode)
        assert await outcome(parts, x) == "ok"
        assert x.principal is not None
        assert (x.principal.subject, x.principal.roles, x.principal.credential) == ("alice", ("reader",), "session")
        assert x.session is not None
        assert x.session.subject == "alice"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
@pytest.mark.parametrize("mode", ["jwt-only", "any"])
async def test_a_bearer_token_authenticates(parts: Parts, mode: AuthMode, scheme: str) -> None:
    x = exchange("/", bearer(parts.token(), scheme), mode=mode)
    assert await outcome(parts, x) == "ok"
    assert x.principal is not None
    assert (x.principal.subject, x.principal.credential) == ("alice", "bearer")
    assert x.session is None


async def test_a_session_route_ignores_authorization_whatever_it_is(parts: Parts) -> None:
    session = await parts.session_cookie("alice")
    for sent in (parts.token(sub="mallory").decode(), "junk"):
        x = exchange("/", {**session, **bearer(sent)}, mode="session")
        assert await outcome(parts, x) == "ok"
        assert x.principal is not None
        assert x.principal.subject == "alice"
    assert await outcome(parts, exchange("/", bearer(parts.token()), mode="session")) == "unauthorized"


async def test_a_jwt_route_ignores_cookies(parts: Parts) -> None:
    session = await parts.session_cookie("alice")
    x = exchange("/", session, mode="jwt-only")
    error = await refused(parts, x)
    assert error.headers == (CHALLENGE,)


@pytest.mark.parametrize(
    "authorization", ["junk", "Bearer", "Bearer ", "Basic YTpi", "Bearer junk", "", "Bearer a.b.c", "bearertoken a.b.c"]
)
async def test_a_bad_authorization_is_never_replaced_by_a_good_session(parts: Parts, authorization: str) -> None:
    headers = {**await parts.session_cookie("alice"), "authorization": authorization, **PAGE}
    x = exchange("/", headers, mode="any")
    assert (await refused(parts, x)).headers == (CHALLENGE,)
    assert x.response_headers == []
    assert parts.failures("invalid") == 1


@pytest.mark.parametrize("mode", ["jwt-only", "any"])
async def test_two_authorization_headers_are_none(parts: Parts, mode: AuthMode) -> None:
    token = f"Bearer {parts.token().decode()}"
    await refused(parts, exchange("/", [("authorization", token), ("authorization", token)], mode=mode))
    await refused(parts, exchange("/", [("authorization", token), ("authorization", "Basic YTpi")], mode=mode))


async def test_an_expired_token_is_counted_as_expired(parts: Parts) -> None:
    token = parts.token()
    parts.time.pass_s(310)
    await refused(parts, exchange("/", bearer(token), mode="any"))
    assert parts.failures("expired") == 1


@pytest.mark.parametrize(
    ("mode", "goes"), [("none", "ok"), ("session", "login"), ("jwt-only", "unauthorized"), ("any", "login")]
)
async def test_a_browser_without_credential_goes_where_the_table_says(parts: Parts, mode: AuthMode, goes: str) -> None:
    went = await outcome(parts, exchange("/app?a=b", PAGE, mode=mode))
    assert went == ("/auth/login?redirect=%2Fapp%3Fa%3Db" if goes == "login" else goes)


async def test_a_script_without_credential_gets_401_and_no_login(parts: Parts) -> None:
    modes: tuple[tuple[AuthMode, bool], ...] = (("session", False), ("any", True), ("jwt-only", True))
    for mode, challenged in modes:
        x = exchange("/", {"accept": "application/json", "sec-fetch-mode": "cors"}, mode=mode)
        error = await refused(parts, x)
        assert (CHALLENGE in error.headers) == challenged
        assert x.response_headers == []
    assert parts.failures("missing") == 3


@pytest.mark.parametrize(
    "target",
    ["/", "/a/b?c=d&e=f%20g", "/a%2Fb", "/?x=%26", "/a;b=c", "/" + "a" * 2_000],
)
async def test_the_page_that_was_opened_is_where_the_login_leads_back_to(parts: Parts, target: str) -> None:
    went = await outcome(parts, exchange(target, PAGE, mode="session"))
    assert went.startswith("/auth/login?redirect=")
    assert parse_qs(urlsplit(went).query)["redirect"] == [target]


async def test_a_page_with_an_overlong_address_leads_back_home(parts: Parts) -> None:
    assert await outcome(parts, exchange("/" + "a" * 5_000, PAGE, mode="session")) == "/auth/login?redirect=%2F"


async def test_a_dead_session_leads_to_the_login_and_its_cookie_goes(parts: Parts) -> None:
    session = await parts.session_cookie("alice")
    parts.time.pass_s(86_401)
    cleared = [(b"set-cookie", b"gateway_session=; HttpOnly; SameSite=Lax; Path=/; Max-Age=0; Secure")]
    page = exchange("/", {**session, **PAGE}, mode="session")
    assert await outcome(parts, page) == "/auth/login?redirect=%2F"
    script = exchange("/", session, mode="any")
    await refused(parts, script)
    assert page.response_headers == script.response_headers == cleared
    assert parts.failures("expired") == 2


async def test_junk_in_the_session_cookie_is_invalid(parts: Parts) -> None:
    await refused(parts, exchange("/", {"cookie": "gateway_session=junk"}, mode="session"))
    assert parts.failures("invalid") == 1


async def test_a_name_that_is_not_the_gateways_has_no_login_to_send_to(parts: Parts) -> None:
    x = exchange("/", PAGE, mode="session", host="console.other.test")
    await refused(parts, x)


async def test_use_extends_the_session_and_sends_its_cookie_again(parts: Parts) -> None:
    session = await parts.session_cookie("alice")
    parts.time.pass_s(61)
    x = exchange("/", session, mode="session")
    assert await outcome(parts, x) == "ok"
    ((name, line),) = x.response_headers
    assert name == b"set-cookie"
    assert line.startswith(session["cookie"].encode() + b"; HttpOnly")
    again = exchange("/", session, mode="session")
    assert await outcome(parts, again) == "ok"
    assert again.response_headers == []


@pytest.mark.parametrize("operation", ["read_session", "touch_session"])
@pytest.mark.parametrize("headers", [{}, PAGE])
async def test_a_store_that_is_away_is_503_and_clears_nothing(parts: Parts, operation: str, headers: Sent) -> None:
    session = await parts.session_cookie("alice")
    parts.time.pass_s(61)

    class Away:
        """Asked and not awaited it does nothing, as an operation that was put on its way."""

        def __await__(self) -> Iterator[None]:
            raise StateUnavailable("no answer")

    setattr(parts.state, operation, lambda *_: Away())
    x = exchange("/", {**session, **dict(headers)}, mode="any")
    assert await outcome(parts, x) == "session_store_unavailable"
    assert x.principal is None
    assert x.response_headers == []
    assert parts.metrics.auth_failures.value("app", "missing") == 0


async def test_a_provider_that_is_away_is_503_and_no_bad_credential(parts: Parts) -> None:
    token = parts.token()

    async def away() -> None:
        raise ProviderUnavailable("away")

    parts.fetch = away
    x = exchange("/", bearer(token), mode="any")
    assert await outcome(parts, x) == "identity_provider_unavailable"
    assert x.principal is None
    assert sum(parts.failures(reason) for reason in ("missing", "invalid", "expired")) == 0


async def test_authentication_without_a_route_refuses(parts: Parts) -> None:
    x = exchange("/", await parts.session_cookie("alice"))
    with pytest.raises(AttributeError, match="matched"):
        await parts.step(x)
    assert x.principal is None


async def test_no_refusal_names_the_credential(parts: Parts) -> None:
    token = parts.token(aud="another").decode()
    error = await refused(parts, exchange("/", bearer(token), mode="any"))
    session = (await parts.session_cookie("alice"))["cookie"].partition("=")[2]
    parts.time.pass_s(86_401)
    dead = await refused(parts, exchange("/", {"cookie": f"gateway_session={session}"}, mode="any"))
    for text in (error.detail, str(error), repr(error), dead.detail, str(dead)):
        assert token not in text
        assert session not in text
