"""Verifies the identity that Wicketgate signs for an upstream. Copy this file; it needs `joserfc` alone.

    key = ECKey.import_key(public_key_pem)                   # of `gateway identity-key --public`
    caller = verify_identity(headers, method, target, key)    # raises IdentityRefused: answer 401

`headers` are the request's raw headers as pairs of bytes (an ASGI scope's are), `target` is the request target as it
was received: path, and query with its `?`. `verify_asgi` takes both from an ASGI scope.

The guide is docs/upstream-identity.md. Nothing here trusts a header before the signature over all of them holds.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey

SIGNATURE = "x-gateway-signature"
USER_ID = "x-gateway-user-id"
EMAIL = "x-gateway-email"
ROLES = "x-gateway-roles"
WORKSPACE_ID = "x-gateway-workspace-id"
HOST = "x-forwarded-host"
SIGNED_HEADERS = frozenset({SIGNATURE, USER_ID, EMAIL, ROLES, WORKSPACE_ID, HOST})


class IdentityRefused(Exception):
    """The request states no identity that can be trusted. The message is for your log."""


@dataclass(frozen=True)
class Caller:
    """Who calls, as the gateway states it; what is absent is empty."""

    subject: str
    email: str
    workspace_id: str
    roles: tuple[str, ...]


def verify_identity(headers: Iterable[tuple[bytes, bytes]], method: str, target: str, public_key: ECKey) -> Caller:
    """The caller of a request, once the signature over request and headers holds. Raises `IdentityRefused`."""
    values = _single_values(headers)
    protected, signature = _detached_signature(values.get(SIGNATURE, ""))
    caller = Caller(
        subject=values.get(USER_ID, ""),
        email=values.get(EMAIL, ""),
        workspace_id=values.get(WORKSPACE_ID, ""),
        # In the header's order: the gateway has sorted them.
        roles=tuple(values[ROLES].split(",")) if values.get(ROLES) else (),
    )
    if not caller.subject:
        raise IdentityRefused("no subject")

    payload = canonical_payload(method, target, values.get(HOST, ""), caller)
    token = f"{protected}.{base64.urlsafe_b64encode(payload).rstrip(b'=').decode()}.{signature}"
    try:
        verified = jws.deserialize_compact(token, public_key, algorithms=["ES256"])
    except (JoseError, ValueError) as error:
        raise IdentityRefused("the signature does not belong to this request") from error
    if verified.headers().get("typ") != "gateway-identity":
        raise IdentityRefused("the signature is of another type")
    return caller


def verify_asgi(scope: Mapping[str, Any], public_key: ECKey) -> Caller:
    """`verify_identity` for an ASGI HTTP scope. Call it before any middleware that changes path or headers."""
    target = scope["raw_path"].decode("latin-1")
    query = scope["query_string"].decode("latin-1")
    if query:
        return verify_identity(scope["headers"], scope["method"], f"{target}?{query}", public_key)
    try:
        return verify_identity(scope["headers"], scope["method"], target, public_key)
    except IdentityRefused:
        # ASGI does not tell `/x?` from `/x`; the signature does.
        return verify_identity(scope["headers"], scope["method"], f"{target}?", public_key)


def canonical_payload(method: str, target: str, host: str, caller: Caller) -> bytes:
    """The signed bytes: these nine fields in this order, as JSON without spaces, in UTF-8."""
    path, question_mark, query = target.partition("?")
    fields = {
        "v": "v5",
        "method": method,
        "path": path,
        "query": question_mark + query,
        "host": host,
        "subject": caller.subject,
        "workspaceId": caller.workspace_id,
        "email": caller.email,
        "roles": caller.roles,
    }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def _detached_signature(value: str) -> tuple[str, str]:
    """Protected header and signature. The version names the algorithm: `v5` is ES256, and nothing else is accepted."""
    version, _, token = value.partition("=")
    if version != "v5":
        raise IdentityRefused("no signature of version 5")
    parts = token.split(".")
    if len(parts) != 3 or not parts[0] or parts[1] or not parts[2]:
        raise IdentityRefused("not a compact signature with a detached payload")
    return parts[0], parts[2]


def _single_values(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The signed headers. A repeated one has no meaning that every reader would agree on."""
    values: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name = raw_name.decode("latin-1").lower()
        if name not in SIGNED_HEADERS:
            continue
        if name in values:
            raise IdentityRefused(f"{name} is repeated")
        try:
            values[name] = raw_value.decode()
        except UnicodeDecodeError:
            raise IdentityRefused(f"{name} is not UTF-8") from None
    return values
