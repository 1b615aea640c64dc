"""From the text of a variable to its value. A parser raises `ValueError` with what the text should be.

`form` says the same for the reference. No message repeats the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from common.routetable.compiled import TrustedProxies
from common.settings import keys
from common.settings.secret import Secret
from common.settings.urls import is_host, parse_http_url

_DIGITS = re.compile(r"[0-9]{1,18}", re.ASCII)
_SCOPE = re.compile(r"[!#-\[\]-~]+")  # RFC 6749 §3.3, scope-token
_PRINTABLE = re.compile(r"[ -~]+")
_VISIBLE = re.compile(r"[!-~]+")
# It is a schema on Postgres, whose names have at most 63 bytes, and part of every key on Redis.
_PREFIX = re.compile(r"[a-z][a-z0-9_]{0,30}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Parser(Protocol):
    """Makes a value of a text that is not empty."""

    @property
    def form(self) -> str:
        """What the text looks like, in a few words."""
        ...

    def __call__(self, text: str) -> object: ...


class Integer:
    """A whole number in decimal digits, within bounds."""

    def __init__(self, low: int, high: int) -> None:
        self._low = low
        self._high = high
        self.form = f"whole number, {low} to {high}"

    def __call__(self, text: str) -> int:
        if _DIGITS.fullmatch(text) is None or not self._low <= int(text) <= self._high:
            raise ValueError(f"must be a whole number from {self._low} to {self._high}, in digits alone")
        return int(text)


class Seconds(Integer):
    """Milliseconds in the environment, seconds in the settings."""

    def __init__(self, low_ms: int, high_ms: int) -> None:
        super().__init__(low_ms, high_ms)
        self.form = f"milliseconds, {low_ms} to {high_ms}"

    def __call__(self, text: str) -> float:  # type: ignore[override]
        return super().__call__(text) / 1000


class Milliseconds(Integer):
    """Milliseconds in both."""

    def __init__(self, low_ms: int, high_ms: int) -> None:
        super().__init__(low_ms, high_ms)
        self.form = f"milliseconds, {low_ms} to {high_ms}"


class Choice:
    """One of some words."""

    def __init__(self, *words: str) -> None:
        self._words = words
        self.form = " or ".join(f"`{word}`" for word in words)

    def __call__(self, text: str) -> str:
        if text in self._words:
            return text
        raise ValueError(f"must be {' or '.join(self._words)}")


class Boolean:
    """`true` or `false`, nothing that could be meant as either."""

    form = "`true` or `false`"

    def __call__(self, text: str) -> bool:
        if text not in ("true", "false"):
            raise ValueError("must be true or false")
        return text == "true"


class Switch:
    """`on` or `off`."""

    form = "`on` or `off`"

    def __call__(self, text: str) -> bool:
        if text not in ("on", "off"):
            raise ValueError("must be on or off")
        return text == "on"


class Function:
    """A parser from a function and its form."""

    def __init__(self, form: str, parse: Callable[[str], object]) -> None:
        self.form = form
        self._parse = parse

    def __call__(self, text: str) -> object:
        return self._parse(text)


def _secret(form: str, check: Callable[[str], str]) -> Function:
    """A secret; `check` returns the text to keep, or raises `ValueError` with words that do not repeat it."""
    return Function(form, lambda text: Secret(check(text)))


def listed(text: str) -> list[str]:
    """The entries of a comma-separated list, without outer space; an empty one is a `ValueError`."""
    entries = [entry.strip(" ") for entry in text.split(",")]
    if "" in entries:
        raise ValueError("has an empty entry; separate the entries with single commas")
    return entries


def _host(text: str) -> str:
    if not is_host(text):
        raise ValueError("must be a host name or an address, without port and brackets")
    return text


def _path(text: str) -> Path:
    if _CONTROL.search(text):
        raise ValueError("must be a path, without control characters")
    return Path(text)


def _paths(text: str) -> tuple[Path, ...]:
    return tuple(_path(entry) for entry in listed(text))


def _public_url(text: str) -> str:
    url = parse_http_url(text)
    if url.path not in ("", "/"):
        raise ValueError("has a path; the gateway is reached at an origin such as https://app.example.com")
    return url.origin


def _service_url(text: str) -> str:
    url = parse_http_url(text)
    return url.origin + url.path.rstrip("/")


def _issuer(text: str) -> str:
    parse_http_url(text)
    # Kept as written: an issuer is compared with the token's, character for character (OpenID Connect Core §3.1.3.7).
    return text


def _origins(text: str) -> tuple[str, ...]:
    origins: list[str] = []
    for number, entry in enumerate(listed(text), 1):
        if entry in ("null", "*"):
            raise ValueError(f"entry {number} is no origin; name each as https://app.example.com")
        try:
            url = parse_http_url(entry)
        except ValueError as error:
            raise ValueError(f"entry {number} {error}") from None
        if url.path:
            raise ValueError(f"entry {number} has a path; an origin is scheme, host and port, without a final slash")
        origins.append(url.origin)
    return tuple(dict.fromkeys(origins))


def _ranges(text: str) -> TrustedProxies:
    ranges = []
    for number, entry in enumerate(listed(text), 1):
        try:
            ranges.append(ip_network(entry))
        except ValueError as error:
            what = "has bits set behind its prefix" if "host bits" in str(error) else "is not a range"
            raise ValueError(f"entry {number} {what}; write it as 10.0.0.4/32 or fd00::4/128") from None
    return tuple(ranges)


def _scopes(text: str) -> tuple[str, ...]:
    scopes = tuple(dict.fromkeys(text.split(" ")))
    if not all(_SCOPE.fullmatch(scope) for scope in scopes):
        raise ValueError("must be scopes separated by single spaces")
    if "openid" not in scopes:
        raise ValueError("must contain openid; without it the provider gives no ID token")
    return scopes


def _claims(text: str) -> tuple[tuple[str, str], ...]:
    claims: list[tuple[str, str]] = []
    for number, entry in enumerate(listed(text), 1):
        name, equals, value = entry.partition("=")
        if not (name and equals and value):
            raise ValueError(f"entry {number} must be name=value")
        if name in dict(claims):
            raise ValueError(f"entry {number} names its claim again; a claim has one required value")
        claims.append((name, value))
    return tuple(claims)


def _dotted(text: str) -> str:
    if _PRINTABLE.fullmatch(text) is None or "" in text.split("."):
        raise ValueError("must be the name of a claim, or names separated by single dots")
    return text


def _printable(text: str) -> str:
    if _PRINTABLE.fullmatch(text) is None or text != text.strip():
        raise ValueError("must be printable ASCII without outer space")
    return text


def _state_url(text: str) -> str:
    return text if text == "memory://local" else _server_url(text)


def _server_url(text: str) -> str:
    """The URL of a Redis or Postgres, as far as it can be judged without the client: never repeats a part of it."""
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in ("redis", "rediss", "postgres", "postgresql"):
        raise ValueError("must begin with redis://, rediss://, postgres:// or postgresql://")
    if _VISIBLE.fullmatch(text) is None:
        raise ValueError("holds a character that a URL cannot have; percent-escape it")
    hosts = rest.split("?")[0].split("#")[0].split("/")[0].rpartition("@")[2].split(",")
    if not all(_is_server(host) for host in hosts):
        raise ValueError("has no valid host; write it as scheme://user:password@host:port/database")
    if len(hosts) > 1 and scheme.startswith("postgres"):
        raise ValueError("names several hosts; Postgres is reached at one")
    return text


def _is_server(text: str) -> bool:
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port
    except ValueError:
        return False
    return parts.hostname is not None and is_host(parts.hostname) and port != 0


def _prefix(text: str) -> str:
    if _PREFIX.fullmatch(text) is None:
        raise ValueError("must be a lower-case letter, then up to 30 lower-case letters, digits or underscores")
    if text.startswith("pg_"):
        raise ValueError("begins with pg_, which Postgres keeps for itself")
    return text


def _replica_id(text: str) -> str:
    if _VISIBLE.fullmatch(text) is None or len(text) > 128:
        raise ValueError("must be at most 128 visible ASCII characters")
    return text


def _one_line(text: str) -> str:
    if _CONTROL.search(text):
        raise ValueError("holds a control character; it must be one line of text")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("is not UTF-8 text") from None
    return text


def _token(text: str) -> str:
    if _VISIBLE.fullmatch(text) is None:
        raise ValueError("must be visible ASCII without spaces: it is sent in an authorization header")
    return text


HOST = Function("host name or address", _host)
PATH = Function("path", _path)
PATHS = Function("paths, comma-separated", _paths)
PUBLIC_URL = Function("origin, http or https", _public_url)
SERVICE_URL = Function("URL, http or https", _service_url)
ISSUER = Function("URL, http or https", _issuer)
ORIGINS = Function("origins, comma-separated", _origins)
RANGES = Function("CIDR ranges, comma-separated", _ranges)
SCOPES = Function("scopes, space-separated", _scopes)
CLAIMS = Function("`name=value`, comma-separated", _claims)
DOTTED = Function("name, or dotted path", _dotted)
PRINTABLE = Function("text", _printable)
STATE_URL = _secret("`memory://local`, `redis[s]://…` or `postgres://…`", _state_url)
CONTROL_STATE_URL = _secret("`redis[s]://…` or `postgres://…`", _server_url)
STATE_PREFIX = Function("lower-case name", _prefix)
REPLICA_ID = Function("name", _replica_id)
SECRET_TEXT = _secret("secret text", _one_line)
SECRET_TOKEN = _secret("secret token", _token)
IDENTITY_KEY = _secret("PKCS#8 PEM, EC P-256", keys.identity_key)
CLIENT_KEY = _secret("PEM, RSA or EC", keys.client_key)
