"""What the sample upstream saw of a request, and whether the gateway's identity signature verifies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from common.identity.signature import IdentityInvalid, verify_identity

_FROM_GATEWAY = ("x-gateway-", "x-forwarded-", "x-request-id", "traceparent", "tracestate")


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as it reached the upstream.

    `subject` and `email` are empty unless the signature verified: an upstream believes no header that is not covered.
    `verdict` is `verified`, `absent`, or the reason why the signature was refused.
    """

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    verdict: str
    subject: str = ""
    email: str = ""
    workspace_id: str = ""

    @property
    def verified(self) -> bool:
        """Whether the caller's identity is proven."""
        return self.verdict == "verified"

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "method": self.method,
            "path": self.path,
            "query": self.query,
            "identity": {
                "signature": self.verdict,
                "subject": self.subject,
                "email": self.email,
                "workspaceId": self.workspace_id,
            },
            "headers": dict(self.headers),
        }


def from_gateway(name: str) -> bool:
    """Whether the gateway alone writes this header, so that a caller's copy never gets here."""
    return name.startswith(_FROM_GATEWAY)


def see(request: Request, public_key_pem: str) -> Seen:
    """Look at a request the way an upstream should: verify first, then believe."""
    raw = request.headers.raw
    path = request.scope["raw_path"].decode("latin-1")
    query = f"?{request.scope['query_string'].decode('latin-1')}" if request.scope["query_string"] else ""
    headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in raw)
    told = {"method": request.method, "path": path, "query": query}
    if "x-gateway-signature" not in request.headers:
        return Seen(**told, headers=headers, verdict="absent")
    try:
        fields = verify_identity(public_key_pem, raw, **told)
    except IdentityInvalid as invalid:
        return Seen(**told, headers=headers, verdict=str(invalid))
    return Seen(
        **told,
        headers=headers,
        verdict="verified",
        subject=fields.subject,
        email=fields.email,
        workspace_id=fields.workspace_id,
    )
