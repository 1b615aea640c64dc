"""The two readings of a path (CONTRACT §3.1, "Path safety").

Routes are matched on the strict reading. The loosest one is how a careless upstream may read the same bytes; where the
two lead to different places the request is refused, so no spelling slips past the route of the path it ends up at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

# Visible ASCII without `#`, `%`, `;`, `?` and `\`.
_PLAIN = re.compile(r'/[!"$&-:<=>@-\[\]-~]*')
_FORBIDDEN = re.compile(r"[^!-~]|[#?]")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_BREAKING_ESCAPE = re.compile(r"%0[0ADad]")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_PARAMETERS = re.compile(r";[^/]*")
_SLASHES = re.compile(r"/{2,}")
_DOT_SEGMENT = re.compile(r"/\.\.?(?=/|\Z)")

_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_STRICT_ESCAPES = {
    f"%{code:02X}": chr(code) if chr(code) in _UNRESERVED else f"%{code:02X}" for code in range(256)
}  # fmt: skip


class AmbiguousPath(Exception):
    """The path has no single safe reading: 400 `bad_request`. `reason` is for the log."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Readings:
    """Both readings of one path. `loosest` holds one character a byte (Latin-1), so that nothing is lost in it."""

    strict: str
    loosest: str


def is_plain(path: str) -> bool:
    """The path reads the same both ways as it stands, so one reading is enough. Cheap, and never true in error."""
    return _PLAIN.fullmatch(path) is not None and "//" not in path and "/." not in path


def read_path(path: str) -> Readings:
    """Both readings of a path as sent (without its query). Raises `AmbiguousPath` for what the contract refuses."""
    if not path.startswith("/"):
        raise AmbiguousPath("the path does not start with a slash")
    if _FORBIDDEN.search(path) is not None:
        raise AmbiguousPath("the path holds a control, space, non-ASCII character or fragment")
    if _BROKEN_ESCAPE.search(path) is not None:
        raise AmbiguousPath("the path holds a malformed percent-escape")
    if _BREAKING_ESCAPE.search(path) is not None:
        raise AmbiguousPath("the path holds an escape of NUL, CR or LF")
    loosest = loosest_reading(path)
    if _DOT_SEGMENT.search(loosest) is not None:
        raise AmbiguousPath("the path holds a dot segment")
    return Readings(strict_reading(path), loosest)


def strict_reading(path: str) -> str:
    """Escapes of unreserved characters decoded, the others in upper case (RFC 3986 §6.2.2). Idempotent."""
    if "%" not in path:
        return path
    return _ESCAPE.sub(lambda escape: _STRICT_ESCAPES[escape[0].upper()], path)


def loosest_reading(path: str) -> str:
    r"""Every escape decoded once, `\` as `/`, `;parameters` dropped, then repeated slashes merged."""
    decoded = decoded_once(path).replace("\\", "/")
    if ";" in decoded:
        decoded = _PARAMETERS.sub("", decoded)
    return _SLASHES.sub("/", decoded)


def decoded_once(text: str) -> str:
    """Every escape of an ASCII text decoded once, one character a byte."""
    return unquote_to_bytes(text).decode("latin-1") if "%" in text else text
