"""The identity signature, version 5: a JWS with a detached payload (§7.4, RFC 7515 appendix F).

    gateway:   IdentityFields + request -> identity_payload -> IdentitySigner.sign -> x-gateway-signature
    upstream:  headers + request -> the same identity_payload -> verify against the public key

The payload travels nowhere: the upstream rebuilds it, so a signature of another request or caller fails to verify
instead of failing a comparison that somebody might forget. A signer serves one event loop and takes no lock.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Iterable
from contextlib import suppress
from typing import TypeAlias

import orjson
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey

from common import base64url
from common.identity.headers import (
    EMAIL,
    ROLES,
    SIGNATURE,
    USER_ID,
    WORKSPACE_ID,
    IdentityFields,
    WrittenIdentity,
    written_identity,
)
from common.identity.principal import Principal
from common.values import remember

VERSION = "v5"
PROTECTED_HEADER = b'{"alg":"ES256","typ":"gateway-identity"}'

_ECDSA = ec.ECDSA(hashes.SHA256())
_COORDINATE_BYTES = 32  # of P-256: JWS wants both integers at full length (RFC 7518 §3.4)

CACHED_SIGNATURES = 4096
CACHED_MAX_BYTES = 2048
"""What is longer is signed anew each time, so a flood of long targets cannot make the memory of them large."""

_Said: TypeAlias = tuple[str, str, tuple[str, ...], str | None, str, str, str, str]
"""Subject, email, roles, workspace, method, path, query and host: the whole of what a payload says."""


class SigningKeyInvalid(ValueError):
    """The signing key is not a P-256 private key in PEM. The message never holds the key."""


class IdentityInvalid(Exception):
    """A request's identity does not verify. The message says why, for the log of whoever verifies."""


def identity_payload(fields: IdentityFields, method: str, path: str, query: str, host: str) -> bytes:
    """The signed bytes: canonical JSON of nine fields in a fixed order, without spaces, in UTF-8.

    Strings escape `"`, backslash and U+0000-U+001F alone, in the shortest form (what ECMAScript's `JSON.stringify`
    writes). `path` and `query` are as the upstream receives them, `query` with its `?`; `host` is `x-forwarded-host`.
    """
    return orjson.dumps(
        {
            "v": VERSION,
            "method": method,
            "path": path,
            "query": query,
            "host": host,
            "subject": fields.subject,
            "workspaceId": fields.workspace_id,
            "email": fields.email,
            "roles": fields.roles,
        }
    )


class IdentitySigner:
    """Signs identities with the deployment's P-256 key (ES256).

    Without a key it makes one for this process: no upstream can verify, and the caller logs that. A payload carries no
    time, so what was signed is remembered, within a bound; a new key is a new signer.
    """

    def __init__(self, private_key_pem: str | None = None) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1()) if private_key_pem is None else load_key(private_key_pem)
        self._signed: OrderedDict[_Said, bytes] = OrderedDict()
        self._wanted: dict[bytes, bytes] = {}

    @property
    def public_key_pem(self) -> str:
        """The public key that upstreams verify with: SPKI PEM."""
        return public_pem(self._key)

    def lines(
        self, principal: Principal, workspace_id: str | None, method: str, path: str, query: str, host: str
    ) -> bytes:
        """The identity headers of a caller's request as they are sent, a line each, the signature last.

        `path`, `query` and `host` as in `identity_payload`. Raises `SubjectUnwritable`.
        """
        said = principal.subject, principal.email, principal.roles, workspace_id, method, path, query, host
        return self._signed.get(said) or self._lines(principal, said)

    def lines_soon(
        self, principal: Principal, workspace_id: str | None, method: str, path: str, query: str, host: str
    ) -> bytes | Awaitable[bytes]:
        """What `lines` gives, where it is remembered. Else it is signed with all that this turn of the loop wants: one
        behind the other they cost half as much as between the other work of requests (decision 0023).
        """
        said = principal.subject, principal.email, principal.roles, workspace_id, method, path, query, host
        return self._signed.get(said) or self._lines_soon(said, *_unsigned(principal, said))

    def _lines(self, principal: Principal, said: _Said) -> bytes:
        written, payload = _unsigned(principal, said)
        return self._remembered(said, written, payload, self.sign(payload))

    async def _lines_soon(self, said: _Said, written: WrittenIdentity, payload: bytes) -> bytes:
        wanted = self._wanted
        if not wanted:
            asyncio.get_running_loop().call_soon(self._sign_wanted)
        wanted[payload] = b""
        await asyncio.sleep(0)
        if wanted is self._wanted:  # whoever goes on first signs for all, should it be before the loop does
            self._sign_wanted()
        return self._remembered(said, written, payload, wanted[payload] or self.sign(payload))

    def _sign_wanted(self) -> None:
        wanted, self._wanted = self._wanted, {}
        for payload in wanted:
            with suppress(Exception):  # Who wants it tries again, and has the error.
                wanted[payload] = self.sign(payload)

    def _remembered(self, said: _Said, written: WrittenIdentity, payload: bytes, signature: bytes) -> bytes:
        lines = b"%b%b: %b\r\n" % (written.lines, SIGNATURE, signature)
        _, email, roles, *_ = said
        # The caller's own values beside the payload: it holds them shortened and without what no header can carry.
        if len(payload) + len(email) + sum(map(len, roles)) <= CACHED_MAX_BYTES:
            remember(self._signed, said, lines, CACHED_SIGNATURES)
        return lines

    def sign(self, payload: bytes) -> bytes:
        """The value of `x-gateway-signature` for this payload: `v5=<protected>..<signature>`."""
        # `cryptography` directly: joserfc takes 60 % longer for the same bytes, on the path of every request.
        der = self._key.sign(b"%b.%b" % (_PROTECTED, base64url.encode(payload)), _ECDSA)
        return _PREFIX + base64url.encode(_raw(der))


