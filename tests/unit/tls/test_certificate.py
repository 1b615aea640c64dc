"""A certificate that cannot be served says why, and no client meets it."""

from __future__ import annotations

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

from dataplane.tls.certificate import CHAIN_MAX, Certificate, CertificateRefused, read_certificate
from tests.support.certificates import DAY, NOW, Issued, authority, expired, handmade, issue

NOW_S = NOW.timestamp()
GOOD = issue("app.test", "*.app.test", "192.0.2.7", "2001:db8::7")
OTHER = issue("other.test")


def read(issued: Issued, **changed: bytes) -> Certificate:
    return read_certificate(
        changed.get("chain", issued.chain),
        changed.get("key", issued.key),
        now_s=NOW_S,
        chain_source="tls.crt",
        key_source="tls.key",
    )


def refusal(issued: Issued, **changed: bytes) -> str:
    with pytest.raises(CertificateRefused) as refused:
        read(issued, **changed)
    return str(refused.value)


def test_names_are_those_of_the_subject_alternative_name() -> None:
    assert set(read(GOOD).names) == {"app.test", "*.app.test", "192.0.2.7", "2001:db8::7"}


def test_names_are_compared_in_lower_case() -> None:
    assert read(handmade("App.TEST")).names == ("app.test",)


def test_dates_are_those_of_the_servers_certificate() -> None:
    certificate = read(GOOD)
    assert certificate.not_before_s == GOOD.leaf.not_valid_before_utc.timestamp()
    assert certificate.not_after_s == GOOD.leaf.not_valid_after_utc.timestamp()


def test_the_key_is_in_no_repr() -> None:
    certificate = read(GOOD)
    assert certificate.key.reveal().encode() in GOOD.key
    assert "PRIVATE KEY" not in repr(certificate)


def test_one_text_may_hold_chain_and_key() -> None:
    both = GOOD.chain + GOOD.key
    assert read(GOOD, chain=both, key=both) == read(GOOD)
    assert b"PRIVATE KEY" not in read(GOOD, chain=both, key=both).chain


def test_a_key_in_the_traditional_form_is_read_behind_its_parameters() -> None:
    issued = handmade("app.test", key=ec.generate_private_key(ec.SECP384R1()))
    key = load_pem_private_key(issued.key, None)
    traditional = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    parameters = b"-----BEGIN EC PARAMETERS-----\nBgUrgQQAIg==\n-----END EC PARAMETERS-----\n"
    assert read(issued, key=parameters + traditional).names == ("app.test",)


@pytest.mark.parametrize("end", ["root", "no root"])
def test_a_chain_over_an_intermediate_authority_is_kept_whole(end: str) -> None:
    intermediate = authority().create_child_ca()
    issued = issue("app.test", ca=intermediate)
    chain = issued.chain + (authority().cert_pem.bytes() if end == "root" else b"")
    kept = x509.load_pem_x509_certificates(read(issued, chain=chain).chain)
    assert kept == x509.load_pem_x509_certificates(chain)


@pytest.mark.parametrize(
    "key",
    [
        rsa.generate_private_key(65537, 2048),
        ec.generate_private_key(ec.SECP256R1()),
        ec.generate_private_key(ec.SECP521R1()),
        ed25519.Ed25519PrivateKey.generate(),
    ],
    ids=["rsa", "p256", "p521", "ed25519"],
)
def test_the_usual_kinds_of_keys_are_served(key: object) -> None:
    algorithm = {} if not isinstance(key, ed25519.Ed25519PrivateKey) else {"algorithm": None}
    assert read(handmade("app.test", key=key, **algorithm)).names == ("app.test",)


@pytest.mark.parametrize(
    ("chain", "reason"),
    [
        (b"", "is not PEM"),
        (b"\x30\x82\x01\x00", "convert it with `openssl x509 -inform der`"),
        (GOOD.key, "holds no certificate"),
        (GOOD.chain[:400] + b"\n-----END CERTIFICATE-----\n", "cannot be read; it may be cut short"),
        (b"-----BEGIN CERTIFICATE-----\n", "cannot be read; it may be cut short"),
        (b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n", "holds no certificate"),
        (authority().cert_pem.bytes() * (CHAIN_MAX + 1), f"more than {CHAIN_MAX} certificates"),
    ],
)
def test_an_unreadable_chain_is_refused(chain: bytes, reason: str) -> None:
    assert refusal(GOOD, chain=chain).startswith("tls.crt: ")
    assert reason in refusal(GOOD, chain=chain)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (b"", "is not a PEM"),
        (b"\x30\x82\x01\x00", "is not PEM"),
        (GOOD.chain, "holds a certificate where the private key belongs"),
        (GOOD.key[:80] + b"\n-----END PRIVATE KEY-----\n", "cannot be read as a private key"),
        (OTHER.key, "is not the key of the certificate in tls.crt"),
    ],
)
def test_an_unreadable_or_foreign_key_is_refused(key: bytes, reason: str) -> None:
    assert refusal(GOOD, key=key).startswith("tls.key: ")
    assert reason in refusal(GOOD, key=key)


