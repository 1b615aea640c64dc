"""What stands for a text in a key or a column: short whatever its length, and telling nobody what it was."""

from __future__ import annotations

from hashlib import sha256


def short_digest(text: str) -> bytes:
    """8 bytes of the text's SHA-256, for finding what is to be forgotten: a collision forgets too much, never less."""
    return sha256(text.encode("utf-8", "surrogatepass")).digest()[:8]
