"""Private keys and authorities given as PEM: what of them is accepted, and why not."""

from __future__ import annotations

import hashlib
import re

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, SECP384R1, EllipticCurve, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

RSA_MIN_BITS = 2048
"""NIST SP 800-131A: less is not acceptable for signing."""

_LABEL = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----")


def unescaped_pem(text: str) -> str:
    r"""A PEM whose line feeds may have been written as `\n`, as environment files have them; ends with a line feed."""
    return text.replace("\\r\\n", "\n").replace("\\n", "\n").replace("\r\n", "\n").strip() + "\n"


def identity_key(text: str) -> str:
    """The PKCS#8 PEM of an EC P-256 key (§7.4), unescaped; `ValueError` says what it is instead."""
    pem = unescaped_pem(text)
    key = private_key(pem, must_be_pkcs8=True)
    if not _is_on_curve(key, SECP256R1):
        raise ValueError("is not a key on the curve P-256; make one with `gateway identity-key`")
    return pem


def client_key(text: str) -> str:
    """The PEM of a key for `private_key_jwt`, unescaped: RSA of at least 2048 bits, or EC on P-256 or P-384; its
    certificate may stand behind it.
    """
    pem = unescaped_pem(text)
    key = private_key(pem)
    if not _is_long_rsa(key) and not _is_on_curve(key, SECP256R1, SECP384R1):
        raise ValueError(f"is neither an RSA key of at least {RSA_MIN_BITS} bits nor an EC key on P-256 or P-384")
    client_certificate(pem)
    return pem


def client_certificate(pem: str) -> x509.Certificate | None:
    """The certificate behind a client's private key, None where the key stands alone; `ValueError` if another key's."""
    if "-----BEGIN CERTIFICATE-----" not in pem:
        return None
    try:
        certificate = x509.load_pem_x509_certificates(pem.encode())[0]
    except ValueError:
        raise ValueError("holds a certificate that cannot be read; it may be cut short") from None
    if certificate.public_key() != private_key(pem).public_key():
        raise ValueError("holds the certificate of another key; put the key's own behind it, or none")
    return certificate


def private_key(pem: str, *, must_be_pkcs8: bool = False) -> PrivateKeyTypes:
    """The key of a PEM that holds nothing else; `ValueError` says what is there instead, never a part of it."""
    label = _LABEL.search(pem)
    if label is None:
        raise ValueError("is not a PEM; it begins with -----BEGIN PRIVATE KEY-----, line feeds may be written as \\n")
    kind = label[1]
    if "PRIVATE KEY" not in kind:
        raise ValueError(f"holds a {kind.lower()} where the private key belongs")
    if kind == "ENCRYPTED PRIVATE KEY" or "ENCRYPTED" in pem:
        raise ValueError("is encrypted; decrypt it with `openssl pkcs8 -topk8 -nocrypt`")
    if must_be_pkcs8 and kind != "PRIVATE KEY":
        raise ValueError(f"is a {kind}, not PKCS#8; convert it with `openssl pkcs8 -topk8 -nocrypt`")
    try:
        return load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("cannot be read as a private key; it may be cut short") from None


def key_fingerprint(pem: str) -> str:
    """SHA-256 (hex) of a private key's public half, the DER of its SubjectPublicKeyInfo."""
    public = private_key(pem).public_key()
    return hashlib.sha256(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def check_authorities(pem: bytes) -> None:
    """`ValueError` when the text holds no certificate, or one that cannot be read."""
    try:
        x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise ValueError(
            "holds no readable certificate; it must be a PEM file of the authority's certificates"
        ) from None


def _is_on_curve(key: PrivateKeyTypes, *curves: type[EllipticCurve]) -> bool:
    return isinstance(key, EllipticCurvePrivateKey) and isinstance(key.curve, curves)


def _is_long_rsa(key: PrivateKeyTypes) -> bool:
    return isinstance(key, RSAPrivateKey) and key.key_size >= RSA_MIN_BITS
