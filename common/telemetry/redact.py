"""What a log may show of a text: credentials removed, control characters escaped, length bounded (§12.2).

Pure functions on text. Everything here errs towards removing too much: a value that only looks like a credential is
replaced by `[redacted]`, the words around it stay.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote_plus

REDACTED = "[redacted]"

TEXT_MAX = 2_048
"""Code points kept of one value: enough for any sane path or message, and an attacker's megabyte costs little."""

NAME_MAX = 72
"""The end of a name that is looked at."""
PIECES_MAX = 64
"""Parameters of one target that are looked at; what follows is no longer worth the time."""
NAMES_MAX = 32
"""Names looked at within one parameter: more of them are nested on purpose, and the parameter is removed."""
ESCAPES_MAX = 600
"""Percent-escapes in one piece (200 characters of most scripts); decoding many more would cost a millisecond."""

# Names that carry a credential wherever these letters stand in them (`client_secret`, `x-amz-security-token`, …).
NAME_PARTS = (
    "token", "secret", "passw", "passphrase", "pwd", "apikey", "credential", "assertion", "verifier", "signature",
    "authorization", "cookie", "jwt", "sessionid", "privatekey", "samlresponse",
)  # fmt: skip

# Parameters that carry one under a short, common name; only as whole names, and only in `name=value`.
EXACT_NAMES = frozenset(
    ("code", "state", "nonce", "key", "auth", "sig", "sid", "session", "otp", "pin", "ticket", "usercode", "devicecode",
     "authcode", "authorizationcode", "sessionstate", "loginhint", "idtokenhint", "gatewaysession", "gatewayoidcstate")
)  # fmt: skip

_PART = re.compile("|".join(NAME_PARTS))
_NOT_NAME = re.compile(r"[^a-z0-9]+")
# The name before an `=`, read backwards so that it costs its own length; what stands between the two may be dropped by
# whoever reads the parameter.
_NAME_BACKWARDS = re.compile(r"[^A-Za-z0-9]{0,8}?([A-Za-z0-9_.\-\[\]]+)")
_PIECES = re.compile(r"([?&;#])")
_USER_INFO = re.compile(r"(://|^//)[^/?#\s]*@")
_JWT = re.compile(r"eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,4}")

# A header with everything on its line and on folded lines below it, also as it stands in a printed list or mapping.
_HEADER = re.compile(
    r"""(?ix) \b ( (?:proxy-)?authorization | set-cookie2? | cookie | x-api-key )
    ( ["']? \s* [:=] \s* b? ["']? | ["'] \s* , \s* b? ["'] ) [^\r\n]+ (?: \r?\n [\ \t]+ [^\r\n]* )*"""
)
# A scheme and what follows it, unless that is a plain word of a sentence such as "bearer token expired".
_SCHEME = re.compile(
    r"""(?ix) \b (bearer|basic|digest|negotiate|ntlm|dpop) (\s+)
    (?! (?:tokens?|auth|authentication|authorization|credentials?|realm|scheme|headers?|is|was|has|not)
        (?! [\w+/=~.-]* [\w+/=~-] ) )
    [\w+/=~.:-]+"""
)
_PAIR = re.compile(
    r"""(?x) (?<! [\w.%\[\]-] ) ( [\w.%\[\]-]++ ) ( ["']? \s* [:=] \s* )
    ( b?"[^"]*"? | b?'[^']*'? | [^\s"'&;,)}\]]+ )"""
)
# What follows the colon of a sentence ("bearer token: expired"): no generated credential is a short lower-case word.
_PROSE = re.compile(r"[a-z]{1,15}[.,]?")
_CHOSEN_BY_PEOPLE = re.compile("passw|passphrase|pwd", re.IGNORECASE)
_HEADER_WORDS = ("authorization", "cookie", "x-api-key")
_SCHEME_WORDS = ("bearer", "basic", "digest", "negotiate", "ntlm", "dpop")
_WORD = re.compile(r"\S+")

# Line separators and direction marks would let one event look like another, lone surrogates are no UTF-8.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def is_sensitive_name(name: str) -> bool:
    """Whether a value under this name (of a header, parameter or field) is a credential. Case and `_-.[]` do not count.

    The short names of `EXACT_NAMES` are not among them.
    """
    return _part_in(name[-NAME_MAX:])


def is_sensitive_parameter(name: str) -> bool:
    """The same for a decoded parameter of a query, a form or a path."""
    return is_sensitive_name(name) or _folded(name) in EXACT_NAMES


