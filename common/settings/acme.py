"""The variables of a certificate from an authority (§11.5), and what is wrong between them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

from common import base64url
from common.routetable.hosts import MAX_HOST_CHARACTERS, host_pattern, is_address
from common.settings import parsers
from common.settings.parsers import Choice, Function, Integer, listed
from common.settings.secret import Secret
from common.settings.urls import is_private_host, parse_http_url
from common.settings.variable import Section, named

MAX_NAMES = 100
"""What public authorities put into one certificate."""
HMAC_MIN_BYTES = 16

_EMAIL = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")
_BASE64URL = re.compile(r"[A-Za-z0-9_-]+")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def _directory(text: str) -> str:
    url = parse_http_url(text)
    if url.scheme != "https" and url.host not in _LOOPBACK:
        raise ValueError("must be https; http is for an authority on this machine")
    return text


def _writer_url(text: str) -> str:
    url = parse_http_url(text)
    if url.scheme != "https" and not is_private_host(url.host):
        raise ValueError("must be https, or lead to a private address: a token is sent to it")
    return text


def _names(text: str) -> tuple[str, ...]:
    names: list[str] = []
    for number, entry in enumerate(listed(text), 1):
        try:
            name = _name(entry)
        except ValueError as error:
            raise ValueError(f"entry {number} {error}") from None
        if name in names:
            raise ValueError(f"entry {number} is named twice")
        names.append(name)
    if len(names) > MAX_NAMES:
        raise ValueError(f"has more than {MAX_NAMES} names; a certificate holds no more")
    for number, name in enumerate(names, 1):
        # Authorities refuse an order for both.
        if f"*.{name.partition('.')[2]}" in names and not name.startswith("*."):
            raise ValueError(f"entry {number} is covered by a wildcard of the list; remove one of them")
    return tuple(names)


def _name(text: str) -> str:
    if not text.isascii():
        raise ValueError("is not ASCII; write it in its A-label form (xn--…)")
    name = host_pattern(text)
    if name == "*" or "_" in name:
        raise ValueError("is not a host name that can be certified, such as app.example.com or *.example.com")
    if is_address(name.removeprefix("*.")):
        raise ValueError("is an address; an authority certifies host names")
    return name


def _email(text: str) -> str:
    if _EMAIL.fullmatch(text) is None or len(text) > MAX_HOST_CHARACTERS:
        raise ValueError("must be one mail address, such as operations@example.com")
    return text


def _hmac(text: str) -> Secret:
    bare = text.rstrip("=")
    if _BASE64URL.fullmatch(bare) is None or len(bare) % 4 == 1:
        raise ValueError("must be base64url, as the authority gives it")
    if len(base64url.decode(bare.encode())) < HMAC_MIN_BYTES:
        raise ValueError(f"is shorter than {HMAC_MIN_BYTES} bytes; it may be cut short")
    return Secret(bare)


ACME = Section(
    "Certificates from an authority",
    (
        named(
            "GATEWAY_ACME_DIRECTORY",
            "",
            Function("URL, https", _directory),
            "The directory of an ACME authority (RFC 8555), which the certificate is obtained from and renewed at. "
            "Setting it agrees to the authority's terms of service.",
            default_words="none",
        ),
        named(
            "GATEWAY_ACME_NAMES",
            "",
            Function("host names, comma-separated", _names),
            "The names of the certificate. A wildcard needs `dns-01`.",
            default_words="required with an authority",
        ),
        named(
            "GATEWAY_ACME_EMAIL",
            "",
            Function("mail address", _email),
            "Whom the authority writes to.",
            default_words="nobody",
        ),
        named(
            "GATEWAY_ACME_CA",
            "",
            parsers.PATH,
            "PEM file of the authorities behind the certificate of the directory itself.",
            default_words="those that come with `certifi`",
        ),
        named(
            "GATEWAY_ACME_EAB_KID",
            "",
            parsers.PRINTABLE,
            "The key id of an account that you have at the authority, where it wants one (external account binding).",
            default_words="none",
        ),
        named(
            "GATEWAY_ACME_EAB_HMAC",
            "",
            Function("base64url", _hmac),
            "The key that goes with it.",
            default_words="none",
            secret=True,
        ),
        named(
            "GATEWAY_ACME_CHALLENGE",
            "http-01",
            Choice("http-01", "dns-01"),
            "How the names are shown to be yours: by an answer on their port 80, which must lead to the plain listener "
            "or to `gateway-challenges`; or by a record in their zone.",
        ),
        named(
            "GATEWAY_ACME_DNS_WRITER_URL",
            "",
            Function("URL, https or a private address", _writer_url),
            "The service of yours that publishes and withdraws the records of `dns-01`.",
            default_words="required with `dns-01`",
        ),
        named(
            "GATEWAY_ACME_DNS_WRITER_TOKEN",
            "",
            parsers.SECRET_TOKEN,
            "Bearer token that the gateway shows it.",
            default_words="required with `dns-01`",
            production="strong",
            secret=True,
        ),
        named(
            "GATEWAY_ACME_RENEW_BEFORE_DAYS",
            "30",
            Integer(1, 365),
            "How long before its end the certificate is renewed; a third of its lifetime, where that is shorter.",
        ),
        named(
            "GATEWAY_TLS_STORE_SECRET",
            "",
            parsers.SECRET_TEXT,
            "What the keys of the certificate and of the account are sealed with in the shared state; the same on "
            "every replica.",
            default_words="required with an authority, unless the state is in memory",
            production="strong",
            secret=True,
        ),
    ),
)

CHALLENGES = Section(
    "The responder of challenges",
    (
        named("GATEWAY_CHALLENGES_HOST", "0.0.0.0", parsers.HOST, "Address to listen on."),  # noqa: S104
        named("GATEWAY_CHALLENGES_PORT", "8082", Integer(0, 65_535), "Port to listen on; 0 takes any free one."),
    ),
    "`gateway-challenges` reads these, the gateway's variables of the shared state, and `GATEWAY_LOG_LEVEL`.",
)

_OTHERS = tuple(variable.name for variable in ACME.variables if variable.name != "GATEWAY_ACME_DIRECTORY")


def acme_problems(values: Mapping[str, object], given: Set[str]) -> list[str]:
    """Variables that are right alone and wrong together. `values` and `given` as in `relation_problems`."""
    if "GATEWAY_ACME_DIRECTORY" not in given:
        return [
            f"{name}: has no effect without GATEWAY_ACME_DIRECTORY; set that, or remove it"
            for name in _OTHERS
            if name in given
        ]
    problems = [
        f"{name}: is set, and GATEWAY_ACME_DIRECTORY is too; the certificate comes from files or from an authority"
        for name in ("GATEWAY_TLS_CERT", "GATEWAY_TLS_KEY")
        if name in given
    ]
    if "GATEWAY_ACME_NAMES" not in given:
        problems.append("GATEWAY_ACME_NAMES: is not set, and GATEWAY_ACME_DIRECTORY is; name the certificate's names")
    eab = {"GATEWAY_ACME_EAB_KID", "GATEWAY_ACME_EAB_HMAC"}
    if len(eab & given) == 1:
        problems.append(f"{min(eab - given)}: is not set, and {min(eab & given)} is; set both, or neither")
    return problems + _challenge_problems(values, given) + _store_problems(values, given)


def _challenge_problems(values: Mapping[str, object], given: Set[str]) -> list[str]:
    writer = ("GATEWAY_ACME_DNS_WRITER_URL", "GATEWAY_ACME_DNS_WRITER_TOKEN")
    if values.get("GATEWAY_ACME_CHALLENGE") == "dns-01":
        return [
            f"{name}: dns-01 needs it; name the service that writes the zone" for name in writer if name not in given
        ]
    problems = [
        f"{name}: has no effect without GATEWAY_ACME_CHALLENGE=dns-01; set that, or remove it"
        for name in writer
        if name in given
    ]
    names = values.get("GATEWAY_ACME_NAMES")
    if isinstance(names, tuple) and any(name.startswith("*.") for name in names):
        problems.append("GATEWAY_ACME_NAMES: holds a wildcard, which needs GATEWAY_ACME_CHALLENGE=dns-01")
    return problems


def _store_problems(values: Mapping[str, object], given: Set[str]) -> list[str]:
    url = values.get("GATEWAY_STATE_URL")
    in_memory = isinstance(url, Secret) and url.reveal() == "memory://local"
    problems = []
    if in_memory and values.get("GATEWAY_ENV") == "production":
        problems.append(
            "GATEWAY_STATE_URL: memory://local loses the certificate with the process, and authorities allow few a "
            "week; name a Redis or Postgres for GATEWAY_ACME_DIRECTORY"
        )
    if not in_memory and "GATEWAY_TLS_STORE_SECRET" not in given:
        problems.append(
            "GATEWAY_TLS_STORE_SECRET: is not set, and GATEWAY_ACME_DIRECTORY is; private keys are sealed with it in "
            "the shared state; make one with `openssl rand -hex 32`"
        )
    return problems
