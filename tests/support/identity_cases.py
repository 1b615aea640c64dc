"""Requests with identities, genuine and tampered with: what every verifier of the signature must accept or refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from common.identity.headers import IdentityFields, written_identity
from common.identity.principal import Principal
from common.identity.signature import IdentitySigner, identity_payload

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "upstream_identity"

Headers = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True)
class Case:
    """A request as an upstream receives it. `caller` is None where its identity must be refused."""

    name: str
    method: str
    target: str
    headers: Headers
    caller: IdentityFields | None


def vector() -> dict[str, Any]:
    """The published test vector."""
    loaded: dict[str, Any] = json.loads((EXAMPLES / "vector.json").read_text())
    return loaded


def genuine(
    signer: IdentitySigner,
    principal: Principal,
    workspace: str | None = None,
    *,
    name: str = "genuine",
    method: str = "GET",
    target: str = "/",
    host: str = "api.example.com",
) -> Case:
    """A request whose identity was signed for it."""
    path, mark, query = target.partition("?")
    written = written_identity(principal, workspace)
    payload = identity_payload(written.fields, method=method, path=path, query=mark + query, host=host)
    shown = ((b"x-forwarded-host", host.encode()),) if host else ()
    signature = (b"x-gateway-signature", signer.sign(payload))
    return Case(name, method, target, (*shown, *written.headers, signature), written.fields)


def cases(signer: IdentitySigner) -> Iterator[Case]:
    """Every case, signed with `signer`."""
    alice = Principal("alice", "alice@example.com", ("dev", "admin"))
    full = genuine(signer, alice, "w-1", method="POST", target="/base/ws/1?x=1")
    yield full
    yield genuine(signer, Principal("alice"), name="subject alone")
    yield genuine(signer, alice, name="a lone question mark", target="/x?")
    yield genuine(signer, alice, name="an escaped target", target="/a%2Fb;c=%22?q=%5C&r=a?b")
    yield genuine(signer, alice, name="no host", host="")
    yield genuine(signer, alice, name="a host with a port", host="[2001:db8::1]:8443")
    odd = Principal('ren\u00e9 "\\" \U0001f600 \u2028', "\u00fc@ex\u00e4mple.org", ("\uffee", "\U0001f600", "Z", "a b"))
    yield genuine(signer, odd, "caf\u00e9 \u00a0 w", name="text beyond ASCII, quotes and backslashes")
    yield from tampered(signer, full)


def tampered(signer: IdentitySigner, full: Case) -> Iterator[Case]:
    """`full`, changed in one place."""
    refused = replace(full, caller=None)
    yield replace(refused, name="another method", method="PUT")
    yield replace(refused, name="another path", target="/base/ws/2?x=1")
    yield replace(refused, name="another query", target="/base/ws/1?x=2")
    yield replace(refused, name="no query", target="/base/ws/1")
    yield replace(refused, name="a query that became path", target="/base/ws/1%3Fx=1")
    signed = dict(full.headers)
    covered = [name for name in signed if name != b"x-gateway-authenticated"]
    for header in covered:
        label = header.decode()
        yield replace(refused, name=f"{label} changed", headers=changed(full, header, signed[header] + b"x"))
        yield replace(refused, name=f"{label} missing", headers=changed(full, header, None))
        yield replace(refused, name=f"{label} repeated", headers=(*full.headers, (header, signed[header])))
        yield replace(refused, name=f"{label} not UTF-8", headers=changed(full, header, b"\xff"))
    roles = changed(full, b"x-gateway-roles", b"admin,dev,owner")
    yield replace(refused, name="a role more", headers=roles)
    yield replace(refused, name="roles in another order", headers=changed(full, b"x-gateway-roles", b"dev,admin"))
    swapped = changed(full, b"x-gateway-email", b"w-1")
    yield replace(refused, name="a value in another field", headers=swapped)
    value = signed[b"x-gateway-signature"]
    protected, mark = value.removeprefix(b"v5=").split(b"..")
    none = b"eyJhbGciOiJub25lIiwidHlwIjoiZ2F0ZXdheS1pZGVudGl0eSJ9"
    for name, forged in {
        "another version": b"v4=" + protected + b".." + mark,
        "no version": protected + b".." + mark,
        "no algorithm": b"v5=" + none + b"..",
        "no algorithm, with a mark": b"v5=" + none + b".." + mark,
        "a payload inside": b"v5=" + protected + b".e30." + mark,
        "a part too many": b"v5=" + protected + b".." + mark + b".x",
        "a zero signature": b"v5=" + protected + b".." + b"A" * 86,
        "another key": genuine(IdentitySigner(), Principal("alice")).headers[-1][1],
    }.items():
        yield replace(refused, name=name, headers=changed(full, b"x-gateway-signature", forged))


def changed(case: Case, name: bytes, value: bytes | None) -> Headers:
    """The headers of a case with one value changed, or without it."""
    kept = tuple(header for header in case.headers if header[0] != name)
    return kept if value is None else (*kept, (name, value))
