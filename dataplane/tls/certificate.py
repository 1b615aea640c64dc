"""A certificate with its chain and private key, read from PEM and judged: it can be served, or it says why not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    SECP384R1,
    SECP521R1,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from common.settings.keys import RSA_MIN_BITS, private_key
from common.settings.secret import Secret

CHAIN_MAX = 10
"""Certificates in one chain; three are usual."""

_KEY_BLOCK = re.compile(rb"-----BEGIN ((?:[A-Z0-9]+ )?PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL)
_PURPOSES = {"server": ExtendedKeyUsageOID.SERVER_AUTH, "client": ExtendedKeyUsageOID.CLIENT_AUTH}
_BROKEN_HASHES = frozenset({"md5", "sha1"})


class CertificateRefused(Exception):
    """It cannot be served. The text names the source and the reason, and never holds a part of the key."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A chain that can be served, and its key.

    `names` are what it certifies, as its subject alternative name has them: lower-case host names, wildcards as
    `*.example.com`, and IP addresses in canonical text. Times are POSIX seconds. `chain` and `key` are PEM; the
    server's certificate comes first in the chain.
    """

    source: str
    names: tuple[str, ...]
    not_before_s: float
    not_after_s: float
    chain: bytes
    key: Secret


def read_certificate(
    chain: bytes,
    key: bytes,
    *,
    now_s: float,
    chain_source: str,
    key_source: str = "",
    purpose: Literal["server", "client"] = "server",
) -> Certificate:
    """Read and judge the PEM texts of a chain and its private key; both may be the same text.

    `CertificateRefused` for what the other side of a handshake would refuse at `now_s` (POSIX seconds), apart from
    whether it knows the authority: unreadable or encrypted texts, a key of another certificate, a weak key or
    signature, a chain that is not in order, a certificate outside its dates, for another purpose, or, as a server's,
    without names. The sources (a file, an authority) begin its text.
    """
    certificates = _certificates(chain, chain_source)
    leaf = certificates[0]
    secret = _matching_key(key, certificates, chain_source, key_source or chain_source)
    for position, certificate in enumerate(certificates):
        _check_dates(certificate, _nth(position), now_s, chain_source)
    _check_chain(certificates, chain_source)
    fault = _weakness_of_key(leaf.public_key())
    if fault:
        raise CertificateRefused(f"{chain_source}: {fault}")
    if not _has_purpose(leaf, purpose):
        raise CertificateRefused(f"{chain_source}: is not a {purpose}'s certificate: its extended key usage forbids it")
    names = _names(leaf)
    if not names and purpose == "server":
        raise CertificateRefused(
            f"{chain_source}: certifies no name: clients look for host names in its subject alternative name"
        )
    return Certificate(
        source=chain_source,
        names=names,
        not_before_s=leaf.not_valid_before_utc.timestamp(),
        not_after_s=leaf.not_valid_after_utc.timestamp(),
        chain=b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates),
        key=secret,
    )


def _certificates(chain: bytes, source: str) -> list[x509.Certificate]:
    if b"-----BEGIN" not in chain:
        hint = "; convert it with `openssl x509 -inform der`" if chain[:1] == b"\x30" else ""
        raise CertificateRefused(f"{source}: is not PEM; it begins with -----BEGIN CERTIFICATE-----{hint}")
    if b"-----BEGIN CERTIFICATE-----" not in chain:
        raise CertificateRefused(f"{source}: holds no certificate; put the certificate first, then its chain")
    try:
        certificates = x509.load_pem_x509_certificates(chain)
        for certificate in certificates:
            certificate.extensions, certificate.public_key()
    except (ValueError, UnsupportedAlgorithm, x509.DuplicateExtension) as error:
        raise CertificateRefused(f"{source}: holds a certificate that cannot be read; it may be cut short") from error
    if len(certificates) > CHAIN_MAX:
        raise CertificateRefused(f"{source}: holds more than {CHAIN_MAX} certificates; a chain is not a list of roots")
    return certificates


def _matching_key(text: bytes, certificates: Sequence[x509.Certificate], chain_source: str, key_source: str) -> Secret:
    """The PEM of the key alone, once it is known to be the first certificate's."""
    block = _KEY_BLOCK.search(text)
    try:
        pem = (text if block is None else block[0]).decode("ascii")
        public = _spki(private_key(pem).public_key())
    except UnicodeDecodeError:
        raise CertificateRefused(f"{key_source}: is not PEM; it begins with -----BEGIN PRIVATE KEY-----") from None
    except ValueError as error:
        raise CertificateRefused(f"{key_source}: {error}") from None
    for position, certificate in enumerate(certificates):
        if _spki(certificate.public_key()) == public:
            if position:
                raise CertificateRefused(
                    f"{chain_source}: the key's certificate is {_nth(position)} in it; put it first, then "
                    "the one that issued it, and so on"
                )
            return Secret(pem)
    raise CertificateRefused(f"{key_source}: is not the key of the certificate in {chain_source}")


