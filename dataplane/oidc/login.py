"""The authorization code flow with PKCE (OIDC Core §3.1, RFC 6749 §4.1, RFC 7636, RFC 9207), without its cookies.

    start  -> PendingLogin (kept by the browser, signed) + the address to send the browser to
    finish <- PendingLogin + what the provider sent back -> Identity

The access token that comes with the ID token is dropped at once: the gateway calls nothing with it.
"""

from __future__ import annotations

import hashlib
import secrets
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus, urlencode

from common import base64url
from common.settings.secret import Secret
from dataplane.oidc.claims import IdTokenRules, check_id_token, email, roles, subject
from dataplane.oidc.client_assertion import ClientAssertion
from dataplane.oidc.discovery import ProviderMetadata
from dataplane.oidc.errors import LoginFailed, ProviderUnavailable, TokenRefused
from dataplane.oidc.http import Answer, ProviderHttp
from dataplane.oidc.keys import ProviderKeys
from dataplane.oidc.tokens import read_head, verified_claims

# Of the errors an authorization response may carry (RFC 6749 §4.1.2.1), those that say the provider is unwell.
_OUTAGES = frozenset({"server_error", "temporarily_unavailable"})


@dataclass(frozen=True, slots=True)
class PendingLogin:
    """A login that was started in a browser. `redirect` is a safe target; `started_at_s` is of the wall clock."""

    state: str
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)
    redirect: str
    started_at_s: int


@dataclass(frozen=True, slots=True)
class Identity:
    """Who logged in, as the ID token says."""

    subject: str
    email: str
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CallbackParameters:
    """What the provider sent back through the browser; None for what it left out."""

    code: str | None = field(repr=False)
    error: str | None = None
    issuer: str | None = None


@dataclass(frozen=True, slots=True)
class Client:
    """This gateway as a client of the provider.

    One of `secret` and `assertion` proves it at the token endpoint; a client with neither is a public one, which the
    settings admit in development alone.
    """

    client_id: str
    redirect_uri: str
    scopes: tuple[str, ...]
    secret_in_form: bool = False
    """`client_secret_post` instead of `client_secret_basic`."""
    secret: Secret | None = None
    assertion: ClientAssertion | None = None


def new_pending_login(redirect: str, now_s: float) -> PendingLogin:
    """A login with fresh state and nonce (128 bits each) and PKCE verifier (256 bits, RFC 7636 §4.1)."""
    return PendingLogin(
        state=secrets.token_urlsafe(16),
        nonce=secrets.token_urlsafe(16),
        verifier=secrets.token_urlsafe(32),
        redirect=redirect,
        started_at_s=int(now_s),
    )


