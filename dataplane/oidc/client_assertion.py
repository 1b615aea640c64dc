"""`private_key_jwt`: this client proves itself with a signature instead of a secret (OIDC Core §9, RFC 7523 §2.2)."""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64encode

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from common.settings.keys import client_certificate
from common.settings.secret import Secret

_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_LIFETIME_S = 60
"""Long enough for clocks that differ a little; each assertion is used once and at once."""

_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384"}


class ClientAssertion:
    """Signs assertions with the client's private key: EC P-256 or P-384, or RSA of at least 2048 bits.

    A certificate behind the key is named by its thumbprint (`x5t#S256`, RFC 7515 §4.1.8): that is how Entra finds the
    key, and it wants PS256 then. Without one the assertion names no key, since no two providers call one alike.
    """

    def __init__(self, client_id: str, pem: Secret) -> None:
        """A key of another kind, or none, is `ValueError`; its text holds nothing of the key."""
        self._client_id = client_id
        self._algorithm, self._key = _load(pem)
        self._header = {}
        certificate = client_certificate(pem.reveal())
        if certificate is not None:
            thumbprint = urlsafe_b64encode(certificate.fingerprint(SHA256())).rstrip(b"=").decode("ascii")
            self._header = {"x5t#S256": thumbprint}
            self._algorithm = self._algorithm.replace("RS", "PS")

    def form(self, token_endpoint: str, now_s: float) -> dict[str, str]:
        """The two form fields that carry a new assertion for `token_endpoint`."""
        claims = {
            "iss": self._client_id,
            "sub": self._client_id,
            "aud": token_endpoint,
            "jti": secrets.token_urlsafe(16),
            "iat": int(now_s),
            "exp": int(now_s) + _LIFETIME_S,
        }
        header = {"alg": self._algorithm, **self._header}
        assertion = jwt.encode(header, claims, self._key, algorithms=[self._algorithm])
        return {"client_assertion_type": _TYPE, "client_assertion": assertion}


def _load(pem: Secret) -> tuple[str, RSAKey | ECKey]:
    try:
        key = load_pem_private_key(pem.reveal().encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("GATEWAY_OIDC_CLIENT_KEY is not a PEM private key without a passphrase") from None
    if isinstance(key, EllipticCurvePrivateKey) and key.curve.name in _CURVES:
        return _CURVES[key.curve.name], ECKey.import_key(key)
    if isinstance(key, RSAPrivateKey) and key.key_size >= 2048:
        return "RS256", RSAKey.import_key(key)
    raise ValueError("GATEWAY_OIDC_CLIENT_KEY must be an EC P-256 or P-384 key, or RSA of at least 2048 bits")
