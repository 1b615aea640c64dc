"""Forged tokens, in every way that has worked somewhere: all are refused, and nothing they name is fetched."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from joserfc.jws import JWSRegistry

from dataplane.errors import GatewayError
from dataplane.oidc.errors import TokenRefused
from dataplane.oidc.tokens import TOKEN_MAX_BYTES, read_head
from tests.support.auth_harness import ISSUER, Parts, exchange
from tests.support.jose import assembled, b64, ec_key, public_jwk, rsa_key, signed
from tests.support.oidc_provider import OddProvider


@pytest.fixture
async def parts() -> AsyncIterator[Parts]:
    async with Parts() as built:
        yield built


def claims(parts: Parts, **changes: object) -> dict[str, Any]:
    now = parts.time.now_s()
    return {"iss": ISSUER, "aud": "api", "sub": "mallory", "iat": now, "exp": now + 300, **changes}


async def is_refused(parts: Parts, token: bytes) -> bool:
    x = exchange("/", [("authorization", "Bearer " + token.decode("latin-1"))], mode="any")
    code = ""
    try:
        await parts.step(x)
    except GatewayError as error:
        code = error.code
    assert code in {"", "unauthorized"}
    assert (x.principal is None) == (code == "unauthorized")
    return code == "unauthorized"


async def test_the_harness_accepts_what_the_provider_signed(parts: Parts) -> None:
    assert not await is_refused(parts, signed(claims(parts), ec_key("a")))


@pytest.mark.parametrize(
    "name", ["none", "None", "NONE", "nOnE", "", None, ["ES256"], 5, "ES256 ", "es256", "EdDSA", "dir"]
)
async def test_no_signature_is_no_signature(parts: Parts, name: object) -> None:
    payload = json.dumps(claims(parts)).encode()
    header = {"alg": name, "kid": "a"}
    real = signed(claims(parts), ec_key("a")).rpartition(b".")[2].decode()
    for signature in ("", b64(b"x"), real):
        token = f"{b64(json.dumps(header).encode())}.{b64(payload)}.{signature}".encode()
        assert await is_refused(parts, token)


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
async def test_the_public_key_is_no_shared_secret(parts: Parts, algorithm: str) -> None:
    key = ec_key("a")
    secrets = [
        key.raw_value.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),  # type: ignore[union-attr]
        key.raw_value.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),  # type: ignore[union-attr]
        json.dumps(public_jwk(key)).encode(),
        b"",
        b"a",
    ]
    signing_input = (
        f"{b64(json.dumps({'alg': algorithm, 'kid': 'a'}).encode())}.{b64(json.dumps(claims(parts)).encode())}"
    )
    for secret in secrets:
        tag = hmac.digest(secret, signing_input.encode(), "sha" + algorithm[2:])
        assert await is_refused(parts, f"{signing_input}.{b64(tag)}".encode())


@pytest.mark.parametrize(
    "signature",
    [
        b"",
        b"\x00" * 64,
        b"\x00" * 63 + b"\x01",
        b"\x01" + b"\x00" * 63,
        b"\xff" * 64,
        b"\x00" * 128,
        b"\x30\x06\x02\x01\x00\x02\x01\x00",
    ],
    ids=["empty", "zero", "s=1", "r=1", "ones", "long", "der"],
)
async def test_a_degenerate_ecdsa_signature_is_refused(parts: Parts, signature: bytes) -> None:
    assert await is_refused(
        parts, assembled({"alg": "ES256", "kid": "a"}, json.dumps(claims(parts)).encode(), signature)
    )


async def test_the_order_of_the_curve_as_signature_is_refused(parts: Parts) -> None:
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551.to_bytes(32, "big")
    for r, s in ((order, order), (order, b"\x00" * 32), (b"\x00" * 31 + b"\x01", order)):
        token = assembled({"alg": "ES256", "kid": "a"}, json.dumps(claims(parts)).encode(), r + s)
        assert await is_refused(parts, token)


async def test_a_key_that_comes_with_the_token_is_not_used_and_nothing_is_fetched(parts: Parts) -> None:
    mine = ec_key("attacker")
    async with OddProvider() as listening:
        address = f"{listening.origin}/keys"
        for header in (
            {"jwk": public_jwk(mine)},
            {"jwk": public_jwk(mine), "kid": None},
            {"jku": address},
            {"jku": address, "kid": "a"},
            {"x5u": address},
            {"x5u": address, "kid": None},
            {"kid": address},
            {"kid": "../../a"},
            {"kid": "a' OR '1'='1"},
            {"x5c": ["MIIB"], "kid": "a"},
        ):
            assert await is_refused(parts, signed(claims(parts), mine, header=header)), header
        assert listening.requests == []


@pytest.mark.parametrize("header", [{"jwk": public_jwk(ec_key("a"))}, {"jku": "https://id.example.com/keys"}])
async def test_even_a_good_signature_does_not_excuse_an_embedded_key(parts: Parts, header: dict[str, Any]) -> None:
    assert await is_refused(parts, signed(claims(parts), ec_key("a"), header=header))


@pytest.mark.parametrize("critical", [["exp"], ["b64"], ["unknown"], [], "exp", None, 5])
async def test_a_token_with_critical_extensions_is_refused(parts: Parts, critical: object) -> None:
    header = json.dumps({"alg": "ES256", "kid": "a", "crit": critical, "exp": 1}).encode()
    signing_input = f"{b64(header)}.{b64(json.dumps(claims(parts)).encode())}".encode()
    signature = JWSRegistry.algorithms["ES256"].sign(signing_input, ec_key("a"))
    assert await is_refused(parts, signing_input + b"." + b64(signature).encode())


async def test_a_signature_by_another_key_of_the_same_name_is_refused(parts: Parts) -> None:
    token = signed(claims(parts), ec_key("b"), header={"kid": "a"})
    assert await is_refused(parts, token)
    assert await is_refused(parts, signed(claims(parts), rsa_key(), "RS256", header={"kid": "a"}))
    assert await is_refused(parts, signed(claims(parts), ec_key("b"), header={"kid": None}))


async def test_a_changed_token_is_refused_even_after_the_real_one_was_remembered(parts: Parts) -> None:
    token = signed(claims(parts), ec_key("a"))
    assert not await is_refused(parts, token)
    head, payload, signature = token.split(b".")
    other = b64(json.dumps(claims(parts, sub="admin")).encode()).encode()
    for changed in (
        b".".join((head, other, signature)),
        b".".join((head, payload + b"A", signature)),
        b".".join((head, payload, signature[:-2])),
        token + b"=",
        token + b".",
        b"." + token,
        token + b"\x00",
        token.replace(b".", b".."),
        token[:-1],
        b".".join((head, payload)),
        b".".join((head, payload, signature, signature)),
        b".".join((head, b"", signature)),
        token + b" x",
        token + b", Bearer " + token,
    ):
        assert await is_refused(parts, changed), changed[-20:]


@pytest.mark.parametrize(
    "kind", ["logout+jwt", "application/logout+jwt", "LOGOUT+JWT", "dpop+jwt", "id_token+jwt", "secevent+jwt"]
)
async def test_a_token_of_another_type_is_no_access_token(parts: Parts, kind: str) -> None:
    assert await is_refused(parts, signed(claims(parts), ec_key("a"), header={"typ": kind}))


@pytest.mark.parametrize("kind", ["JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt", None, "odd"])
async def test_the_types_of_access_tokens_are_accepted(parts: Parts, kind: object) -> None:
    assert not await is_refused(parts, signed(claims(parts), ec_key("a"), header={"typ": kind}))


async def test_an_overlong_token_is_refused_before_anything_is_asked_or_decoded(parts: Parts) -> None:
    async def never() -> Any:
        raise AssertionError("asked")

    parts.fetch = never
    for token in (b"a" * (TOKEN_MAX_BYTES + 1), b"a.b." + b"c" * 20_000, b"." * 30_000):
        assert await is_refused(parts, token)


async def test_the_longest_token_is_accepted(parts: Parts) -> None:
    token = b""
    padding = 11_000
    while len(token) < TOKEN_MAX_BYTES - 2:
        token = signed(claims(parts, x="x" * padding), ec_key("a"))
        padding += max((TOKEN_MAX_BYTES - len(token)) * 3 // 4, 1)
    assert TOKEN_MAX_BYTES - 2 <= len(token) <= TOKEN_MAX_BYTES
    assert not await is_refused(parts, token)


NESTED = b'{"a":' + b"[" * 900 + b"]" * 900 + b"}"


@pytest.mark.parametrize(
    "payload",
    [b"", b"null", b"[]", b'"text"', b"5", b"{", b"\xff\xfe", b'{"exp":1e999}', b'{"exp":NaN}', b'{"exp":Infinity}',
     NESTED, b"[" * 3_000, b'{"sub":"\xff"}'],
)  # fmt: skip
async def test_a_signed_payload_that_is_no_claims_is_refused(parts: Parts, payload: bytes) -> None:
    assert await is_refused(parts, signed(payload, ec_key("a")))


@pytest.mark.parametrize(
    "header",
    [b"", b"null", b"[]", b'"ES256"', b"{", b"\xff", NESTED, b"[" * 3_000,
     b'{"alg":"ES256","kid":' + b"[" * 900 + b"]" * 900 + b"}",
     b'{"alg":"ES256","kid":5}', b'{"alg":"ES256","kid":["a"]}', b'{"alg":"ES256","x5c":5,"kid":"a"}',
     b'{"alg":"ES256","kid":"a","zzz":' + b"[" * 1_000 + b"]" * 1_000 + b"}"],
)  # fmt: skip
async def test_a_header_that_is_none_is_refused(parts: Parts, header: bytes) -> None:
    assert await is_refused(parts, assembled(header, json.dumps(claims(parts)).encode(), b"\x01" * 64))


@pytest.mark.parametrize("algorithm", ["none", "HS256", "ES512", "PS512", "ES256K", "EdDSA", "RSA-OAEP"])
def test_an_algorithm_that_is_not_accepted_is_refused_before_a_key_is_looked_for(algorithm: str) -> None:
    with pytest.raises(TokenRefused, match="algorithm"):
        read_head(assembled({"alg": algorithm, "kid": "a"}, b"{}", b"x"))


@given(st.binary(max_size=400))
def test_any_bytes_may_stand_where_a_token_should(token: bytes) -> None:
    with pytest.raises(TokenRefused):
        read_head(token)


@given(
    st.dictionaries(
        st.sampled_from(["alg", "kid", "typ", "crit", "x"]),
        st.one_of(st.none(), st.text(), st.integers(), st.lists(st.text())),
        max_size=5,
    )
)
def test_any_header_is_read_or_refused(header: dict[str, Any]) -> None:
    token = assembled(header, b"{}", b"x" * 64)
    try:
        head = read_head(token)
    except TokenRefused:
        return
    assert header["alg"] == head.algorithm


async def test_a_flood_of_made_up_key_ids_asks_the_provider_once(parts: Parts) -> None:
    asked = 0
    real = parts.fetch

    async def counted() -> Any:
        nonlocal asked
        asked += 1
        return await real()

    parts.fetch = counted
    for number in range(100):
        assert await is_refused(parts, signed(claims(parts), ec_key("b"), header={"kid": str(number)}))
    assert asked == 2


async def test_what_is_remembered_of_a_token_is_not_the_token(parts: Parts) -> None:
    token = signed(claims(parts), ec_key("a"))
    assert not await is_refused(parts, token)
    remembered = parts.step._tokens._remembered
    assert list(remembered) == [hashlib.sha256(token).digest()]
    assert token.decode() not in repr(remembered)