def authorization_address(endpoint: str, client: Client, pending: PendingLogin) -> str:
    """Where the browser goes to log in. Holds nothing secret: the verifier only as its SHA-256."""
    challenge = base64url.encode(hashlib.sha256(pending.verifier.encode()).digest()).decode()
    query = urlencode(
        {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": client.redirect_uri,
            "scope": " ".join(client.scopes),
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
    )
    return endpoint + ("&" if "?" in endpoint else "?") + query


def check_callback(parameters: CallbackParameters, metadata: ProviderMetadata) -> str:
    """The code of a callback that is this provider's and a success; `LoginFailed` or `ProviderUnavailable` else.

    The issuer is compared first: an answer of another provider is not believed in anything (RFC 9207 §2.4).
    """
    if parameters.issuer is None and metadata.sends_issuer:
        raise LoginFailed("the answer does not name its issuer, which this provider always does")
    if parameters.issuer is not None and parameters.issuer != metadata.issuer:
        raise LoginFailed("the answer is another issuer's")
    if parameters.error is not None:
        detail = f"the provider answered {parameters.error[:64]!r}"
        raise ProviderUnavailable(detail) if parameters.error in _OUTAGES else LoginFailed(detail)
    if not parameters.code:
        raise LoginFailed("the answer holds no code")
    return parameters.code


def token_request(
    client: Client, token_endpoint: str, code: str, verifier: str, now_s: float
) -> tuple[dict[str, str], dict[str, str]]:
    """Form and headers that exchange a code (RFC 6749 §4.1.3), with the client's proof (§2.3.1, RFC 7523 §2.2)."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": client.redirect_uri,
        "code_verifier": verifier,
    }
    if client.assertion is not None:
        return {**form, "client_id": client.client_id, **client.assertion.form(token_endpoint, now_s)}, {}
    if client.secret is None:
        return {**form, "client_id": client.client_id}, {}
    if client.secret_in_form:
        return {**form, "client_id": client.client_id, "client_secret": client.secret.reveal()}, {}
    # Id and secret are form-encoded before they are joined: either may hold a colon.
    pair = f"{quote_plus(client.client_id)}:{quote_plus(client.secret.reveal())}"
    return form, {"authorization": "Basic " + b64encode(pair.encode()).decode()}


def read_id_token(answer: Answer) -> bytes:
    """The ID token in a token endpoint's answer; `LoginFailed` for a refusal, `ProviderUnavailable` for an outage."""
    if answer.status >= 500 or answer.status == 429:
        raise ProviderUnavailable(f"the token endpoint answered {answer.status}")
    try:
        body: dict[str, Any] = answer.json_object()
    except ValueError:
        body = {}
    if answer.status != 200:
        error = body.get("error")
        raise LoginFailed(f"the token endpoint answered {answer.status} {error if isinstance(error, str) else '':.64}")
    token = body.get("id_token")
    if not isinstance(token, str) or not token.isascii():
        raise LoginFailed("the token endpoint answered without an ID token")
    return token.encode()


class LoginFlow:
    """Starts and finishes logins with one provider."""

    def __init__(
        self,
        client: Client,
        metadata: Callable[[], Awaitable[ProviderMetadata]],
        keys: ProviderKeys,
        http: ProviderHttp,
        *,
        roles_claim: str,
        now_s: Callable[[], float],
    ) -> None:
        self._client = client
        self._metadata = metadata
        self._keys = keys
        self._http = http
        self._roles_claim = roles_claim
        self._now_s = now_s

    async def start(self, redirect: str) -> tuple[PendingLogin, str]:
        """A new login and the address to send the browser to; `ProviderUnavailable` when there is none."""
        metadata = await self._metadata()
        pending = new_pending_login(redirect, self._now_s())
        return pending, authorization_address(metadata.authorization_endpoint, self._client, pending)

    async def finish(self, pending: PendingLogin, parameters: CallbackParameters) -> Identity:
        """Who logged in; `LoginFailed`, or `ProviderUnavailable` when the provider gives no answer to it."""
        metadata = await self._metadata()
        code = check_callback(parameters, metadata)
        form, headers = token_request(self._client, metadata.token_endpoint, code, pending.verifier, self._now_s())
        token = read_id_token(await self._http.post_form(metadata.token_endpoint, form, headers))
        try:
            claims = await self._id_token_claims(token, metadata.issuer, pending.nonce)
            return Identity(subject(claims), email(claims), roles(claims, self._roles_claim))
        except TokenRefused as refused:
            raise LoginFailed(f"ID token: {refused}") from refused

    async def _id_token_claims(self, token: bytes, issuer: str, nonce: str) -> Mapping[str, Any]:
        head = read_head(token)
        if head.type.endswith("+jwt"):
            raise TokenRefused("its type is not that of an ID token")
        claims, _ = await verified_claims(token, head, await self._keys.current(), self._keys)
        check_id_token(claims, IdTokenRules(issuer, self._client.client_id), nonce, self._now_s())
        return claims

    async def logout_address(self, back_to: str) -> str | None:
        """Where the provider ends its own session (RP-Initiated Logout 1.0 §2), None when it has no such place.

        Without `id_token_hint`: no token is stored, and none belongs in an address.
        """
        metadata = await self._metadata()
        endpoint = metadata.end_session_endpoint
        if endpoint is None:
            return None
        query = urlencode({"client_id": self._client.client_id, "post_logout_redirect_uri": back_to})
        return endpoint + ("&" if "?" in endpoint else "?") + query
