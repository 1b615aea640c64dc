"""A verified bearer token costs no second signature check, and is judged anew in everything that can change."""

from __future__ import annotations

from typing import Any

import pytest

from common.identity.principal import Principal
from dataplane.oidc import tokens as tokens_module
from dataplane.oidc.claims import BearerRules
from dataplane.oidc.errors import ProviderUnavailable, TokenRefused
from dataplane.oidc.keys import ProviderKeys
from dataplane.oidc.tokens import BearerTokens
from tests.support.auth_harness import Time, log_into
from tests.support.jose import Key, ec_key, key_set, rsa_key, signed

ISSUER = "https://id.example.com"


class Case:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, remembered_max: int = 100) -> None:
        self.time = Time()
        self.document = key_set(ec_key("a"), rsa_key("r"))
        self.fetched = 0
        self.away = False
        self.checks = 0
        self.keys = ProviderKeys(self._fetch, cache_s=600, stale_s=3600, clock=self.time.now_s, log=log_into([]))
        self.tokens = BearerTokens(
            self.keys,
            BearerRules(ISSUER, "api", 86_400),
            roles_claim="roles",
            now_s=self.time.now_s,
            remembered_max=remembered_max,
        )
        real = tokens_module.payload_signed_by

        def counted(*args: Any) -> Any:
            self.checks += 1
            return real(*args)

        monkeypatch.setattr(tokens_module, "payload_signed_by", counted)

    async def _fetch(self) -> dict[str, Any]:
        self.fetched += 1
        if self.away:
            raise ProviderUnavailable("away")
        return self.document

    def token(self, key: Key | None = None, algorithm: str = "ES256", **changes: object) -> bytes:
        now = self.time.now_s()
        claims = {"iss": ISSUER, "aud": "api", "sub": "alice", "iat": now, "exp": now + 300, **changes}
        return signed(claims, key or ec_key("a"), algorithm)


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> Case:
    return Case(monkeypatch)


async def test_a_caller_is_who_the_token_names(case: Case) -> None:
    token = case.token(email="alice@example.test", roles=["reader"])
    assert await case.tokens.verify(token) == Principal("alice", "alice@example.test", ("reader",), "bearer")


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256"])
async def test_every_accepted_rsa_algorithm_is_verified(case: Case, algorithm: str) -> None:
    assert (await case.tokens.verify(case.token(rsa_key("r"), algorithm))).subject == "alice"


async def test_es384_is_verified(case: Case) -> None:
    case.document = key_set(ec_key("big", "P-384"))
    assert (await case.tokens.verify(case.token(ec_key("big", "P-384"), "ES384"))).subject == "alice"


async def test_a_repeated_token_is_verified_once(case: Case) -> None:
    token = case.token()
    assert {(await case.tokens.verify(token)).subject for _ in range(20)} == {"alice"}
    assert case.checks == 1


async def test_a_remembered_token_still_expires(case: Case) -> None:
    token = case.token()
    await case.tokens.verify(token)
    case.time.pass_s(304.9)
    await case.tokens.verify(token)
    case.time.pass_s(0.1)
    for _ in range(2):
        with pytest.raises(TokenRefused) as refused:
            await case.tokens.verify(token)
        assert refused.value.reason == "expired"


async def test_a_refused_token_is_not_remembered_as_good_or_bad(case: Case) -> None:
    token = case.token(nbf=case.time.now_s() + 60)
    with pytest.raises(TokenRefused):
        await case.tokens.verify(token)
    case.time.pass_s(60)
    assert (await case.tokens.verify(token)).subject == "alice"


async def test_a_withdrawn_key_is_refused_after_the_refresh_even_for_a_remembered_token(case: Case) -> None:
    token = case.token(exp=case.time.now_s() + 3_000)
    await case.tokens.verify(token)
    case.document = key_set(ec_key("b"))
    case.time.pass_s(600)
    with pytest.raises(TokenRefused):
        await case.tokens.verify(token)


async def test_a_refresh_that_brings_the_same_keys_forgets_nothing(case: Case) -> None:
    token = case.token(exp=case.time.now_s() + 3_000)
    await case.tokens.verify(token)
    case.time.pass_s(600)
    await case.tokens.verify(token)
    assert (case.fetched, case.checks) == (2, 1)


async def test_a_rotated_key_works_at_once_and_the_old_one_while_it_is_published(case: Case) -> None:
    old = case.token()
    await case.tokens.verify(old)
    case.document = key_set(ec_key("b"), ec_key("a"))
    assert (await case.tokens.verify(case.token(ec_key("b")))).subject == "alice"
    assert (await case.tokens.verify(old)).subject == "alice"
    assert case.fetched == 2


async def test_known_keys_serve_during_an_outage_and_then_nobody_can_say(case: Case) -> None:
    token = case.token(exp=case.time.now_s() + 80_000)
    await case.tokens.verify(token)
    case.away = True
    case.time.pass_s(4_199)
    assert (await case.tokens.verify(token)).subject == "alice"
    assert (await case.tokens.verify(case.token(sub="bob"))).subject == "bob"
    case.time.pass_s(1)
    with pytest.raises(ProviderUnavailable):
        await case.tokens.verify(token)


async def test_without_any_key_a_token_cannot_be_judged(case: Case) -> None:
    case.away = True
    with pytest.raises(ProviderUnavailable):
        await case.tokens.verify(case.token())
    case.away = False
    case.time.pass_s(2)
    assert (await case.tokens.verify(case.token())).subject == "alice"


async def test_a_token_without_kid_is_verified_by_a_key_that_fits(case: Case) -> None:
    case.document = key_set(*(ec_key(f"k{number}") for number in range(7)), ec_key("a"))
    claims = case.token()
    assert (await case.tokens.verify(claims)).subject == "alice"
    now = case.time.now_s()
    full = {"iss": ISSUER, "aud": "api", "sub": "bob", "iat": now, "exp": now + 300}
    assert (await case.tokens.verify(signed(full, ec_key("a"), header={"kid": None}))).subject == "bob"


async def test_what_is_remembered_is_bounded_and_the_one_used_longest_ago_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = Case(monkeypatch, remembered_max=3)
    tokens = [case.token(sub=f"s{number}") for number in range(4)]
    for token in (*tokens[:3], tokens[0], tokens[3]):
        await case.tokens.verify(token)
    assert case.checks == 4
    for token in (tokens[0], tokens[2], tokens[3]):
        await case.tokens.verify(token)
    assert case.checks == 4
    await case.tokens.verify(tokens[1])
    assert case.checks == 5
    assert len(case.tokens._remembered) == 3
