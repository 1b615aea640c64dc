"""What is kept in the shared state, as values and as the bytes that are sealed there.

    account      the key and address of this deployment's account at the authority
    certificate  the private key and full chain that is served
    progress     what became of the last attempts, and what the authority suggests: replicas go by one record

Bytes of a later form raise `UnknownRecord`; nothing is guessed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

import orjson
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

_FORM = 1
T = TypeVar("T")


class UnknownRecord(Exception):
    """The bytes are no record of this release."""


@dataclass(frozen=True, slots=True)
class Account:
    """An account at the authority. `url` is the authority's name of it."""

    key_pem: bytes = field(repr=False)
    url: str
    email: str

    def to_bytes(self) -> bytes:
        return _write(key=self.key_pem.decode(), url=self.url, email=self.email)

    @staticmethod
    def from_bytes(data: bytes) -> Account:
        return _read(data, lambda v: Account(_text(v, "key").encode(), _text(v, "url"), _text(v, "email")))


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate with its key. Times are milliseconds since the epoch; `fingerprint` is SHA-256 of the leaf, hex."""

    key_pem: bytes = field(repr=False)
    chain_pem: bytes = field(repr=False)
    fingerprint: str
    serial: str
    not_before_ms: int
    not_after_ms: int

    @property
    def ends(self) -> str:
        """When it expires, RFC 3339."""
        return f"{datetime.fromtimestamp(self.not_after_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"

    @staticmethod
    def of(key_pem: bytes, chain_pem: bytes) -> Issued:
        """From PEM; `ValueError` when the chain cannot be read. Nothing is checked: that is the TLS package's."""
        chain = x509.load_pem_x509_certificates(chain_pem)
        leaf = chain[0]
        return Issued(
            key_pem,
            chain_pem,
            fingerprint=hashlib.sha256(leaf.public_bytes(Encoding.DER)).hexdigest(),
            serial=f"{leaf.serial_number:x}",
            not_before_ms=round(leaf.not_valid_before_utc.timestamp() * 1000),
            not_after_ms=round(leaf.not_valid_after_utc.timestamp() * 1000),
        )

    def to_bytes(self) -> bytes:
        return _write(key=self.key_pem.decode(), chain=self.chain_pem.decode())

    @staticmethod
    def from_bytes(data: bytes) -> Issued:
        return _read(data, lambda v: Issued.of(_text(v, "key").encode(), _text(v, "chain").encode()))


@dataclass(frozen=True, slots=True)
class Advice:
    """When the authority wants one certificate renewed (RFC 9773). `renew_at_ms` 0: it did not say."""

    fingerprint: str
    renew_at_ms: int
    ask_again_ms: int


@dataclass(frozen=True, slots=True)
class Progress:
    """What became of the attempts so far.

    `refused` attempts failed since the last certificate because the authority said no, `unreachable` since then because
    it was not there. The last failure is told by `last_error` and `failed_at_ms`; nothing is tried before
    `retry_at_ms`. `renew_now` names the certificate (its fingerprint) that an operator wants replaced; `""` for none.
    """

    refused: int = 0
    unreachable: int = 0
    retry_at_ms: int = 0
    failed_at_ms: int = 0
    last_error: str = ""
    renew_now: str = ""
    advice: Advice | None = None

    @property
    def failing(self) -> bool:
        """The last attempt came to nothing."""
        return self.refused > 0 or self.unreachable > 0

    def to_bytes(self) -> bytes:
        advice = self.advice
        return _write(
            refused=self.refused,
            unreachable=self.unreachable,
            retryAtMs=self.retry_at_ms,
            failedAtMs=self.failed_at_ms,
            lastError=self.last_error,
            renewNow=self.renew_now,
            advice=None
            if advice is None
            else {"of": advice.fingerprint, "renewAtMs": advice.renew_at_ms, "askAgainMs": advice.ask_again_ms},
        )

    @staticmethod
    def from_bytes(data: bytes) -> Progress:
        return _read(data, _progress)


def _progress(values: Mapping[str, Any]) -> Progress:
    advice = values["advice"]
    return Progress(
        refused=_number(values, "refused"),
        unreachable=_number(values, "unreachable"),
        retry_at_ms=_number(values, "retryAtMs"),
        failed_at_ms=_number(values, "failedAtMs"),
        last_error=_text(values, "lastError"),
        renew_now=_text(values, "renewNow"),
        advice=None
        if advice is None
        else Advice(_text(advice, "of"), _number(advice, "renewAtMs"), _number(advice, "askAgainMs")),
    )


def _write(**values: object) -> bytes:
    return orjson.dumps({"form": _FORM, **values})


def _read(data: bytes, make: Callable[[Mapping[str, Any]], T]) -> T:
    try:
        values = orjson.loads(data)
        if values["form"] != _FORM:
            raise UnknownRecord("it was written by a later release")
        return make(values)
    except (ValueError, KeyError, TypeError):
        # Not its cause, which may quote what was read.
        raise UnknownRecord("it has no known form") from None


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values[name]
    if not isinstance(value, str):
        raise TypeError(name)
    return value


def _number(values: Mapping[str, Any], name: str) -> int:
    value = values[name]
    if not isinstance(value, int):
        raise TypeError(name)
    return value
