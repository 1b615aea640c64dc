"""Environments that load, for tests that change one thing about them. Their secrets are made anew in each run."""

from __future__ import annotations

import secrets

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from common.settings.errors import SettingsInvalid
from common.settings.gateway import GatewaySettings
from common.settings.load import load_gateway_settings
from common.settings.read import ReadFile


def pem(
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey,
    form: PrivateFormat = PrivateFormat.PKCS8,
    password: bytes | None = None,
) -> str:
    """A private key as text."""
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, form, encryption).decode()


P256_PEM = pem(ec.generate_private_key(ec.SECP256R1()))

MINIMAL = {"GATEWAY_CONFIG": "gateway.json"}

PRODUCTION = {
    "GATEWAY_ENV": "production",
    "GATEWAY_CONFIG": "/etc/wicketgate/gateway.json",
    "GATEWAY_PUBLIC_URL": "https://app.example.com",
    "GATEWAY_OIDC_ISSUER": "https://id.example.com/realms/main",
    "GATEWAY_OIDC_CLIENT_ID": "gateway",
    "GATEWAY_OIDC_CLIENT_SECRET": secrets.token_urlsafe(24),
    "GATEWAY_OIDC_AUDIENCE": "gateway",
    "GATEWAY_SESSION_SECRET": secrets.token_hex(32),
    "GATEWAY_IDENTITY_SIGNING_KEY": P256_PEM,
    "GATEWAY_SINGLE_REPLICA": "true",
}


def no_file(path: str) -> bytes:
    """There are no files."""
    raise FileNotFoundError(2, "No such file or directory")


def files(**contents: bytes) -> ReadFile:
    """A reader that knows these names and no other."""

    def read(path: str) -> bytes:
        if path not in contents:
            raise FileNotFoundError(2, "No such file or directory")
        return contents[path]

    return read


def load(base: dict[str, str], read_file: ReadFile = no_file, /, **changes: str | None) -> GatewaySettings:
    """The settings of an environment with some variables changed (None: absent), without their prefix."""
    environ = {**base, **{f"GATEWAY_{name}": text for name, text in changes.items() if text is not None}}
    for name, text in changes.items():
        if text is None:
            environ.pop(f"GATEWAY_{name}", None)
    return load_gateway_settings(environ, read_file=read_file)


def problems(base: dict[str, str], read_file: ReadFile = no_file, /, **changes: str | None) -> tuple[str, ...]:
    """What is wrong with that environment; () when nothing is."""
    try:
        load(base, read_file, **changes)
    except SettingsInvalid as invalid:
        return invalid.problems
    return ()
