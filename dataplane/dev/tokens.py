"""The tokens of the development provider, signed with an ES256 key that lives as long as the process."""

from __future__ import annotations

import secrets
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey

from dataplane.dev.accounts import Account
from dataplane.dev.authorization import Grant

ID_TOKEN_LIFETIME_S = 300
ACCESS_TOKEN_LIFETIME_S = 3_600
ALGORITHM = "ES256"


class TokenIssuer:
    """Issues the ID token of a login (OpenID Connect Core 1.0 §2) and JWT access tokens (RFC 9068)."""

    def __init__(self, issuer: str, client_id: str, audience: str) -> None:
        """`audience` is what access tokens are meant for; it differs from the client id, so neither kind of token
        passes for the other."""
        self._issuer = issuer
        self._client_id = client_id
        self._audience = audience
        self._key = ECKey.generate_key("P-256", {"kid": secrets.token_hex(8), "use": "sig", "alg": ALGORITHM})

    def key_set(self) -> dict[str, Any]:
        """The public JWK set."""
        return {"keys": [self._key.as_dict(private=False)]}

    def id_token(self, grant: Grant, now_s: int) -> str:
        """The ID token of a redeemed code. Times are seconds since the epoch."""
        claims = {
            "iss": self._issuer,
            "sub": grant.account.subject,
            "aud": self._client_id,
            "iat": now_s,
            "exp": now_s + ID_TOKEN_LIFETIME_S,
            "auth_time": int(grant.authenticated_at_s),
            "nonce": grant.request.nonce,
            **_person(grant.account),
        }
        return self._signed({"typ": "JWT"}, claims)

    def access_token(self, account: Account, now_s: int, scope: str) -> str:
        """A bearer token for the gateway."""
        claims = {
            "iss": self._issuer,
            "sub": account.subject,
            "aud": self._audience,
            "iat": now_s,
            "exp": now_s + ACCESS_TOKEN_LIFETIME_S,
            "jti": secrets.token_urlsafe(12),
            "client_id": self._client_id,
            "scope": scope,
            **_person(account),
        }
        return self._signed({"typ": "at+jwt"}, claims)

    def _signed(self, header: dict[str, str], claims: dict[str, Any]) -> str:
        full = {"alg": ALGORITHM, "kid": self._key.kid, **header}
        return jwt.encode(full, claims, self._key, algorithms=[ALGORITHM])


def _person(account: Account) -> dict[str, Any]:
    return {"email": account.email, "email_verified": True, "name": account.name, "roles": list(account.roles)}
