"""The rules for the claims of a token whose signature is good (§5.4, RFC 7519 §4.1, OIDC Core §3.1.3.7)."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dataplane.oidc.errors import TokenRefused

CLOCK_TOLERANCE_S = 5.0
"""How far the provider's clock and ours may differ, either way."""

_DATE_MAX = 2.0**53
_LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"

Claims = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BearerRules:
    """What a bearer token must say. `max_age_s` bounds expiry minus issue; 0 turns the bound off."""

    issuer: str
    audience: str
    max_age_s: float
    reject_nonce: bool = True
    required: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class IdTokenRules:
    """What the ID token of a login must say."""

    issuer: str
    client_id: str


def check_bearer(claims: Claims, rules: BearerRules, now_s: float) -> None:
    """Return when the claims are those of an access token for this gateway; else `TokenRefused`.

    An ID token or a logout token of the same provider, for the same audience, is no access token (§5.4).
    """
    _check_common(claims, rules.issuer, rules.audience, now_s)
    if rules.reject_nonce and "nonce" in claims:
        raise TokenRefused("a token with a nonce is an ID token")
    events = claims.get("events")
    if isinstance(events, Mapping) and _LOGOUT_EVENT in events:
        raise TokenRefused("a logout token")
    for name, wanted in rules.required:
        if not _says(claims.get(name), wanted):
            raise TokenRefused(f"claim {name} is not what GATEWAY_OIDC_REQUIRED_TOKEN_CLAIMS asks for")
    if rules.max_age_s > 0:
        issued_at = _date(claims, "iat")
        if issued_at is None:
            raise TokenRefused("no iat, so its lifetime is not known")
        if expires_at(claims) - issued_at > rules.max_age_s:
            raise TokenRefused("its lifetime is longer than GATEWAY_OIDC_MAX_TOKEN_AGE_MS")


def check_id_token(claims: Claims, rules: IdTokenRules, nonce: str, now_s: float) -> None:
    """Return when the claims are those of an ID token for this client and this login; else `TokenRefused`."""
    _check_common(claims, rules.issuer, rules.client_id, now_s)
    if _date(claims, "iat") is None:
        raise TokenRefused("an ID token without iat")
    audience = claims["aud"]
    several = isinstance(audience, list) and len(audience) > 1
    if (several or "azp" in claims) and claims.get("azp") != rules.client_id:
        raise TokenRefused("azp is not this client")
    sent = claims.get("nonce")
    if not isinstance(sent, str) or not hmac.compare_digest(sent.encode(), nonce.encode()):
        raise TokenRefused("the nonce is not this login's")


def expires_at(claims: Claims) -> float:
    """The `exp` of a token; `TokenRefused` without one."""
    value = _date(claims, "exp")
    if value is None:
        raise TokenRefused("no exp")
    return value


def has_expired(exp: float, now_s: float) -> bool:
    """Whether a token with this `exp` is over, the tolerance granted."""
    return exp <= now_s - CLOCK_TOLERANCE_S


def subject(claims: Claims) -> str:
    """The `sub`, unchanged; `TokenRefused` without one."""
    value = claims.get("sub")
    if not isinstance(value, str) or not value:
        raise TokenRefused("no sub")
    return value


def email(claims: Claims) -> str:
    """The `email`, `""` without one."""
    value = claims.get("email")
    return value if isinstance(value, str) else ""


def roles(claims: Claims, path: str) -> tuple[str, ...]:
    """The roles at a dotted path (`realm_access.roles`): a string or the strings of a list, else none.

    A claim whose own name is the whole path comes first, since names such as `https://example.com/roles` hold dots.
    """
    value: Any = claims.get(path)
    if value is None:
        value = claims
        for step in path.split("."):
            value = value.get(step) if isinstance(value, Mapping) else None
    if isinstance(value, str):
        return (value,) if value else ()
    if isinstance(value, list):
        return tuple(role for role in value if isinstance(role, str) and role)
    return ()


def _check_common(claims: Claims, issuer: str, audience: str, now_s: float) -> None:
    if claims.get("iss") != issuer:
        raise TokenRefused("iss is another issuer")
    sent = claims.get("aud")
    if sent != audience and not (isinstance(sent, list) and audience in sent):
        raise TokenRefused("aud is not this audience")
    subject(claims)
    if has_expired(expires_at(claims), now_s):
        raise TokenRefused("expired", "expired")
    for name in ("nbf", "iat"):
        value = _date(claims, name)
        if value is not None and value > now_s + CLOCK_TOLERANCE_S:
            raise TokenRefused(f"{name} is in the future")


def _date(claims: Claims, name: str) -> float | None:
    """A NumericDate (RFC 7519 §2), None when absent. True, "1700000000", null and infinity are no dates."""
    if name not in claims:
        return None
    value = claims[name]
    # Beyond 2**53 a float no longer counts seconds. The comparison is false for NaN too.
    if type(value) not in (int, float) or not abs(value) <= _DATE_MAX:
        raise TokenRefused(f"{name} is no date")
    return float(value)


def _says(value: object, wanted: str) -> bool:
    if isinstance(value, list):
        return any(_says(item, wanted) for item in value if not isinstance(item, list))
    if isinstance(value, bool):
        return wanted == ("true" if value else "false")
    return isinstance(value, str | int) and str(value) == wanted
