"""When a secret is one (§4.3): long enough as it is read, not one repeated character, and not published."""

from __future__ import annotations

import re

from common.settings.published import is_published

MIN_BYTES = 32

_HEX = re.compile(r"[0-9A-Fa-f]+")
_BASE64 = re.compile(r"(?=.*[+/=])[A-Za-z0-9+/]+={0,2}")


def secret_bytes(text: str) -> tuple[int, str]:
    """How many bytes a secret is worth, and as what it was read: hexadecimal, base64, or a passphrase.

    Two hexadecimal characters are one byte, four of base64 three; a passphrase counts its characters. A text is read
    as base64 when only base64 looks like it: a whole number of groups, with a `+`, `/` or `=` in it.
    """
    if _HEX.fullmatch(text):
        return len(text) // 2, "hexadecimal"
    if len(text) % 4 == 0 and _BASE64.fullmatch(text):
        return len(text) // 4 * 3 - text.count("="), "base64"
    return len(text), "a passphrase"


def weakness(text: str) -> str | None:
    """Why a text is no strong secret, in words for the operator that do not repeat it; None when it is one."""
    exposed = exposure(text)
    if exposed is not None:
        return exposed
    count, kind = secret_bytes(text)
    if count >= MIN_BYTES:
        return None
    return (
        f"is too weak: read as {kind} it is {count} bytes, and {MIN_BYTES} are needed (64 hexadecimal characters, "
        "44 of base64, or a passphrase of 32); make one with `openssl rand -hex 32`"
    )


def exposure(text: str) -> str | None:
    """Why a text is known or guessed whatever its length; None when neither is seen."""
    if is_published(text):
        return "is a value that is published with this software; make your own with `openssl rand -hex 32`"
    if len(set(text)) == 1:
        return "is one repeated character; make one with `openssl rand -hex 32`"
    return None
