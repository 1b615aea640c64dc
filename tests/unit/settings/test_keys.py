"""Keys and authorities are looked at before the gateway starts with them."""

from __future__ import annotations

import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat, PublicFormat

from common.settings.keys import key_fingerprint
from tests.support.certificates import issue
from tests.support.environments import MINIMAL, P256_PEM, files, load, pem, problems

P256 = ec.generate_private_key(ec.SECP256R1())
PROVIDER = {"OIDC_ISSUER": "http://id", "OIDC_CLIENT_ID": "gateway", "OIDC_CLIENT_AUTH": "private_key_jwt"}


@pytest.mark.parametrize(
    "spelled",
    [P256_PEM, P256_PEM.replace("\n", "\\n"), P256_PEM.replace("\n", "\r\n"), P256_PEM.strip()],
    ids=["plain", "escaped", "crlf", "stripped"],
)
def test_an_identity_key_may_have_its_line_feeds_escaped(spelled: str) -> None:
    key = load(MINIMAL, IDENTITY_SIGNING_KEY=spelled).identity_signing_key
    assert key is not None
    assert key.reveal() == P256_PEM


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("secret", "is not a PEM"),
        (pem(ec.generate_private_key(ec.SECP384R1())), "curve P-256"),
        (pem(ec.generate_private_key(ec.SECP256K1())), "curve P-256"),
        (pem(rsa.generate_private_key(65537, 2048)), "curve P-256"),
        (pem(P256, PrivateFormat.TraditionalOpenSSL), "not PKCS#8"),
        (pem(P256, password=b"x"), "is encrypted"),
        (P256.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode(), "public key"),
        (P256_PEM[:100], "cut short"),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "cannot be read"),
        ("-----BEGIN PRIVATE KEY-----\n\udcff\n-----END PRIVATE KEY-----\n", "cannot be read"),
    ],
    ids=["text", "p384", "k256", "rsa", "sec1", "encrypted", "public", "cut", "no-key", "no-utf8"],
)
def test_an_identity_key_is_a_pkcs8_p256_key_and_nothing_else(text: str, says: str) -> None:
    (problem,) = problems(MINIMAL, IDENTITY_SIGNING_KEY=text)
    assert problem.startswith("GATEWAY_IDENTITY_SIGNING_KEY: ")
    assert says in problem


@pytest.mark.parametrize(
    ("key", "accepted"),
    [
        (rsa.generate_private_key(65537, 2048), True),
        (rsa.generate_private_key(65537, 1024), False),
        (ec.generate_private_key(ec.SECP256R1()), True),
        (ec.generate_private_key(ec.SECP384R1()), True),
        (ec.generate_private_key(ec.SECP521R1()), False),
    ],
)
def test_a_client_key_is_one_whose_algorithm_is_used(
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, accepted: bool
) -> None:
    assert (problems(MINIMAL, **PROVIDER, OIDC_CLIENT_KEY=pem(key)) == ()) is accepted


def test_a_certificate_behind_a_client_key_is_its_own() -> None:
    issued, other = issue("gateway"), issue("gateway")
    own = (issued.key + issued.chain).decode()
    assert problems(MINIMAL, **PROVIDER, OIDC_CLIENT_KEY=own) == ()
    assert problems(MINIMAL, **PROVIDER, OIDC_CLIENT_KEY=own.replace("\n", "\\n")) == ()
    for wrong, says in (
        (issued.key + other.chain, "holds the certificate of another key"),
        (issued.key + issued.chain[:200], "holds a certificate that cannot be read"),
        (issued.chain + issued.key, "holds a certificate where the private key belongs"),
    ):
        (problem,) = problems(MINIMAL, **PROVIDER, OIDC_CLIENT_KEY=wrong.decode())
        assert problem.startswith(f"GATEWAY_OIDC_CLIENT_KEY: {says}")


def test_a_client_key_and_a_client_secret_are_each_refused_where_they_have_no_effect() -> None:
    assert [text.partition(";")[0] for text in problems(MINIMAL, **PROVIDER)] == [
        "GATEWAY_OIDC_CLIENT_KEY: private_key_jwt needs it"
    ]
    assert [
        text.partition(";")[0]
        for text in problems(MINIMAL, **PROVIDER, OIDC_CLIENT_KEY=P256_PEM, OIDC_CLIENT_SECRET="x")
    ] == ["GATEWAY_OIDC_CLIENT_SECRET: has no effect with private_key_jwt"]
    basic = {**PROVIDER, "OIDC_CLIENT_AUTH": "client_secret_post", "OIDC_CLIENT_SECRET": "x"}
    assert [text.partition(";")[0] for text in problems(MINIMAL, **basic, OIDC_CLIENT_KEY=P256_PEM)] == [
        "GATEWAY_OIDC_CLIENT_KEY: has no effect without GATEWAY_OIDC_CLIENT_AUTH=private_key_jwt"
    ]


def test_an_authority_is_a_readable_file_of_certificates() -> None:
    authority = trustme.CA().cert_pem.bytes()
    settings = load(MINIMAL, files(ca=authority * 2), OIDC_CA="ca")
    assert str(settings.oidc_ca) == "ca"
    assert problems(MINIMAL, OIDC_CA="ca") == ("GATEWAY_OIDC_CA: its file cannot be read: No such file or directory",)
    for broken in (b"", b"not a certificate", P256_PEM.encode(), authority[:200]):
        (problem,) = problems(MINIMAL, files(ca=broken), OIDC_CA="ca")
        assert "holds no readable certificate" in problem


def test_the_fingerprint_is_that_of_the_public_half_however_the_key_is_written() -> None:
    assert key_fingerprint(pem(P256)) == key_fingerprint(pem(P256, PrivateFormat.TraditionalOpenSSL))
    assert key_fingerprint(pem(P256)) != key_fingerprint(P256_PEM)
