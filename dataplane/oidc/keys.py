"""The provider's signing keys: which of a key set can be used, which fit a token, and when the set is fetched anew."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey, import_key

from dataplane.oidc.errors import ProviderUnavailable
from dataplane.oidc.kept import Kept

if TYPE_CHECKING:
    from common.telemetry.log import Log

ALGORITHMS = frozenset({"RS256", "ES256", "RS384", "RS512", "ES384", "PS256"})
"""The signature algorithms that are accepted (§5.4): asymmetric ones alone, so a public key is never a secret."""

UNKNOWN_KID_PAUSE_S = 30.0
"""Whoever sends made-up key ids makes the gateway ask the provider at most this often."""

KEYS_WITHOUT_KID_MAX = 8
"""Keys tried for a token that names none: each costs a signature check."""

_KEYS_MAX = 256
_RSA_BITS_MIN, _RSA_BITS_MAX = 2048, 8192
_RSA_ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256"})
_CURVE_ALGORITHMS = {"P-256": frozenset({"ES256"}), "P-384": frozenset({"ES384"})}
_KEY_MEMBERS = {"RSA": ("kty", "n", "e"), "EC": ("kty", "crv", "x", "y")}


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key that can be used, with the algorithms it may be used with."""

    kid: str | None
    algorithms: frozenset[str]
    key: RSAKey | ECKey


class KeySet:
    """An immutable key set. Two fetches of the same keys give the same object, so identity says "nothing changed"."""

    __slots__ = ("_by_kid", "digest", "keys")

    def __init__(self, keys: tuple[VerificationKey, ...], digest: bytes) -> None:
        self.keys = keys
        self.digest = digest
        self._by_kid: dict[str, tuple[VerificationKey, ...]] = {}
        for key in keys:
            if key.kid is not None:
                self._by_kid[key.kid] = (*self._by_kid.get(key.kid, ()), key)

    def knows(self, kid: str) -> bool:
        """Whether some usable key has this id."""
        return kid in self._by_kid

    def fitting(self, algorithm: str, kid: str | None) -> tuple[VerificationKey, ...]:
        """The keys to try for a token's header; for one without `kid`, at most `KEYS_WITHOUT_KID_MAX`."""
        keys = self.keys if kid is None else self._by_kid.get(kid, ())
        return tuple(key for key in keys if algorithm in key.algorithms)[:KEYS_WITHOUT_KID_MAX]


def read_key_set(document: Mapping[str, Any]) -> KeySet:
    """The usable keys of a JWK set (RFC 7517 §5). Keys of other kinds, uses or strengths are skipped.

    A document that is not `{"keys": [at least one]}` is broken: `ProviderUnavailable`.
    """
    entries = document.get("keys")
    if not isinstance(entries, list) or not entries:
        raise ProviderUnavailable("the provider's key set has no keys")
    keys = tuple(key for entry in entries[:_KEYS_MAX] if (key := _usable(entry)) is not None)
    digest = hashlib.sha256(orjson.dumps(entries, option=orjson.OPT_SORT_KEYS)).digest()
    return KeySet(keys, digest)


def _usable(entry: object) -> VerificationKey | None:
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
        return None
    operations = entry.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        return None
    kty = entry.get("kty")
    members = _KEY_MEMBERS.get(kty) if isinstance(kty, str) else None
    if members is None:
        return None
    kid = entry.get("kid")
    if kid is not None and not isinstance(kid, str):
        return None
    # Only what makes up the public key: a private part or a certificate that was published with it is not for us.
    key = _import({name: entry[name] for name in members if name in entry})
    if key is None:
        return None
    algorithms = _algorithms(key)
    if "alg" in entry:
        algorithms &= {entry["alg"]} if isinstance(entry["alg"], str) else set()
    return VerificationKey(kid, algorithms, key) if algorithms else None


def _import(members: dict[str, Any]) -> RSAKey | ECKey | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a short key is judged below
            key = import_key(members)
    except (JoseError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None
    return key if isinstance(key, RSAKey | ECKey) else None


def _algorithms(key: RSAKey | ECKey) -> frozenset[str]:
    if isinstance(key, RSAKey):
        return _RSA_ALGORITHMS if _RSA_BITS_MIN <= key.raw_value.key_size <= _RSA_BITS_MAX else frozenset()
    return _CURVE_ALGORITHMS.get(key.curve_name, frozenset())


class ProviderKeys:
    """The key set as it is now: cached, fetched anew when old or when a key id is unknown, kept during an outage."""

    def __init__(
        self,
        fetch: Callable[[], Awaitable[Mapping[str, Any]]],
        *,
        cache_s: float,
        stale_s: float,
        clock: Callable[[], float],
        log: Log,
    ) -> None:
        """`fetch` gives the JWK set document. The last good set serves for `stale_s` beyond `cache_s`, then none."""
        self._fetch_document = fetch
        self._clock = clock
        self._log = log
        self._last: KeySet | None = None
        self._kept: Kept[KeySet] = Kept("keys", self._fetch, fresh_s=cache_s, stale_s=stale_s, clock=clock, log=log)
        self._asked_for_kid_at = float("-inf")

    def fresh(self) -> KeySet | None:
        """The key set to verify with where nobody has to be asked for it."""
        return self._kept.fresh()

    async def current(self) -> KeySet:
        """The key set to verify with; `ProviderUnavailable` when there is none that may be used."""
        fresh = self._kept.fresh()
        return fresh if fresh is not None else await self._kept.get()

    async def for_unknown_kid(self) -> KeySet:
        """The key set after asking the provider for a key id that is not in it: at most once in 30 s.

        In between it is the set as it stands, or as the fetch under way will leave it. When the provider could not be
        asked, nobody can say that the id is wrong: `ProviderUnavailable`.
        """
        now = self._clock()
        if self._kept.fetching:
            keys = await self._kept.refetch()
        elif now - self._asked_for_kid_at >= UNKNOWN_KID_PAUSE_S:
            self._asked_for_kid_at = now
            keys = await self._kept.refetch()
        else:
            keys = await self._kept.get()
        if self._kept.failing:
            raise ProviderUnavailable("the provider could not be asked about an unknown key id")
        return keys

    async def close(self) -> None:
        """End a fetch that is under way."""
        await self._kept.close()

    async def _fetch(self) -> KeySet:
        keys = read_key_set(await self._fetch_document())
        if self._last is not None and keys.digest == self._last.digest:
            return self._last
        if not keys.keys:
            self._log.warning("the provider publishes no key that can be used")
        self._last = keys
        return keys
