"""Sealing what replicas share and the store must not read (§11.5): AES-256-GCM under a key of the store secret.

A sealed value is `version (1) | key id (8) | nonce (12) | ciphertext and tag`. The name it is stored under and the
first two fields are authenticated with it, so a value that was moved to another name does not open. The key id is
derived beside the key; it tells a value of another secret from a damaged one, and says nothing about either.
"""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from common.settings.secret import Secret

_VERSION = b"\x01"
_KEY_ID_BYTES = 8
_NONCE_BYTES = 12
"""96 random bits (NIST SP 800-38D §8.2.2): a deployment seals a few values a month, far below 2^32."""
_HEADER_BYTES = len(_VERSION) + _KEY_ID_BYTES
_OVERHEAD_BYTES = _HEADER_BYTES + _NONCE_BYTES


class SealBroken(Exception):
    """A stored value does not open. The text says why and what to do, and holds nothing of the value."""


class SealedElsewhere(SealBroken):
    """It was sealed under another secret."""


class Sealer:
    """Seals and opens values under one store secret."""

    __slots__ = ("_aead", "_key_id")

    def __init__(self, secret: Secret) -> None:
        material = secret.reveal().encode("utf-8", "surrogatepass")
        self._aead = AESGCM(_derived(material, b"wicketgate store key", 32))
        self._key_id = _derived(material, b"wicketgate store key id", _KEY_ID_BYTES)

    @property
    def key_id(self) -> str:
        """Which secret this is, in hexadecimal; no secret itself."""
        return self._key_id.hex()

    def seal(self, name: str, value: bytes) -> bytes:
        """The value for the store, under this name alone."""
        nonce = os.urandom(_NONCE_BYTES)
        header = _VERSION + self._key_id
        return header + nonce + self._aead.encrypt(nonce, value, _bound_to(header, name))

    def open(self, name: str, blob: bytes) -> bytes:
        """What was sealed under this name; `SealedElsewhere` or `SealBroken` when it does not open."""
        header, nonce, sealed = blob[:_HEADER_BYTES], blob[_HEADER_BYTES:_OVERHEAD_BYTES], blob[_OVERHEAD_BYTES:]
        if len(nonce) < _NONCE_BYTES or not header.startswith(_VERSION):
            raise SealBroken(
                f"the value {name!r} in the shared state is damaged, or of a later release: it has no known form"
            )
        if header[1:] != self._key_id:
            raise SealedElsewhere(
                f"the value {name!r} in the shared state was sealed under another GATEWAY_TLS_STORE_SECRET: give every "
                "replica the same one"
            )
        try:
            return self._aead.decrypt(nonce, sealed, _bound_to(header, name))
        except InvalidTag:
            raise SealBroken(
                f"the value {name!r} in the shared state is damaged: somebody changed it, or moved it from another name"
            ) from None


def _derived(material: bytes, purpose: bytes, length: int) -> bytes:
    return HKDF(SHA256(), length, salt=None, info=purpose).derive(material)


def _bound_to(header: bytes, name: str) -> bytes:
    return header + name.encode()
