"""The rules of the development provider as plain values: the authorization request, PKCE, single-use codes.

Sources: RFC 6749 §4.1, RFC 7636 (S256 alone), OpenID Connect Core 1.0 §3.1.2, RFC 9700 §2.1 (exact redirect URIs).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from common.settings.secret import Secret
from dataplane.dev.accounts import Account

INTERACTION_LIFETIME_S = 600.0
CODE_LIFETIME_S = 60.0
# More than a person opens in ten minutes; the oldest goes, so a loop of requests cannot grow the process.
MAX_PENDING = 200

_T = TypeVar("_T")

_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")


@dataclass(frozen=True, slots=True)
class Client:
    """The one client the provider knows: the gateway."""

    client_id: str
    secret: Secret
    redirect_uris: tuple[str, ...]
    post_logout_redirect_uris: tuple[str, ...]

    def authenticates(self, client_id: str, secret: str) -> bool:
        """Whether these are the client's own credentials, compared in constant time."""
        return hmac.compare_digest(client_id.encode(), self.client_id.encode()) and self.secret == Secret(secret)


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A request that passed every rule; it may be answered at `redirect_uri`."""

    redirect_uri: str
    state: str
    nonce: str
    scope: str
    code_challenge: str


@dataclass(frozen=True, slots=True)
class Grant:
    """What a code stands for until it is redeemed."""

    request: AuthorizationRequest
    account: Account
    authenticated_at_s: float


class UntrustedRequest(Exception):
    """The client or its redirect URI is not ours: answered on a page, because nobody may be redirected."""


class AuthorizationRefused(Exception):
    """The request broke a rule and is answered at its redirect URI with an error code of RFC 6749 §4.1.2.1."""

    def __init__(self, redirect_uri: str, state: str, error: str, description: str) -> None:
        super().__init__(description)
        self.redirect_uri = redirect_uri
        self.state = state
        self.error = error
        self.description = description


class InvalidGrant(Exception):
    """A code that is unknown, used, too old, or not meant for this redirect URI or verifier."""


def read_authorization_request(parameters: Sequence[tuple[str, str]], client: Client) -> AuthorizationRequest:
    """The request in `parameters` (in order, repeats included).

    Raises `UntrustedRequest` while no redirect URI is established, `AuthorizationRefused` from then on.
    """
    values = dict(parameters)
    names = [name for name, _ in parameters]
    for name in ("client_id", "redirect_uri"):
        if names.count(name) != 1:
            raise UntrustedRequest(f"{name} is missing or repeated")
    if values["client_id"] != client.client_id:
        raise UntrustedRequest("this client is unknown")
    redirect_uri = values["redirect_uri"]
    if redirect_uri not in client.redirect_uris:
        raise UntrustedRequest("this redirect URI is not registered")

    state = values.get("state", "") if names.count("state") == 1 else ""

    def refuse(error: str, description: str) -> AuthorizationRefused:
        return AuthorizationRefused(redirect_uri, state, error, description)

    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise refuse("invalid_request", f"{', '.join(repeated)} is repeated")
    if "request" in values:
        raise refuse("request_not_supported", "request objects are not supported")
    if "request_uri" in values:
        raise refuse("request_uri_not_supported", "request objects are not supported")
    if values.get("response_type") != "code":
        raise refuse("unsupported_response_type", "response_type must be code")
    if values.get("response_mode", "query") != "query":
        raise refuse("invalid_request", "response_mode must be query")
    scope = values.get("scope", "")
    if "openid" not in scope.split(" "):
        raise refuse("invalid_scope", "scope must hold openid")
    if values.get("code_challenge_method") != "S256":
        raise refuse("invalid_request", "code_challenge_method must be S256")
    if not _CHALLENGE.fullmatch(values.get("code_challenge", "")):
        raise refuse("invalid_request", "code_challenge is missing or malformed")
    if not state or not values.get("nonce"):
        raise refuse("invalid_request", "state and nonce are required")
    if "none" in values.get("prompt", "").split(" "):
        raise refuse("login_required", "this provider keeps no session")
    return AuthorizationRequest(redirect_uri, state, values["nonce"], scope, values["code_challenge"])


def verifier_matches(verifier: str, challenge: str) -> bool:
    """RFC 7636 §4.6 for S256."""
    if not _VERIFIER.fullmatch(verifier):
        return False
    digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
    return hmac.compare_digest(digest, challenge.encode())


class PendingLogins:
    """Sign-ins that are under way: opened interactions, then codes. Each id works once and for a bounded time.

    In memory of one event loop; times are monotonic seconds, given by the caller.
    """

    def __init__(self) -> None:
        self._interactions: dict[str, tuple[AuthorizationRequest, float]] = {}
        self._codes: dict[str, tuple[Grant, float]] = {}

    def open(self, request: AuthorizationRequest, now_s: float) -> str:
        """An unguessable id for the sign-in page to come back with."""
        return _keep(self._interactions, request, now_s)

    def take(self, interaction: str, now_s: float) -> AuthorizationRequest | None:
        """The request behind an interaction, once; None when it is unknown, used or too old."""
        return _take(self._interactions, interaction, now_s, INTERACTION_LIFETIME_S)

    def issue_code(self, grant: Grant, now_s: float) -> str:
        """A code for a completed sign-in."""
        return _keep(self._codes, grant, now_s)

    def redeem(self, code: str, redirect_uri: str, verifier: str, now_s: float) -> Grant:
        """The grant of a code. The first attempt uses it up, whether it succeeds or not."""
        grant = _take(self._codes, code, now_s, CODE_LIFETIME_S)
        if grant is None:
            raise InvalidGrant("the code is unknown, used or too old")
        if redirect_uri != grant.request.redirect_uri:
            raise InvalidGrant("the code was issued for another redirect URI")
        if not verifier_matches(verifier, grant.request.code_challenge):
            raise InvalidGrant("the code verifier does not match")
        return grant


def _keep(entries: dict[str, tuple[_T, float]], value: _T, now_s: float) -> str:
    while len(entries) >= MAX_PENDING:
        del entries[next(iter(entries))]
    key = secrets.token_urlsafe(32)
    entries[key] = (value, now_s)
    return key


def _take(entries: dict[str, tuple[_T, float]], key: str, now_s: float, lifetime_s: float) -> _T | None:
    value, since_s = entries.pop(key, (None, 0.0))
    return value if now_s - since_s <= lifetime_s else None