def test_an_encrypted_key_is_refused_with_the_way_out() -> None:
    key = load_pem_private_key(GOOD.key, None)
    for form in (PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL):
        encrypted = key.private_bytes(Encoding.PEM, form, BestAvailableEncryption(b"secret"))
        assert "is encrypted; decrypt it with `openssl pkcs8" in refusal(GOOD, key=encrypted)


def test_a_refusal_never_holds_a_part_of_the_key() -> None:
    body = GOOD.key.splitlines()[1].decode()
    for key in (GOOD.key[:120], GOOD.key.replace(b"PRIVATE KEY", b"PUBLIC KEY")):
        assert body[:12] not in refusal(GOOD, key=key)


def test_an_expired_certificate_is_refused_with_its_date() -> None:
    old = expired("app.test")
    assert (
        refusal(old)
        == f"tls.crt: the certificate expired at {old.leaf.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}; renew it"
    )


@pytest.mark.parametrize(("moment", "fine"), [(-1, True), (0, False)])
def test_a_certificate_is_served_up_to_its_last_second(moment: int, fine: bool) -> None:
    now_s = GOOD.leaf.not_valid_after_utc.timestamp() + moment
    if fine:
        assert read_certificate(GOOD.chain, GOOD.key, now_s=now_s, chain_source="x").names
    else:
        with pytest.raises(CertificateRefused, match="expired"):
            read_certificate(GOOD.chain, GOOD.key, now_s=now_s, chain_source="x")


def test_a_certificate_of_the_future_is_refused() -> None:
    early = issue("app.test", not_before=NOW + DAY, not_after=NOW + 2 * DAY)
    assert "is not valid before" in refusal(early)
    assert "look at the clock" in refusal(early)


def test_an_expired_authority_in_the_chain_is_named() -> None:
    lasting = issue("app.test", not_after=NOW + 400_000 * DAY)
    chain = lasting.chain + authority().cert_pem.bytes()
    later = x509.load_pem_x509_certificate(authority().cert_pem.bytes()).not_valid_after_utc.timestamp()
    with pytest.raises(CertificateRefused, match="x: certificate 2 expired"):
        read_certificate(chain, lasting.key, now_s=later, chain_source="x")


def test_the_servers_certificate_comes_first() -> None:
    intermediate = authority().create_child_ca()
    issued = issue("app.test", ca=intermediate)
    leaf, issuer = x509.load_pem_x509_certificates(issued.chain)
    turned = issuer.public_bytes(Encoding.PEM) + leaf.public_bytes(Encoding.PEM)
    assert "the key's certificate is certificate 2 in it" in refusal(issued, chain=turned)


def test_a_chain_with_a_stranger_is_refused() -> None:
    stranger = trustme.CA().cert_pem.bytes()
    assert "certificate 2 did not issue the certificate" in refusal(GOOD, chain=GOOD.chain + stranger)
    intermediate = authority().create_child_ca()
    issued = issue("app.test", ca=intermediate)
    assert "certificate 3 did not issue certificate 2" in refusal(issued, chain=issued.chain + stranger)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (rsa.generate_private_key(65537, 1024), "its RSA key has 1024 bits; 2048 are needed"),
        (ec.generate_private_key(ec.SECP192R1()), "its key is on the curve secp192r1"),
        (dsa.generate_private_key(2048), "its key is neither RSA nor on a curve"),
    ],
    ids=["rsa", "curve", "dsa"],
)
def test_a_weak_or_unusual_key_is_refused(key: object, reason: str) -> None:
    assert reason in refusal(handmade("app.test", key=key))


def test_a_certificate_for_clients_is_refused() -> None:
    assert "is not a server's certificate" in refusal(handmade("app.test", purpose=ExtendedKeyUsageOID.CLIENT_AUTH))
    assert read(handmade("app.test", purpose=ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE)).names


def test_a_certificate_without_names_is_refused_whatever_its_subject_says() -> None:
    assert "certifies no name" in refusal(handmade())