def _unsigned(principal: Principal, said: _Said) -> tuple[WrittenIdentity, bytes]:
    _, _, _, workspace_id, method, path, query, host = said
    written = written_identity(principal, workspace_id)
    return written, identity_payload(written.fields, method, path, query, host)


def _raw(der: bytes) -> bytes:
    """Both integers of a signature at full length. `der` is `30 len 02 len r 02 len s`, each of at most 33 bytes."""
    end = 4 + der[3]
    r, s = der[4:end], der[end + 2 :]
    size = _COORDINATE_BYTES
    return r[-size:].rjust(size, b"\0") + s[-size:].rjust(size, b"\0")


def new_private_key_pem() -> str:
    """A fresh P-256 private key as PKCS#8 PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    form, clear = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, clear).decode("ascii")


def load_key(private_key_pem: str) -> ec.EllipticCurvePrivateKey:
    """The P-256 key in a PEM, where `\\n` may stand for a line's end. Raises `SigningKeyInvalid`."""
    try:
        text = private_key_pem.replace("\\n", "\n").encode()
        key = serialization.load_pem_private_key(text, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # The library's own message is dropped: it may quote what it could not parse.
        raise SigningKeyInvalid("not a PEM of an unencrypted private key") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise SigningKeyInvalid("not an elliptic-curve key on P-256")
    return key


def public_pem(key: ec.EllipticCurvePrivateKey) -> str:
    """The public half of a key as SPKI PEM."""
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, spki).decode("ascii")


def verify_identity(
    public_key_pem: str, headers: Iterable[tuple[bytes, bytes]], *, method: str, path: str, query: str
) -> IdentityFields:
    """The caller that a request's headers state, once the signature over request and headers holds (§7.4).

    `headers` have lower-case names; `path` and `query` are as they were received. Raises `IdentityInvalid`, and
    `ValueError` for a public key that is none.
    """
    key = ECKey.import_key(public_key_pem)
    values = _single_values(headers)
    token = _detached_token(values.get(SIGNATURE, ""))
    fields = IdentityFields(
        subject=values.get(USER_ID, ""),
        email=values.get(EMAIL, ""),
        workspace_id=values.get(WORKSPACE_ID, ""),
        roles=tuple(values[ROLES].split(",")) if values.get(ROLES) else (),
    )
    if not fields.subject:
        raise IdentityInvalid("no subject")
    host = values.get(b"x-forwarded-host", "")
    payload = identity_payload(fields, method=method, path=path, query=query, host=host)
    protected, _, signature = token.split(".")
    whole = f"{protected}.{base64url.encode(payload).decode('ascii')}.{signature}"
    try:
        signed = jws.deserialize_compact(whole, key, algorithms=["ES256"])
    except (JoseError, ValueError) as error:
        raise IdentityInvalid("the signature does not belong to this request") from error
    if signed.headers().get("typ") != "gateway-identity":
        raise IdentityInvalid("the signature is of another type")
    return fields


def _detached_token(value: str) -> str:
    version, equals, token = value.partition("=")
    if not value:
        raise IdentityInvalid("no signature")
    if not equals or version != VERSION:
        raise IdentityInvalid("a signature of an unknown version")
    parts = token.split(".")
    if len(parts) != 3 or parts[1] or not parts[0] or not parts[2]:
        raise IdentityInvalid("not a compact signature with a detached payload")
    return token


def _single_values(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, str]:
    """The signed headers' values. A repeated one has no value that every reader would agree on."""
    wanted = {SIGNATURE, USER_ID, EMAIL, ROLES, WORKSPACE_ID, b"x-forwarded-host"}
    values: dict[bytes, str] = {}
    for name, value in headers:
        if name not in wanted:
            continue
        if name in values:
            raise IdentityInvalid(f"{name.decode()} is repeated")
        try:
            values[name] = value.decode()
        except UnicodeDecodeError as error:
            raise IdentityInvalid(f"{name.decode()} is not UTF-8") from error
    return values


_PROTECTED = base64url.encode(PROTECTED_HEADER)
_PREFIX = f"{VERSION}=".encode("ascii") + _PROTECTED + b".."