def redact_target(target: str) -> str:
    """A request target or URL without credentials: user info, parameters with sensitive names, JWTs.

    A parameter counts wherever it stands (query, fragment, path segment, matrix parameter, a URL inside another
    parameter) and however often its name is percent-escaped. The rest stays byte for byte.
    """
    if not _may_hold_credential(target):
        return target
    if "@" in target:
        target = _USER_INFO.sub(rf"\1{REDACTED}@", target)
    if "eyJ" in target:
        target = _JWT.sub(REDACTED, target)
    pieces = _PIECES.split(target, PIECES_MAX)
    redacted = [_piece(piece) for piece in pieces[: PIECES_MAX * 2]]
    return "".join([*redacted, REDACTED] if len(pieces) > PIECES_MAX * 2 else redacted)


def redact_text(text: str) -> str:
    """A message, an error text or a stack trace without credentials: header lines, schemes, pairs and URLs."""
    lower = text.lower()
    if any(word in lower for word in _HEADER_WORDS):
        text = _HEADER.sub(rf"\1\2{REDACTED}", text)
    if any(word in lower for word in _SCHEME_WORDS):
        text = _SCHEME.sub(rf"\1\2{REDACTED}", text)
    if ":" in text or "=" in text:
        text = _PAIR.sub(_pair, text)
    return _WORD.sub(_word, text) if _may_hold_credential(text) else text


def escape_controls(text: str) -> str:
    r"""The text on one line, without characters that steer a terminal: they become `\n`, `\x1b`, `\u202e`."""
    if text.isprintable():
        return text
    return _CONTROL.sub(_escape, text)


def bounded(text: str, limit: int = TEXT_MAX) -> str:
    """The first `limit` code points, and how many are missing."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}…[{len(text) - limit} more]"


def safe_text(text: str, limit: int = TEXT_MAX) -> str:
    """`redact_text`, `bounded` and `escape_controls` together, in an order in which a cut uncovers nothing."""
    return escape_controls(bounded(redact_text(_trimmed(text, limit)), limit))


def safe_target(target: str, limit: int = TEXT_MAX) -> str:
    """`redact_target`, `bounded` and `escape_controls` together."""
    return escape_controls(bounded(redact_target(_trimmed(target, limit)), limit))


def _trimmed(text: str, limit: int) -> str:
    """More than is kept, so that what decides about a value at the cut is still seen, and no megabyte is searched."""
    return text[: 2 * limit]


def _piece(piece: str) -> str:
    if "=" not in piece and "%" not in piece:
        return piece
    name, equals, _ = piece.partition("=")
    if "%" not in piece:
        return _plain_piece(piece, name)
    if piece.count("%") > ESCAPES_MAX:
        return REDACTED
    decoded = _decoded(piece)
    if _USER_INFO.search(decoded) is None and _JWT.search(decoded) is None and not _names_credential(decoded):
        return piece
    return f"{name}={REDACTED}" if equals and "=" not in _decoded(name) else REDACTED


def _plain_piece(piece: str, name: str) -> str:
    if piece.count("=") == 1:
        return f"{name}={REDACTED}" if _parameter(name) else piece
    return f"{name}={REDACTED}" if _names_credential(piece) else piece


def _names_credential(text: str) -> bool:
    """Whether a credential's name stands before an `=` anywhere in a decoded text."""
    befores = text.split("=", NAMES_MAX)
    return len(befores) > NAMES_MAX or any(is_sensitive_parameter(_name_at_end(before)) for before in befores[:-1])


def _name_at_end(text: str) -> str:
    found = _NAME_BACKWARDS.match(text[: -NAME_MAX - 9 : -1])
    return found[1][::-1] if found else ""


def _parameter(name: str) -> bool:
    """`is_sensitive_parameter` of the last word of a piece such as `/files/code`, `(code` or `code`."""
    return _cached_parameter(name[-NAME_MAX:])


@lru_cache(maxsize=2_048)
def _cached_parameter(name: str) -> bool:
    return is_sensitive_parameter(_name_at_end(name))


@lru_cache(maxsize=2_048)
def _part_in(name: str) -> bool:
    return _PART.search(_folded(name)) is not None


def _folded(name: str) -> str:
    return _NOT_NAME.sub("", name.lower())


def _decoded(text: str) -> str:
    """Percent-escapes undone until nothing changes, at most four times: deeper nesting is no honest URL."""
    for _ in range(4):
        if "%" not in text:
            break
        once = unquote_plus(text, errors="replace")
        if once == text:
            break
        text = once
    return text


def _may_hold_credential(target: str) -> bool:
    return "=" in target or "%" in target or "@" in target or "eyJ" in target


def _word(found: re.Match[str]) -> str:
    return redact_target(found[0])


def _pair(found: re.Match[str]) -> str:
    name, between, value = found.groups()
    if not is_sensitive_name(_decoded(name)) or value.startswith(REDACTED[:-1]):
        return found[0]
    if between.strip() == ":" and _PROSE.fullmatch(value) and not _CHOSEN_BY_PEOPLE.search(name):
        return found[0]
    return f"{name}{between}{REDACTED}"


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    short = {9: r"\t", 10: r"\n", 13: r"\r"}.get(code)
    if short is not None:
        return short
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
