"""Which keys of a key set are used, and when the set is fetched anew."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dataplane.oidc.errors import ProviderUnavailable
from dataplane.oidc.keys import KEYS_WITHOUT_KID_MAX, ProviderKeys, read_key_set
from tests.support.auth_harness import Time, log_into
from tests.support.jose import ec_key, key_set, public_jwk, rsa_key


def kids(document: dict[str, Any]) -> list[str | None]:
    return [key.kid for key in read_key_set(document).keys]


@pytest.mark.parametrize(
    "document", [{}, {"keys": []}, {"keys": None}, {"keys": {"a": 1}}, {"keys": "x"}, {"error": 1}]
)
def test_a_document_without_keys_is_broken(document: dict[str, Any]) -> None:
    with pytest.raises(ProviderUnavailable):
        read_key_set(document)


def test_keys_serve_the_algorithms_of_their_kind() -> None:
    keys = read_key_set(key_set(ec_key("p256"), ec_key("p384", "P-384"), rsa_key("rsa")))
    served = {key.kid: set(key.algorithms) for key in keys.keys}
    assert served == {"p256": {"ES256"}, "p384": {"ES384"}, "rsa": {"RS256", "RS384", "RS512", "PS256"}}


def test_a_key_that_names_its_algorithm_serves_no_other() -> None:
    keys = read_key_set(key_set(public_jwk(rsa_key(), alg="PS256")))
    assert [key.algorithms for key in keys.keys] == [{"PS256"}]
    assert keys.fitting("RS256", "a-rsa") == ()


UNUSABLE: dict[str, Any] = {
    "another use": public_jwk(ec_key(), use="enc"),
    "no use is named by null": {**public_jwk(ec_key()), "use": None},
    "operations without verify": public_jwk(ec_key(), key_ops=["sign"]),
    "operations of another kind": public_jwk(ec_key(), key_ops="verify"),
    "a symmetric key": {"kty": "oct", "k": "c2VjcmV0", "kid": "o"},
    "another curve": public_jwk(ec_key("p521", "P-521")),
    "a point that is not on the curve": {**public_jwk(ec_key()), "x": public_jwk(ec_key("b"))["x"]},
    "a missing coordinate": public_jwk(ec_key(), y=None),
    "an algorithm that is not accepted": public_jwk(ec_key(), alg="ES512"),
    "an algorithm of another kind": public_jwk(ec_key(), alg="RS256"),
    "an algorithm that is no text": public_jwk(ec_key(), alg=["ES256"]),
    "a kid that is no text": public_jwk(ec_key(), kid=7),
    "no kind": public_jwk(ec_key(), kty=None),
    "an unknown kind": public_jwk(ec_key(), kty="XX"),
    "a kind that is no text": public_jwk(ec_key(), kty=["EC"]),
    "a modulus that is no text": public_jwk(rsa_key(), n=5),
    "a modulus that is not base64": public_jwk(rsa_key(), n="!!!"),
    "an empty modulus": public_jwk(rsa_key(), n=""),
    "an even exponent": public_jwk(rsa_key(), e="Ag"),
    "a short modulus": public_jwk(rsa_key(), n=public_jwk(rsa_key())["n"][:170]),
    "a huge modulus": public_jwk(rsa_key(), n=public_jwk(rsa_key())["n"] * 5),
    "an Edwards key": {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "kid": "e"},
    "a text": "key",
    "null": None,
    "a number": 5,
}


@pytest.mark.parametrize("key", UNUSABLE.values(), ids=UNUSABLE)
def test_a_key_that_cannot_be_used_is_skipped(key: Any) -> None:
    assert kids({"keys": [key, public_jwk(ec_key("good"))]}) == ["good"]


def test_a_key_set_of_unusable_keys_is_a_key_set() -> None:
    assert kids({"keys": [UNUSABLE["a symmetric key"]]}) == []


def test_a_private_key_that_is_published_serves_as_its_public_half() -> None:
    jwk = {**ec_key().as_dict(private=True), "use": "sig"}
    (key,) = read_key_set({"keys": [jwk]}).keys
    assert not key.key.is_private


def test_keys_of_one_id_are_all_tried() -> None:
    document = key_set(public_jwk(ec_key("x"), kid="same"), public_jwk(ec_key("y"), kid="same"))
    assert len(read_key_set(document).fitting("ES256", "same")) == 2


def test_a_token_without_kid_is_tried_against_at_most_eight_keys() -> None:
    keys = read_key_set(key_set(rsa_key(), *(ec_key(f"k{number}") for number in range(12))))
    fitting = keys.fitting("ES256", None)
    assert len(fitting) == KEYS_WITHOUT_KID_MAX == 8
    assert all(key.algorithms == {"ES256"} for key in fitting)


class Case:
    def __init__(self) -> None:
        self.time = Time()
        self.document: dict[str, Any] = key_set(ec_key("a"))
        self.fetched = 0
        self.away = False
        self.gate: asyncio.Event | None = None
        self.keys = ProviderKeys(self._fetch, cache_s=600, stale_s=3600, clock=self.time.now_s, log=log_into([]))

    async def _fetch(self) -> dict[str, Any]:
        self.fetched += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.away:
            raise ProviderUnavailable("away")
        return self.document


@pytest.fixture
def case() -> Case:
    return Case()


async def test_the_same_keys_are_the_same_set(case: Case) -> None:
    first = await case.keys.current()
    case.document = {"keys": [dict(reversed(public_jwk(ec_key("a")).items()))]}
    case.time.pass_s(600)
    assert await case.keys.current() is first
    assert case.fetched == 2


async def test_other_keys_are_another_set(case: Case) -> None:
    first = await case.keys.current()
    case.document = key_set(ec_key("b"))
    case.time.pass_s(600)
    second = await case.keys.current()
    assert second is not first
    assert not second.knows("a")


async def test_a_new_key_is_found_at_once(case: Case) -> None:
    await case.keys.current()
    case.document = key_set(ec_key("a"), ec_key("b"))
    assert (await case.keys.for_unknown_kid()).knows("b")


async def test_made_up_key_ids_ask_the_provider_at_most_once_in_thirty_seconds(case: Case) -> None:
    await case.keys.current()
    for _ in range(50):
        await case.keys.for_unknown_kid()
    assert case.fetched == 2
    case.time.pass_s(29.9)
    await case.keys.for_unknown_kid()
    assert case.fetched == 2
    case.time.pass_s(0.1)
    await case.keys.for_unknown_kid()
    assert case.fetched == 3


async def test_tokens_of_a_new_key_that_come_side_by_side_all_wait_for_the_one_fetch(case: Case) -> None:
    await case.keys.current()
    case.document = key_set(ec_key("b"))
    case.gate = asyncio.Event()
    waiting = [asyncio.ensure_future(case.keys.for_unknown_kid()) for _ in range(10)]
    await asyncio.sleep(0)
    case.gate.set()
    assert all(keys.knows("b") for keys in await asyncio.gather(*waiting))
    assert case.fetched == 2


async def test_an_unknown_key_id_cannot_be_judged_while_the_provider_is_away(case: Case) -> None:
    await case.keys.current()
    case.away = True
    for _ in range(3):
        with pytest.raises(ProviderUnavailable):
            await case.keys.for_unknown_kid()
    assert (await case.keys.current()).knows("a")


@pytest.mark.parametrize("document", [{"keys": []}, {}, {"keys": "gone"}])
async def test_a_broken_key_set_keeps_the_old_one_within_its_grace(case: Case, document: dict[str, Any]) -> None:
    await case.keys.current()
    case.document = document
    case.time.pass_s(600)
    assert (await case.keys.current()).knows("a")
    case.time.pass_s(3600)
    with pytest.raises(ProviderUnavailable):
        await case.keys.current()
