"""Browser logins against the certified provider: the endpoints, the step and the cookies together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from urllib.parse import parse_qs, urlencode, urlsplit

import orjson
import pytest
import trustme
from joserfc.jwk import RSAKey

from common.settings.secret import Secret
from dataplane.errors import GatewayError
from dataplane.oidc.login import PendingLogin
from tests.support.auth_harness import PAGE, exchange, location
from tests.support.auth_stack import PUBLIC_URL, Stack, User, client_key
from tests.support.certificates import issue
from tests.support.oidc_provider import RealProvider
from tests.support.processes import Children

pytestmark = pytest.mark.real


CERTIFIED = issue("gateway", key_type=trustme.KeyType.RSA)


@pytest.fixture(scope="module")
def provider() -> Iterator[RealProvider]:
    certified = {**RSAKey.import_key(CERTIFIED.key.decode()).as_dict(private=False), "use": "sig"}
    with Children() as children:
        yield RealProvider(children, PUBLIC_URL, client_keys=[client_key()[1], certified]).start()


@pytest.fixture
async def stack(provider: RealProvider) -> AsyncIterator[Stack]:
    async with Stack(provider.issuer) as built:
        yield built


@pytest.fixture
async def user(stack: Stack) -> AsyncIterator[User]:
    async with User(stack) as somebody:
        yield somebody


async def test_a_page_is_reached_through_the_login(stack: Stack, user: User) -> None:
    went = await user.open("/projects/a%2Fb?tab=files&q=a+b")
    assert went == "/projects/a%2Fb?tab=files&q=a+b"
    assert user.seen is not None
    assert user.seen.subject == "alice"
    assert user.seen.email == "alice@example.test"
    assert user.seen.roles == ("reader", "writer")
    assert "gateway_oidc_state" not in user.browser
    assert (stack.logins("started"), stack.logins("completed")) == (1, 1)


@pytest.mark.parametrize("client_id", ["gateway", "gateway-rsa", "gateway-key"])
async def test_every_way_to_prove_the_client_works(provider: RealProvider, client_id: str) -> None:
    async with Stack(provider.issuer, client_id) as stack, User(stack) as user:
        assert await user.open("/app") == "/app"


async def test_a_key_with_its_certificate_proves_the_client(provider: RealProvider) -> None:
    key = Secret((CERTIFIED.key + CERTIFIED.chain).decode())
    async with Stack(provider.issuer, "gateway-key", oidc_client_key=key) as stack, User(stack) as user:
        assert await user.open("/app") == "/app"


@pytest.mark.parametrize("client_id", ["gateway", "gateway-rsa"])
async def test_a_wrong_client_secret_ends_the_login(provider: RealProvider, client_id: str) -> None:
    async with Stack(provider.issuer, client_id, oidc_client_secret=Secret("wrong")) as stack, User(stack) as user:
        callback = await user.callback_of(await user.login("/app"))
        assert await user.refusal(stack.callback, callback) == "login_failed"
        assert "gateway_session" not in user.browser
        assert stack.logins("failed") == 1


async def test_roles_are_read_at_a_dotted_path(provider: RealProvider) -> None:
    async with Stack(provider.issuer, oidc_roles_claim="realm.groups") as stack, User(stack) as user:
        await user.open("/app")
        assert user.seen is not None
        assert user.seen.roles == ("staff",)


async def test_five_tabs_that_finish_in_any_order_all_end_somewhere_sane(stack: Stack, user: User) -> None:
    """Four logins are remembered; the fifth pushes the oldest out, whose tab then finds the session of the others."""
    addresses = [await user.login(f"/page/{number}") for number in range(5)]
    callbacks = [await user.callback_of(address) for address in addresses]
    for number in (3, 1, 4, 2):
        assert await user.finish(callbacks[number]) == f"/page/{number}"
    assert "gateway_oidc_state" not in user.browser
    assert await user.finish(callbacks[0]) == "/"
    assert await user.finish(callbacks[3]) == "/"
    assert await user.open("/page/0") == "/page/0"
    assert stack.logins("completed") == 4


async def test_the_tab_that_was_pushed_out_starts_again_when_it_finishes_first(stack: Stack, user: User) -> None:
    addresses = [await user.login(f"/page/{number}") for number in range(5)]
    callbacks = [await user.callback_of(address) for address in addresses]
    assert await user.refusal(stack.callback, callbacks[0]) == "login_failed"
    assert "gateway_oidc_state" in user.browser
    assert await user.finish(callbacks[4]) == "/page/4"
    assert await user.open("/page/0") == "/page/0"


async def test_a_replayed_callback_leads_to_the_session_that_is_there(stack: Stack, user: User) -> None:
    callback = await user.callback_of(await user.login("/app"))
    before = dict(user.browser.jar)
    assert await user.finish(callback) == "/app"
    session = user.browser.value("gateway_session")
    assert await user.finish(callback) == "/"
    assert user.browser.value("gateway_session") == session
    # With the old login cookie as well, the provider refuses the code, and nobody gets a session by it.
    user.browser.jar = before
    assert await user.refusal(stack.callback, callback) == "login_failed"
    assert "gateway_session" not in user.browser


async def test_a_replay_without_a_session_fails_and_takes_no_other_login_away(stack: Stack, user: User) -> None:
    first = await user.callback_of(await user.login("/first"))
    assert await user.finish(first) == "/first"
    del user.browser.jar["gateway_session"]
    second = await user.login("/second")
    assert await user.refusal(stack.callback, first) == "login_failed"
    assert await user.finish(await user.callback_of(second)) == "/second"


async def test_a_callback_in_another_browser_logs_nobody_in(stack: Stack, user: User) -> None:
    """Login CSRF: the answer to an attacker's login must not become the victim's session."""
    callback = await user.callback_of(await user.login("/app"))
    async with User(stack) as victim:
        assert await victim.refusal(stack.callback, callback) == "login_failed"
        own = await victim.login("/own")
        assert await victim.refusal(stack.callback, callback) == "login_failed"
        assert "gateway_session" not in victim.browser
        assert await victim.finish(await victim.callback_of(own)) == "/own"


async def test_a_login_gives_a_fresh_session_and_ends_the_one_before(stack: Stack, user: User) -> None:
    await user.open("/app")
    first = user.browser.cookie("/")
    await user.finish(await user.callback_of(await user.login("/app")))
    assert user.browser.cookie("/") != first
    x = exchange("/app", {**first, "accept": "application/json"}, mode="session")
    with pytest.raises(GatewayError):
        await stack.parts.step(x)


async def test_a_planted_session_is_replaced_by_the_login(stack: Stack, user: User) -> None:
    async with User(stack, "mallory") as mallory:
        await mallory.open("/")
        user.browser.jar["gateway_session"] = mallory.browser.jar["gateway_session"]
        await user.finish(await user.callback_of(await user.login("/app")))
        assert user.browser.value("gateway_session") != mallory.browser.value("gateway_session")
        assert await user.open("/app") == "/app"
        assert user.seen is not None
        assert user.seen.subject == "alice"


def changed(callback: str, **changes: str | None) -> str:
    """The callback with parameters replaced, or left out for None."""
    path, _, query = callback.partition("?")
    parameters = {**{name: values[0] for name, values in parse_qs(query).items()}, **changes}
    return path + "?" + urlencode({name: value for name, value in parameters.items() if value is not None})


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://evil.example"},
        {"iss": None},
        {"code": "made-up"},
        {"code": None},
        {"code": ""},
        {"error": "access_denied"},
        {"error": ""},
    ],
)
async def test_a_changed_answer_ends_this_login_and_no_other(
    stack: Stack, user: User, changes: dict[str, str | None]
) -> None:
    other = await user.login("/other")
    callback = await user.callback_of(await user.login("/app"))
    assert await user.refusal(stack.callback, changed(callback, **changes)) == "login_failed"
    assert "gateway_session" not in user.browser
    # Single use: the state is spent, also for the real answer.
    assert await user.refusal(stack.callback, callback) == "login_failed"
    assert await user.finish(await user.callback_of(other)) == "/other"


@pytest.mark.parametrize("state", [None, "", "x", "A" * 22])
async def test_an_unknown_state_removes_nothing(stack: Stack, user: User, state: str | None) -> None:
    callback = await user.callback_of(await user.login("/app"))
    jar = dict(user.browser.jar)
    assert await user.refusal(stack.callback, changed(callback, state=state)) == "login_failed"
    assert user.browser.jar == jar
    assert await user.finish(callback) == "/app"


async def test_a_repeated_parameter_has_no_value(stack: Stack, user: User) -> None:
    callback = await user.callback_of(await user.login("/app"))
    assert await user.refusal(stack.callback, callback + "&state=x") == "login_failed"
    assert await user.refusal(stack.callback, callback + "&code=x") == "login_failed"
    assert "gateway_session" not in user.browser


@pytest.mark.parametrize("name", ["nonce", "verifier"])
async def test_an_answer_to_another_attempt_ends_the_login(stack: Stack, user: User, name: str) -> None:
    callback = await user.callback_of(await user.login("/app"))
    (pending,) = stack.cookie.read([user.browser.value("gateway_oidc_state")], stack.now_s())
    values = {each: getattr(pending, each) for each in ("state", "nonce", "verifier", "redirect", "started_at_s")}
    swapped = PendingLogin(**{**values, name: "x" * 43})
    user.browser.take_line(stack.cookie.write([swapped]).decode())
    assert await user.refusal(stack.callback, callback) == "login_failed"
    assert "gateway_session" not in user.browser


async def test_a_login_that_takes_too_long_is_over(stack: Stack, user: User) -> None:
    callback = await user.callback_of(await user.login("/app"))
    stack.later_s = 601
    assert await user.refusal(stack.callback, callback) == "login_failed"


async def test_a_login_that_the_person_refuses_is_told(stack: Stack, user: User) -> None:
    address = await user.login("/app")
    state = parse_qs(urlsplit(address).query)["state"][0]
    refusal = f"/auth/callback?error=access_denied&state={state}&iss={stack.issuer}"
    assert await user.refusal(stack.callback, refusal) == "login_failed"
    assert stack.logins("failed") == 1


async def test_a_target_on_another_site_leads_home(user: User) -> None:
    for target in ("//evil.example", "/\\evil.example", "https://evil.example", "/%09/evil.example"):
        assert await user.finish(await user.callback_of(await user.login(target))) == "/"


async def test_the_session_is_shown_without_token_or_id(stack: Stack, user: User) -> None:
    assert await user.refusal(stack.session, "/auth/session") == "unauthorized"
    await user.open("/app")
    x = exchange("/auth/session", user.browser.cookie("/auth/session"))
    reply = await stack.session(x)
    shown = orjson.loads(reply.body)
    assert reply.status == 200
    assert set(shown) == {"subject", "email", "roles", "expiresAt", "idleExpiresAt"}
    assert (shown["subject"], shown["email"], shown["roles"]) == ("alice", "alice@example.test", ["reader", "writer"])
    assert shown["idleExpiresAt"] < shown["expiresAt"]
    assert user.browser.value("gateway_session").encode() not in reply.body
    assert b"eyJ" not in reply.body
    assert (b"cache-control", b"no-store") in reply.headers


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_the_logout_ends_the_session_here_and_at_the_provider(stack: Stack, user: User, method: str) -> None:
    await user.open("/app")
    held = user.browser.cookie("/")
    x = exchange("/auth/logout", {**held, "sec-fetch-site": "same-origin"}, method=method)
    went = location(await stack.logout(x))
    user.browser.take(x)
    assert "gateway_session" not in user.browser
    assert went.startswith(f"{stack.issuer}/session/end?")
    assert parse_qs(urlsplit(went).query) == {
        "client_id": ["gateway"],
        "post_logout_redirect_uri": [f"{PUBLIC_URL}/"],
    }
    with pytest.raises(GatewayError):
        await stack.parts.step(exchange("/app", held, mode="session"))
    assert await user.person.visit(went, until=PUBLIC_URL) == f"{PUBLIC_URL}/"
    # The provider asks who it is again, instead of letting the next person in.
    assert "gateway_session" not in user.browser
    assert await user.open("/app") == "/app"


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": f"{PUBLIC_URL}.evil.example", "sec-fetch-site": "same-origin"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_another_site_cannot_log_anybody_out(
    stack: Stack, user: User, method: str, headers: dict[str, str]
) -> None:
    await user.open("/app")
    x = exchange("/auth/logout", {**user.browser.cookie("/"), **headers}, method=method)
    with pytest.raises(GatewayError) as refused:
        await stack.logout(x)
    assert refused.value.code == "cross_site_request"
    assert x.response_headers == []
    assert await user.open("/app") == "/app"
    assert stack.logins("started") == 1


async def test_a_logout_without_a_session_is_a_logout(stack: Stack) -> None:
    x = exchange("/auth/logout", PAGE)
    assert location(await stack.logout(x)).startswith(f"{stack.issuer}/session/end?")


async def test_two_hundred_logins_that_nobody_finishes_leave_one_small_cookie(stack: Stack, user: User) -> None:
    for number in range(200):
        await user.login(f"/page/{number}")
    assert list(user.browser.jar) == ["gateway_oidc_state"]
    assert len(user.browser.value("gateway_oidc_state")) < 4_000
    assert stack.logins("started") == 200


async def test_no_secret_of_a_login_is_in_an_address_answer_or_log(stack: Stack, user: User) -> None:
    address = await user.login("/app")
    (pending,) = stack.cookie.read([user.browser.value("gateway_oidc_state")], stack.now_s())
    callback = await user.callback_of(address)
    code = parse_qs(urlsplit(callback).query)["code"][0]
    assert await user.finish(callback) == "/app"
    session = user.browser.value("gateway_session")
    assert await user.refusal(stack.callback, changed(callback, state="x"), fresh=True) == "login_failed"
    told = b"".join(stack.log_lines).decode() + user.told()
    for secret in (code, pending.verifier, pending.nonce, session, stack.settings.session_secret.reveal()):
        assert secret not in told
    assert pending.verifier not in address
    assert session not in address
