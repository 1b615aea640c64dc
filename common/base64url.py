"""Base64url without padding, as JOSE and PKCE write it (RFC 7515 §2)."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode


def encode(data: bytes) -> bytes:
    """The characters that stand for `data`."""
    return urlsafe_b64encode(data).rstrip(b"=")


def decode(text: bytes) -> bytes:
    """What `text` stands for; `ValueError` for a length that no text has.

    Characters outside the alphabet are skipped: who minds looks for them first.
    """
    return urlsafe_b64decode(text + b"=" * (-len(text) % 4))
