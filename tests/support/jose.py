"""Keys and tokens as a provider makes them, and as somebody who is not the provider would like to."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import cache
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

from dataplane.oidc.keys import ALGORITHMS

Key = ECKey | RSAKey


def b64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


@cache
def ec_key(name: str = "a", curve: str = "P-256") -> ECKey:
    """A key pair that stays the same within a run; `name` is its kid."""
    return ECKey.generate_key(curve, {"kid": name})


@cache
def rsa_key(name: str = "a-rsa", bits: int = 2048) -> RSAKey:
    """A key pair that stays the same within a run; `name` is its kid."""
    return RSAKey.generate_key(bits, {"kid": name})


def public_jwk(key: Key, **changes: object) -> dict[str, Any]:
    """What a provider publishes of a key; a change to None leaves the member out."""
    jwk = {**key.as_dict(private=False), "use": "sig", **changes}
    return {name: value for name, value in jwk.items() if value is not None}


def key_set(*keys: Key | dict[str, Any]) -> dict[str, Any]:
    """A JWK set document."""
    return {"keys": [key if isinstance(key, dict) else public_jwk(key) for key in keys]}


def signed(
    claims: Mapping[str, Any] | bytes,
    key: Key,
    algorithm: str = "ES256",
    header: Mapping[str, Any] | None = None,
) -> bytes:
    """A compact JWS of the claims. A header member of None is left out; `kid` is the key's by default."""
    head = {"alg": algorithm, "kid": key.kid, "typ": "JWT", **(header or {})}
    payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    registry = jws.JWSRegistry(algorithms=sorted(ALGORITHMS), strict_check_header=False)
    registry.max_header_length = 1 << 20
    kept = {name: value for name, value in head.items() if value is not None}
    return jws.serialize_compact(kept, payload, key, registry=registry).encode()


def assembled(header: Mapping[str, Any] | bytes, payload: bytes, signature: bytes) -> bytes:
    """A compact JWS put together by hand."""
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    return f"{b64(head)}.{b64(payload)}.{b64(signature)}".encode()
