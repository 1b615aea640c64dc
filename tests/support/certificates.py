"""Certificates for tests: an authority of this run, what it issues, and what no client should accept."""

from __future__ import annotations

import datetime
import ssl
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Issued:
    """A chain, the server's certificate first, and its key, both PEM."""

    chain: bytes
    key: bytes

    def write(self, folder: Path, name: str = "tls") -> tuple[Path, Path]:
        """As two files; each replaces its predecessor by a rename."""
        paths = folder / f"{name}.crt", folder / f"{name}.key"
        for path, content in zip(paths, (self.chain, self.key), strict=True):
            replace(path, content)
        return paths

    @property
    def leaf(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.chain)


def replace(path: Path, content: bytes) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(content)
    new.replace(path)


@cache
def authority() -> trustme.CA:
    """The one that the tests' clients trust."""
    return trustme.CA()


def issue(*names: str, ca: trustme.CA | None = None, **options: Any) -> Issued:
    """A good certificate, unless `options` (those of trustme) say otherwise; its chain goes up to the root's child."""
    cert = (ca or authority()).issue_cert(*(names or ("app.test",)), **options)
    return Issued(b"".join(blob.bytes() for blob in cert.cert_chain_pems), cert.private_key_pem.bytes())


def expired(*names: str, days_ago: float = 1) -> Issued:
    return issue(*names, not_before=NOW - 30 * DAY, not_after=NOW - days_ago * DAY)


def client_context(ca: trustme.CA | None = None) -> ssl.SSLContext:
    """A caller that knows the authority alone."""
    context = ssl.create_default_context()
    context.load_verify_locations(cadata=(ca or authority()).cert_pem.bytes().decode())
    context.set_alpn_protocols(["http/1.1"])
    return context


def handmade(
    *names: str,
    key: Any = None,
    algorithm: Any = hashes.SHA256(),  # noqa: B008 (a value without state)
    purpose: x509.ObjectIdentifier | None = None,
) -> Issued:
    """A self-signed certificate with what trustme does not make."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "app.test")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - DAY)
        .not_valid_after(NOW + 30 * DAY)
    )
    if names:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False
        )
    if purpose is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    certificate = builder.sign(key, algorithm)
    return Issued(
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )
