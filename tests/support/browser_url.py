"""Resolves a `Location` the way browsers do (WHATWG URL Standard, as far as http and https go)."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

_SPECIAL = {"http", "https", "ws", "wss", "ftp", "file"}


def origin_after_redirect(location: str, base: str) -> str:
    """The origin a browser at `base` is at when it has followed `location`; the scheme alone for an opaque one."""
    text = location.strip("".join(map(chr, range(0x21))))
    text = re.sub(r"[\t\n\r]", "", text)
    scheme = re.match(r"([a-zA-Z][a-zA-Z0-9+.-]*):", text)
    here = urlsplit(base)
    if scheme is not None:
        name = scheme[1].lower()
        rest = text[scheme.end() :]
        if name not in _SPECIAL:
            return f"{name}:"
        # The same scheme without slashes is relative to the base; another special one takes any number of slashes.
        if name == here.scheme and not rest.replace("\\", "/").startswith("//"):
            return _relative(rest, base)
        return _authority(name, rest)
    return _relative(text, base)


def _relative(text: str, base: str) -> str:
    here = urlsplit(base)
    if text.replace("\\", "/").startswith("//"):
        return _authority(here.scheme, text)
    return base


def _authority(scheme: str, text: str) -> str:
    rest = text.replace("\\", "/").lstrip("/")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    host = unquote(authority.rpartition("@")[2]).lower()
    return f"{scheme}://{host}"
