"""Signatures of tokens, and bearer tokens as a whole (§5.4).

    head (bounded, strict) -> keys that fit -> signature -> claims -> Principal, remembered until it expires

Nothing in a token chooses anything but which of the provider's own keys is tried: `jwk`, `jku` and `x5u` would name a
key or an address of the sender's, `crit` something that this code does not know; a token with one of them is refused.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import orjson
from joserfc import jws
from joserfc.errors import JoseError

from common import base64url
from common.identity.principal import Principal
from common.ready import Ready
from dataplane.oidc.claims import BearerRules, check_bearer, email, expires_at, has_expired, roles, subject
from dataplane.oidc.errors import TokenRefused
from dataplane.oidc.keys import ALGORITHMS, KeySet, ProviderKeys, VerificationKey

TOKEN_MAX_BYTES = 16_384
"""Half of the largest request head. Refused before anything is decoded."""

REMEMBERED_MAX = 5_000
"""Verified tokens kept: some 5 MB, more where tokens name hundreds of roles."""

_HEADER_MAX_BYTES = 8_192
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."
_FORBIDDEN = ("crit", "jwk", "jku", "x5u", "b64")


def _registry() -> jws.JWSRegistry:
    # Providers put parameters of their own into headers: unknown ones are ignored, as RFC 7515 §4 wants it.
    registry = jws.JWSRegistry(algorithms=sorted(ALGORITHMS), strict_check_header=False)
    registry.max_header_length = _HEADER_MAX_BYTES
    registry.max_payload_length = TOKEN_MAX_BYTES
    return registry


_REGISTRY = _registry()


@dataclass(frozen=True, slots=True)
class TokenHead:
    """What a token's header says of its signature."""

    algorithm: str
    kid: str | None
    type: str
    """In lower case, without `application/`; `""` without one."""


def read_head(token: bytes) -> TokenHead:
    """The header of a compact JWS (RFC 7515 §7.1) that this gateway could verify; else `TokenRefused`."""
    if len(token) > TOKEN_MAX_BYTES:
        raise TokenRefused("longer than a token may be")
    if token.translate(None, _ALPHABET) or token.count(b".") != 2:
        raise TokenRefused("not a compact JWS")
    encoded = token.partition(b".")[0]
    if not encoded or len(encoded) > _HEADER_MAX_BYTES:
        raise TokenRefused("not a compact JWS")
    try:
        header = orjson.loads(base64url.decode(encoded))
    except ValueError:
        raise TokenRefused("its header is not JSON") from None
    if not isinstance(header, dict):
        raise TokenRefused("its header is not an object")
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise TokenRefused("its algorithm is not accepted")
    for name in _FORBIDDEN:
        if name in header:
            raise TokenRefused(f"its header has {name}")
    kid = header.get("kid")
    if kid is not None and not isinstance(kid, str):
        raise TokenRefused("its kid is no text")
    kind = header.get("typ")
    return TokenHead(algorithm, kid, kind.lower().removeprefix("application/") if isinstance(kind, str) else "")


def payload_signed_by(token: bytes, keys: tuple[VerificationKey, ...]) -> dict[str, Any] | None:
    """The claims of a token that one of these keys signed, None when none did. Not JSON is `TokenRefused`."""
    for candidate in keys:
        try:
            payload = jws.deserialize_compact(token, candidate.key, registry=_REGISTRY).payload
        except (JoseError, ValueError, TypeError, RecursionError):
            continue
        try:
            claims = orjson.loads(payload)
        except ValueError:
            raise TokenRefused("its payload is not JSON") from None
        if not isinstance(claims, dict):
            raise TokenRefused("its payload is not an object")
        return claims
    return None


async def verified_claims(
    token: bytes, head: TokenHead, keys: KeySet, provider: ProviderKeys
) -> tuple[dict[str, Any], KeySet]:
    """The claims of a token that the provider signed, and the key set that says so.

    Only a `kid` that no key has makes the gateway ask the provider again: a bad signature under a known key is bad.
    `TokenRefused`, or `ProviderUnavailable` when nobody can say.
    """
    if head.kid is not None and not keys.knows(head.kid):
        keys = await provider.for_unknown_kid()
    claims = payload_signed_by(token, keys.fitting(head.algorithm, head.kid))
    if claims is None:
        raise TokenRefused("no key of the provider made its signature")
    return claims, keys


class BearerTokens:
    """Verifies bearer tokens. A token that was verified costs one hash when it comes again.

    Remembered are the SHA-256 of the token, the caller and the expiry, never the token. An entry counts only under the
    key set it was verified with, and its expiry is judged at every use.
    """

    def __init__(
        self,
        keys: ProviderKeys,
        rules: BearerRules,
        *,
        roles_claim: str,
        now_s: Callable[[], float],
        remembered_max: int = REMEMBERED_MAX,
    ) -> None:
        """`now_s` is the wall clock, seconds since the epoch."""
        self._keys = keys
        self._rules = rules
        self._roles_claim = roles_claim
        self._now_s = now_s
        self._remembered_max = remembered_max
        self._remembered: OrderedDict[bytes, tuple[Principal, float]] = OrderedDict()
        self._remembered_under: KeySet | None = None

    def verify(self, token: bytes) -> Awaitable[Principal]:
        """The caller that the token names; `TokenRefused`, or `ProviderUnavailable` when nobody can say."""
        keys = self._keys.fresh()
        if keys is None or keys is not self._remembered_under:
            return self._verify(token)
        digest = hashlib.sha256(token).digest()
        known = self._remembered.get(digest)
        if known is None or has_expired(known[1], self._now_s()):
            return self._verify(token)
        self._remembered.move_to_end(digest)
        return Ready((known[0],))

    async def _verify(self, token: bytes) -> Principal:
        if len(token) > TOKEN_MAX_BYTES:
            raise TokenRefused("longer than a token may be")
        keys = await self._keys.current()
        self._follow(keys)
        digest = hashlib.sha256(token).digest()
        known = self._remembered.get(digest)
        if known is not None:
            if has_expired(known[1], self._now_s()):
                del self._remembered[digest]
                raise TokenRefused("expired", "expired")
            self._remembered.move_to_end(digest)
            return known[0]
        head = read_head(token)
        if head.type.endswith("+jwt") and not head.type.endswith("at+jwt"):
            raise TokenRefused("its type is not that of an access token")
        claims, keys = await verified_claims(token, head, keys, self._keys)
        check_bearer(claims, self._rules, self._now_s())
        principal = Principal(subject(claims), email(claims), roles(claims, self._roles_claim), "bearer")
        self._follow(keys)
        while len(self._remembered) >= self._remembered_max:
            self._remembered.popitem(last=False)
        self._remembered[digest] = (principal, expires_at(claims))
        return principal

    def _follow(self, keys: KeySet) -> None:
        """Forget what was verified under another key set: one of its keys may have been withdrawn."""
        if keys is not self._remembered_under:
            self._remembered.clear()
            self._remembered_under = keys