def _spki(key: object) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined, no-any-return]


def _check_dates(certificate: x509.Certificate, which: str, now_s: float, source: str) -> None:
    if certificate.not_valid_after_utc.timestamp() <= now_s:
        raise CertificateRefused(
            f"{source}: {which} expired at {certificate.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}; renew it"
        )
    if certificate.not_valid_before_utc.timestamp() > now_s:
        raise CertificateRefused(
            f"{source}: {which} is not valid before {certificate.not_valid_before_utc:%Y-%m-%dT%H:%M:%SZ}, and here it "
            f"is {datetime.fromtimestamp(now_s, UTC):%Y-%m-%dT%H:%M:%SZ}; look at the clock"
        )


def _check_chain(certificates: Sequence[x509.Certificate], source: str) -> None:
    """Each certificate is issued by the one behind it (RFC 5246 §7.4.2), with a signature that clients accept."""
    for position, certificate in enumerate(certificates):
        rooted = certificate.issuer == certificate.subject  # nobody looks at a root's own signature
        if not rooted and getattr(certificate.signature_hash_algorithm, "name", "") in _BROKEN_HASHES:
            raise CertificateRefused(f"{source}: {_nth(position)} is signed with a hash that clients refuse; renew it")
        if position + 1 < len(certificates):
            try:
                certificate.verify_directly_issued_by(certificates[position + 1])
            except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
                raise CertificateRefused(
                    f"{source}: {_nth(position + 1)} did not issue {_nth(position)}; put the "
                    "certificate first, then the one that issued it, and so on"
                ) from None


def _weakness_of_key(key: CertificatePublicKeyTypes) -> str:
    if isinstance(key, RSAPublicKey):
        return "" if key.key_size >= RSA_MIN_BITS else f"its RSA key has {key.key_size} bits; {RSA_MIN_BITS} are needed"
    if isinstance(key, EllipticCurvePublicKey):
        curves = (SECP256R1, SECP384R1, SECP521R1)
        return "" if isinstance(key.curve, curves) else f"its key is on the curve {key.curve.name}; use P-256 or P-384"
    return "" if isinstance(key, Ed25519PublicKey) else "its key is neither RSA nor on a curve that TLS uses"


def _has_purpose(certificate: x509.Certificate, purpose: Literal["server", "client"]) -> bool:
    """Without an extended key usage a certificate serves every purpose (RFC 5280 §4.2.1.12)."""
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return _PURPOSES[purpose] in usage or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in usage


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        alternative = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    names = [name.lower().removesuffix(".") for name in alternative.get_values_for_type(x509.DNSName)]
    names += [str(address) for address in alternative.get_values_for_type(x509.IPAddress)]
    return tuple(dict.fromkeys(name for name in names if name))


def _nth(position: int) -> str:
    return "the certificate" if position == 0 else f"certificate {position + 1}"
