"""The parts of a login that are decided from values."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, urlsafe_b64encode
from urllib.parse import parse_qs, unquote_plus, urlsplit

import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from common.settings.secret import Secret
from dataplane.oidc.client_assertion import ClientAssertion
from dataplane.oidc.discovery import ProviderMetadata
from dataplane.oidc.errors import LoginFailed, ProviderUnavailable
from dataplane.oidc.http import Answer
from dataplane.oidc.login import (
    CallbackParameters,
    Client,
    authorization_address,
    check_callback,
    new_pending_login,
    read_id_token,
    token_request,
)
from tests.support.certificates import issue

ISSUER = "https://id.example.com"
TOKEN = f"{ISSUER}/token"
CLIENT = Client("gate:way", "https://gateway.test/auth/callback", ("openid", "email"), secret=Secret("s:e c&rét"))


def metadata(*, sends_issuer: bool) -> ProviderMetadata:
    return ProviderMetadata(ISSUER, f"{ISSUER}/auth", TOKEN, f"{ISSUER}/keys", None, sends_issuer)


def test_a_login_is_never_like_another() -> None:
    logins = [new_pending_login("/", 0) for _ in range(50)]
    assert len({value for each in logins for value in (each.state, each.nonce, each.verifier)}) == 150
    assert all(len(each.verifier) == 43 for each in logins)


def test_the_browser_is_sent_with_everything_the_flow_needs_and_no_secret() -> None:
    pending = new_pending_login("/", 0)
    address = authorization_address(f"{ISSUER}/auth", CLIENT, pending)
    query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    challenge = urlsafe_b64encode(hashlib.sha256(pending.verifier.encode()).digest()).rstrip(b"=").decode()
    assert query == {
        "response_type": "code",
        "client_id": "gate:way",
        "redirect_uri": "https://gateway.test/auth/callback",
        "scope": "openid email",
        "state": pending.state,
        "nonce": pending.nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    assert pending.verifier not in address


def test_an_endpoint_with_a_query_keeps_it() -> None:
    address = authorization_address(f"{ISSUER}/auth?tenant=a", CLIENT, new_pending_login("/", 0))
    assert address.startswith(f"{ISSUER}/auth?tenant=a&response_type=code&")


def test_a_pending_login_does_not_show_its_secrets() -> None:
    pending = new_pending_login("/", 0)
    assert pending.verifier not in repr(pending)
    assert pending.nonce not in repr(pending)
    assert "the-code" not in repr(CallbackParameters(code="the-code"))


@pytest.mark.parametrize("sends_issuer", [True, False])
def test_a_callback_of_the_provider_gives_its_code(sends_issuer: bool) -> None:
    assert check_callback(CallbackParameters("c", issuer=ISSUER), metadata(sends_issuer=sends_issuer)) == "c"


def test_a_provider_that_never_names_itself_need_not() -> None:
    assert check_callback(CallbackParameters("c"), metadata(sends_issuer=False)) == "c"


@pytest.mark.parametrize("issuer", [None, "", f"{ISSUER}/", "https://evil.example"])
@pytest.mark.parametrize("error", [None, "access_denied", "server_error"])
def test_an_answer_of_another_issuer_is_not_believed_in_anything(issuer: str | None, error: str | None) -> None:
    with pytest.raises(LoginFailed, match="issuer"):
        check_callback(CallbackParameters("c", error, issuer), metadata(sends_issuer=True))


@pytest.mark.parametrize("error", ["access_denied", "login_required", "", "x" * 5_000])
def test_a_refusal_of_the_provider_ends_the_login(error: str) -> None:
    with pytest.raises(LoginFailed) as failed:
        check_callback(CallbackParameters("c", error, ISSUER), metadata(sends_issuer=True))
    assert len(str(failed.value)) < 200


@pytest.mark.parametrize("error", ["server_error", "temporarily_unavailable"])
def test_a_provider_that_says_it_is_unwell_is_an_outage(error: str) -> None:
    with pytest.raises(ProviderUnavailable):
        check_callback(CallbackParameters(None, error, ISSUER), metadata(sends_issuer=True))


@pytest.mark.parametrize("code", [None, ""])
def test_an_answer_without_code_ends_the_login(code: str | None) -> None:
    with pytest.raises(LoginFailed):
        check_callback(CallbackParameters(code, None, ISSUER), metadata(sends_issuer=True))


CODE_FORM = {
    "grant_type": "authorization_code",
    "code": "the-code",
    "redirect_uri": "https://gateway.test/auth/callback",
    "code_verifier": "v",
}


def test_basic_authentication_encodes_id_and_secret_before_it_joins_them() -> None:
    form, headers = token_request(CLIENT, TOKEN, "the-code", "v", 0)
    assert form == CODE_FORM
    sent = b64decode(headers["authorization"].removeprefix("Basic ")).decode("ascii")
    client_id, _, secret = sent.partition(":")
    assert (unquote_plus(client_id), unquote_plus(secret)) == ("gate:way", "s:e c&rét")


def test_the_secret_may_go_into_the_form() -> None:
    client = Client(CLIENT.client_id, CLIENT.redirect_uri, CLIENT.scopes, secret_in_form=True, secret=CLIENT.secret)
    form, headers = token_request(client, TOKEN, "the-code", "v", 0)
    assert form == {**CODE_FORM, "client_id": "gate:way", "client_secret": "s:e c&rét"}
    assert headers == {}


def test_a_public_client_names_itself_alone() -> None:
    client = Client(CLIENT.client_id, CLIENT.redirect_uri, CLIENT.scopes)
    assert token_request(client, TOKEN, "the-code", "v", 0) == ({**CODE_FORM, "client_id": "gate:way"}, {})


def pem(
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey, password: bytes = b""
) -> Secret:
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    return Secret(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode())


@pytest.mark.parametrize("algorithm", ["ES256", "ES384", "RS256"])
def test_an_assertion_proves_the_client_for_a_minute(algorithm: str) -> None:
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
    if algorithm == "RS256":
        key = rsa.generate_private_key(65537, 2048)
        public: ECKey | RSAKey = RSAKey.import_key(key.public_key())
    else:
        key = ec.generate_private_key(ec.SECP256R1() if algorithm == "ES256" else ec.SECP384R1())
        public = ECKey.import_key(key.public_key())
    assertion = ClientAssertion("gateway", pem(key))
    client = Client("gateway", CLIENT.redirect_uri, CLIENT.scopes, assertion=assertion)
    form, headers = token_request(client, TOKEN, "the-code", "v", 1_000.9)
    assert headers == {}
    assert form.pop("client_assertion_type") == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    token = jwt.decode(form.pop("client_assertion"), public, algorithms=[algorithm])
    assert form == {**CODE_FORM, "client_id": "gateway"}
    jti = token.claims.pop("jti")
    assert token.claims == {"iss": "gateway", "sub": "gateway", "aud": TOKEN, "iat": 1_000, "exp": 1_060}
    again, _ = token_request(client, TOKEN, "the-code", "v", 1_000.9)
    assert jwt.decode(again["client_assertion"], public, algorithms=[algorithm]).claims["jti"] != jti


@pytest.mark.parametrize(
    ("kind", "algorithm"), [(trustme.KeyType.RSA, "PS256"), (trustme.KeyType.ECDSA, "ES256")], ids=["rsa", "ec"]
)
def test_an_assertion_names_the_certificate_that_stands_behind_the_key(kind: trustme.KeyType, algorithm: str) -> None:
    """Entra finds the key by it."""
    issued = issue("gateway", key_type=kind)
    assertion = ClientAssertion("gateway", Secret((issued.key + issued.chain).decode()))
    parts = assertion.form(TOKEN, 0)["client_assertion"].split(".")
    header = json.loads(b64decode(parts[0] + "=="))
    thumbprint = hashlib.sha256(issued.leaf.public_bytes(Encoding.DER)).digest()
    assert header == {"typ": "JWT", "alg": algorithm, "x5t#S256": urlsafe_b64encode(thumbprint).rstrip(b"=").decode()}


@pytest.mark.parametrize(
    "key",
    [
        Secret("not a key"),
        Secret(""),
        pem(ed25519.Ed25519PrivateKey.generate()),
        pem(ec.generate_private_key(ec.SECP521R1())),
        pem(rsa.generate_private_key(65537, 1024)),
        pem(ec.generate_private_key(ec.SECP256R1()), b"passphrase"),
    ],
    ids=["text", "empty", "ed25519", "p521", "rsa1024", "passphrase"],
)
def test_a_client_key_that_cannot_sign_is_told_without_its_content(key: Secret) -> None:
    with pytest.raises(ValueError, match="GATEWAY_OIDC_CLIENT_KEY") as refused:
        ClientAssertion("gateway", key)
    assert refused.value.__cause__ is None
    assert key.reveal() == "" or key.reveal() not in str(refused.value)


def answer(body: object, status: int = 200) -> Answer:
    return Answer(status, body if isinstance(body, bytes) else json.dumps(body).encode())


def test_the_id_token_is_taken_and_nothing_else() -> None:
    assert read_id_token(answer({"id_token": "a.b.c", "access_token": "d", "refresh_token": "e"})) == b"a.b.c"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 200), ({"access_token": "x"}, 200), ({"id_token": None}, 200), ({"id_token": 5}, 200),
        ({"id_token": "é.b.c"}, 200), (b"", 200), (b"<html>", 200), ([], 200),
        ({"error": "invalid_grant"}, 400), ({"error": "invalid_client"}, 401), ({"error": {"a": 1}}, 400),
        (b"x", 403), ({"id_token": "a.b.c"}, 302), ({"id_token": "a.b.c"}, 201), ({"error": "e" * 9_000}, 400),
    ],
)  # fmt: skip
def test_an_answer_without_id_token_ends_the_login(body: object, status: int) -> None:
    with pytest.raises(LoginFailed) as failed:
        read_id_token(answer(body, status))
    assert len(str(failed.value)) < 200


@pytest.mark.parametrize("status", [500, 502, 503, 429])
def test_a_token_endpoint_that_fails_is_an_outage(status: int) -> None:
    with pytest.raises(ProviderUnavailable):
        read_id_token(answer({"id_token": "a.b.c"}, status))
