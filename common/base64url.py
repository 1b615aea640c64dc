"""Base64url without padding, as JOSE and PKCE write it (RFC 7515 §2)."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from binascii import b2a_base64

_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def encode(data: bytes) -> bytes:
    """The characters that stand for `data`."""
    return b2a_base64(data, newline=False).translate(_URL_SAFE, b"=")


def decode(text: bytes) -> bytes:
    """What `text` stands for; `ValueError` for a length that no text has.

    Characters outside the alphabet are skipped: who minds looks for them first.
    """
    return urlsafe_b64decode(text + b"=" * (-len(text) % 4))
