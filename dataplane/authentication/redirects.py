"""Where a login may lead back to: a path of this gateway, whatever was asked for (CONTRACT §5.2)."""

from __future__ import annotations

import unicodedata
from urllib.parse import quote, unquote, urljoin, urlsplit

REDIRECT_MAX = 2048
"""Characters. Longer targets lead to `/`, so that one always fits the login cookie."""

# Percent-decoding is repeated until nothing changes. Deeper nesting than this is nobody's bookmark.
_DECODINGS_MAX = 8

# What RFC 3986 lets stand in a path, query and fragment; everything else is escaped.
_SAFE = "!#$%&'()*+,/:;=?@[]~"

# Controls, and lone surrogates, which no UTF-8 text holds.
_CONTROLS = frozenset({"Cc", "Cs"})

_ENDPOINTS = frozenset({"/auth/login", "/auth/callback", "/auth/logout"})


def safe_redirect(target: str, public_url: str) -> str:
    """`target` when it is a path of `public_url`'s origin to whoever reads it, else `/`. The result is ASCII.

    Refused is what a browser could take for another origin (`//host`, `/\\host`, also behind tabs and line feeds, which
    browsers drop), in plain or escaped to any depth; dot segments, which the gateway does not serve; and the addresses
    of the login itself, where it would begin again.
    """
    if len(target) > REDIRECT_MAX or not _is_local(target):
        return "/"
    located = quote(target, safe=_SAFE)
    if len(located) > REDIRECT_MAX:
        return "/"
    here, there = urlsplit(public_url), urlsplit(urljoin(public_url + "/", located))
    return located if (there.scheme, there.netloc) == (here.scheme, here.netloc) else "/"


def _is_local(target: str) -> bool:
    path = target.partition("#")[0].partition("?")[0]
    decoded, decoded_path = _fully_decoded(target), _fully_decoded(path)
    if decoded is None or decoded_path is None or any(unicodedata.category(each) in _CONTROLS for each in decoded):
        return False
    if not all(text.startswith("/") and text[1:2] not in {"/", "\\"} for text in (target, decoded)):
        return False
    segments = decoded_path.replace("\\", "/").split("/")
    if any(segment.partition(";")[0] in {".", ".."} for segment in segments):
        return False
    return decoded_path.rstrip("/") not in _ENDPOINTS


def _fully_decoded(text: str) -> str | None:
    for _ in range(_DECODINGS_MAX):
        decoded = unquote(text)
        if decoded == text:
            return text
        text = decoded
    return None
