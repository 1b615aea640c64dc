"""Upstream URLs to what a request needs of them (§3.1, §11.1). No message repeats a URL: it may hold a password."""

from __future__ import annotations

import base64
import re
from typing import Literal
from urllib.parse import unquote_to_bytes

from common.routetable.compiled import Upstream
from common.routetable.hosts import bracketed, host_with_port
from common.routetable.paths import AmbiguousPath, read_path
from common.telemetry.redact import REDACTED

DEFAULT_PORTS: dict[str, int] = {"http": 80, "https": 443}

MASK = "[redacted]"
"""What stands for a URL's user info where a table is shown. A table that holds it is refused: it was changed and sent
back, and the credential would be lost."""

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)


def parse_upstream(url: str, version: int) -> Upstream:
    """The upstream a URL names. ValueError says what is wrong, without the URL.

    Query, fragment and user info are refused in version 2. Version 1 took them: a query and a fragment are not used,
    and user info becomes a `Basic` credential for the upstream.
    """
    parts = _URL.fullmatch(url)
    if parts is None:
        raise ValueError("is not a URL: write http://host:port or https://host:port")
    scheme = _scheme(parts[1])
    user_info, at, authority = parts[2].rpartition("@")
    if version != 1:
        for present, name in ((at, "user info"), (parts[4], "a query"), (parts[5], "a fragment")):
            if present:
                raise ValueError(f"must not hold {name}")
    if user_info == MASK:
        raise ValueError(f"holds {MASK} in place of a credential that is not shown; write the credential itself")
    host, port = host_with_port(authority)
    default_port = DEFAULT_PORTS[scheme]
    port = default_port if port is None else port
    authority = bracketed(host) if port == default_port else f"{bracketed(host)}:{port}"
    return Upstream(
        scheme=scheme,
        host=host,
        port=port,
        authority=authority,
        base_path=_base_path(parts[3]),
        origin=f"{scheme}://{authority}",
        authorization=_basic(user_info) if at else None,
    )


def literal_authority(text: str) -> str:
    """A literal `upstreamHost` as it is sent: a host, with a port where one is written."""
    host, port = host_with_port(text)
    return bracketed(host) if port is None else f"{bracketed(host)}:{port}"


def _scheme(text: str) -> Literal["http", "https"]:
    scheme = text.lower()
    if scheme == "http":
        return "http"
    if scheme == "https":
        return "https"
    raise ValueError("must be an http or https URL")


def _base_path(path: str) -> str:
    base = path.rstrip("/")
    if base:
        try:
            read_path(base)
        except AmbiguousPath as error:
            raise ValueError(f"has a base path that {error.reason.removeprefix('the path ')}") from None
    return base


def _basic(user_info: str) -> str:
    """The `Basic` credential of a URL's user info (RFC 7617); user and password as UTF-8."""
    if user_info.startswith(REDACTED[:-1]):
        # A table that was shown, and comes back without what was taken out of it.
        raise ValueError("has a credential that was redacted: write the user info again")
    if not user_info.isascii() or re.search(r"[^!-~]|%(?![0-9A-Fa-f]{2})", user_info):
        raise ValueError("has user info that is not written in percent-escapes")
    user, _, password = user_info.partition(":")
    user_bytes, password_bytes = unquote_to_bytes(user), unquote_to_bytes(password)
    if b":" in user_bytes or any(byte < 0x20 or byte == 0x7F for byte in user_bytes + password_bytes):
        raise ValueError("has user info that cannot be sent as a Basic credential")
    return "Basic " + base64.b64encode(user_bytes + b":" + password_bytes).decode("ascii")
