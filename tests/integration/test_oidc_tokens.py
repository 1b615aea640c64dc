"""Bearer tokens of the certified provider, while its keys change and while it is away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dataplane.errors import GatewayError
from tests.support.auth_harness import exchange
from tests.support.auth_stack import PUBLIC_URL, Stack, User
from tests.support.oidc_provider import AUDIENCE, RealProvider
from tests.support.ports import free_port
from tests.support.processes import Children

pytestmark = pytest.mark.real


@pytest.fixture
def provider(children: Children) -> RealProvider:
    """One for each test: they rotate its keys and take it away."""
    return RealProvider(children, PUBLIC_URL, port=free_port()).start()


async def test_access_tokens_of_both_kinds_of_key_are_accepted(provider: RealProvider) -> None:
    async with Stack(provider.issuer) as stack:
        assert await stack.bearer(await provider.machine_token()) == "ok"
    async with Stack(provider.issuer, oidc_audience=f"{AUDIENCE}:rsa") as stack:
        assert await stack.bearer(await provider.machine_token(f"{AUDIENCE}:rsa")) == "ok"


async def test_an_access_token_for_another_audience_or_issuer_is_refused(provider: RealProvider) -> None:
    token = await provider.machine_token()
    async with Stack(provider.issuer, oidc_audience="urn:other") as stack:
        assert await stack.bearer(token) == "unauthorized"
    async with Stack(provider.issuer) as stack:
        stack.parts.step._tokens._rules = replace(stack.parts.step._tokens._rules, issuer="https://other.example")
        assert await stack.bearer(token) == "unauthorized"


async def test_the_id_token_of_a_login_is_no_bearer_token(provider: RealProvider) -> None:
    """It travels through the browser; whoever finds it must not be able to call with it (§5.4)."""
    async with Stack(provider.issuer, oidc_audience="gateway") as stack, User(stack) as user:
        flow = stack.parts.endpoints["/auth/callback"][1].__self__._flow  # type: ignore[attr-defined]
        real, caught = flow._http.post_form, []

        async def post_form(*args: object) -> object:
            answer = await real(*args)
            caught.append(answer.json_object()["id_token"].encode())
            return answer

        flow._http.post_form = post_form
        await user.open("/app")
        assert len(caught) == 1
        assert await stack.bearer(caught[0]) == "unauthorized"


async def test_a_rotated_key_works_at_once_and_a_withdrawn_one_not_after_the_refresh(provider: RealProvider) -> None:
    async with Stack(provider.issuer) as stack:
        old = await provider.machine_token()
        assert await stack.bearer(old) == "ok"
        await provider.rotate()
        assert await stack.bearer(await provider.machine_token()) == "ok"
        assert await stack.bearer(old) == "ok"
        await provider.rotate(withdraw=True)
        stack.later_s = 31  # the provider is asked about unknown keys at most every 30 s
        assert await stack.bearer(await provider.machine_token()) == "ok"
        assert await stack.bearer(old) == "unauthorized"


async def test_a_withdrawn_key_is_refused_once_the_key_set_is_old(provider: RealProvider) -> None:
    async with Stack(provider.issuer, oidc_jwks_cache_s=60.0) as stack:
        old = await provider.machine_token()
        assert await stack.bearer(old) == "ok"
        await provider.rotate(withdraw=True)
        stack.later_s = 61
        assert await stack.bearer(old) == "unauthorized"


async def test_a_provider_that_is_away_at_start_is_503_until_it_is_there(provider: RealProvider) -> None:
    token = await provider.machine_token()
    provider.stop()
    async with Stack(provider.issuer) as stack, User(stack) as user:
        assert await stack.bearer(token) == "identity_provider_unavailable"
        assert await user.refusal(stack.login, "/auth/login?redirect=/app") == "identity_provider_unavailable"
        assert user.browser.jar == {}
        assert stack.logins("unavailable") == 1
        provider.start()
        stack.later_s = 2
        assert await stack.bearer(await provider.machine_token()) == "ok"
        assert await user.open("/app") == "/app"


async def test_an_outage_says_when_to_try_again(provider: RealProvider) -> None:
    provider.stop()
    async with Stack(provider.issuer) as stack:
        with pytest.raises(GatewayError) as refused:
            await stack.login(exchange("/auth/login"))
        assert (refused.value.spec.status, refused.value.retry_after_s) == (503, 5)


async def test_known_keys_and_open_sessions_outlive_an_outage(provider: RealProvider) -> None:
    async with Stack(provider.issuer, oidc_jwks_cache_s=60.0, oidc_jwks_stale_s=100.0) as stack, User(stack) as user:
        token = await provider.machine_token()
        assert await stack.bearer(token) == "ok"
        await user.open("/app")
        provider.stop()
        for later, code in ((61, "ok"), (150, "ok"), (161, "identity_provider_unavailable")):
            stack.later_s = later
            assert await stack.bearer(token) == code, later
            assert await user.open("/app") == "/app"


async def test_a_provider_that_goes_away_during_a_login_fails_that_login_alone(provider: RealProvider) -> None:
    async with Stack(provider.issuer) as stack, User(stack) as user:
        callback = await user.callback_of(await user.login("/app"))
        provider.stop()
        assert await user.refusal(stack.callback, callback) == "identity_provider_unavailable"
        assert "gateway_session" not in user.browser
        assert "gateway_oidc_state" not in user.browser
        assert stack.logins("unavailable") == 1
        provider.start()
        stack.later_s = 5
        async with User(stack) as again:
            assert await again.open("/app") == "/app"


async def test_a_logout_during_an_outage_is_a_logout_here(provider: RealProvider) -> None:
    async with Stack(provider.issuer) as stack, User(stack) as user:
        await user.open("/app")
        provider.stop()
        stack.later_s = 20_000  # beyond cache and grace: nothing is known of the provider any more
        x = exchange("/auth/logout", user.browser.cookie("/"))
        reply = await stack.logout(x)
        assert dict(reply.headers)[b"location"] == b"/"
        user.browser.take(x)
        assert "gateway_session" not in user.browser


async def test_an_issuer_that_is_written_otherwise_is_told_with_both_spellings(provider: RealProvider) -> None:
    async with Stack(provider.issuer + "/") as stack:
        with pytest.raises(GatewayError) as refused:
            await stack.login(exchange("/auth/login"))
        assert refused.value.code == "identity_provider_unavailable"
        assert repr(provider.issuer) in refused.value.detail
        assert repr(provider.issuer + "/") in refused.value.detail
        assert repr(provider.issuer + "/").encode() in b"".join(stack.log_lines)
