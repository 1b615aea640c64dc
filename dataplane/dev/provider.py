"""The development OpenID provider: discovery, keys, a sign-in page, code exchange, logout.

It is strict where the gateway relies on a provider: exact redirect URIs, PKCE with S256, single-use codes, a nonce and
a state. It is lax in one thing on purpose: choosing an account is signing in. It keeps no session of its own, so each
login asks again. State is in memory, and one event loop uses it.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable
from urllib.parse import parse_qsl, unquote_plus, urlencode

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from dataplane.dev.accounts import ACCOUNTS, Account
from dataplane.dev.authorization import (
    AuthorizationRefused,
    AuthorizationRequest,
    Client,
    Grant,
    InvalidGrant,
    PendingLogins,
    UntrustedRequest,
    read_authorization_request,
)
from dataplane.dev.markup import asset, document, page, text
from dataplane.dev.tokens import ACCESS_TOKEN_LIFETIME_S, ALGORITHM, TokenIssuer

_FORM = "application/x-www-form-urlencoded"
_FORM_MAX_BYTES = 16_384
_HEADER = '<span class="brand">Development sign-in</span>'
_NO_STORE = {"cache-control": "no-store"}


class _BadForm(Exception):
    """A body that is no form, or larger than any form of this provider."""


class DevelopmentProvider:
    """The provider as an ASGI application, `app`.

    `issuer` is its origin, with no slash at the end. `clock` gives epoch seconds, `monotonic` what lifetimes are
    measured by.
    """

    def __init__(
        self,
        issuer: str,
        client: Client,
        audience: str,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = issuer
        self._client = client
        self._clock = clock
        self._monotonic = monotonic
        self._tokens = TokenIssuer(issuer, client.client_id, audience)
        self._pending = PendingLogins()
        self._form_targets = tuple({_origin(uri): None for uri in client.redirect_uris})
        self.app = Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._discovery),
                Route("/jwks", self._jwks),
                Route("/authorize", self._authorize),
                Route("/sign-in", self._sign_in, methods=["POST"]),
                Route("/token", self._token, methods=["POST"]),
                Route("/end-session", self._end_session, methods=["GET", "POST"]),
                Route("/dev/token", self._dev_token, methods=["POST"]),
                Route("/assets/{name}", asset),
            ],
            # A site that points its own name at loopback is turned away: it must not read what this port serves.
            middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])],
        )

    async def _discovery(self, _: Request) -> Response:
        at = self._issuer
        return JSONResponse(
            {
                "issuer": at,
                "authorization_endpoint": f"{at}/authorize",
                "token_endpoint": f"{at}/token",
                "jwks_uri": f"{at}/jwks",
                "end_session_endpoint": f"{at}/end-session",
                "response_types_supported": ["code"],
                "response_modes_supported": ["query"],
                "grant_types_supported": ["authorization_code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": [ALGORITHM],
                "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
                "code_challenge_methods_supported": ["S256"],
                "scopes_supported": ["openid", "email", "profile"],
                "claims_supported": ["sub", "email", "email_verified", "name", "roles"],
                "authorization_response_iss_parameter_supported": True,
                "request_parameter_supported": False,
                "request_uri_parameter_supported": False,
            }
        )

    async def _jwks(self, _: Request) -> Response:
        return JSONResponse(self._tokens.key_set())

    async def _authorize(self, request: Request) -> Response:
        try:
            wanted = read_authorization_request(request.query_params.multi_items(), self._client)
        except UntrustedRequest as untrusted:
            return _problem("This sign-in cannot be started", f"The request was not accepted: {untrusted}.")
        except AuthorizationRefused as refused:
            answer = {"error": refused.error, "error_description": refused.description}
            return self._back_to_client(refused.redirect_uri, refused.state, answer)
        return page(_sign_in_page(self._pending.open(wanted, self._monotonic())), form_targets=self._form_targets)

    async def _sign_in(self, request: Request) -> Response:
        try:
            form = await _form(request)
        except _BadForm:
            return _problem("This sign-in cannot be completed", "The form could not be read.")
        wanted = self._pending.take(form.get("interaction", ""), self._monotonic())
        if wanted is None:
            return _problem(
                "This sign-in is over", "It was used already, or took too long. Start again at the gateway."
            )
        if form.get("cancel"):
            return self._back_to_client(wanted.redirect_uri, wanted.state, {"error": "access_denied"})
        account = ACCOUNTS.get(form.get("account", ""))
        if account is None:
            return _problem("This account is unknown", "Start again at the gateway.")
        return self._signed_in(wanted, account)

    def _signed_in(self, wanted: AuthorizationRequest, account: Account) -> Response:
        code = self._pending.issue_code(Grant(wanted, account, self._clock()), self._monotonic())
        return self._back_to_client(wanted.redirect_uri, wanted.state, {"code": code})

    def _back_to_client(self, redirect_uri: str, state: str, answer: dict[str, str]) -> Response:
        parameters = {**answer, **({"state": state} if state else {}), "iss": self._issuer}
        return RedirectResponse(f"{redirect_uri}?{urlencode(parameters)}", status_code=303, headers=_NO_STORE)

    async def _token(self, request: Request) -> Response:
        try:
            form = await _form(request)
            client_id, secret = _client_credentials(request, form)
        except _BadForm as bad:
            return _token_error(400, "invalid_request", str(bad))
        if not self._client.authenticates(client_id, secret):
            return _token_error(401, "invalid_client", "the client could not be authenticated")
        if form.get("grant_type") != "authorization_code":
            return _token_error(400, "unsupported_grant_type", "only authorization_code is supported")
        try:
            grant = self._pending.redeem(
                form.get("code", ""), form.get("redirect_uri", ""), form.get("code_verifier", ""), self._monotonic()
            )
        except InvalidGrant as invalid:
            return _token_error(400, "invalid_grant", str(invalid))
        now_s = int(self._clock())
        return JSONResponse(
            {
                "access_token": self._tokens.access_token(grant.account, now_s, grant.request.scope),
                "token_type": "Bearer",
                "expires_in": ACCESS_TOKEN_LIFETIME_S,
                "id_token": self._tokens.id_token(grant, now_s),
                "scope": grant.request.scope,
            },
            headers=_NO_STORE,
        )

    async def _end_session(self, request: Request) -> Response:
        """OpenID Connect RP-Initiated Logout 1.0; the session that it would end does not exist here."""
        try:
            values = dict(request.query_params) if request.method == "GET" else await _form(request)
        except _BadForm:
            values = {}
        target = values.get("post_logout_redirect_uri")
        if target is None:
            return page(document("Signed out", "<h1>You are signed out</h1>", header=_HEADER, narrow=True))
        if target not in self._client.post_logout_redirect_uris:
            return _problem(
                "You are signed out", "The address to go on to is not registered, so this is the last page."
            )
        state = values.get("state")
        return RedirectResponse(f"{target}?{urlencode({'state': state})}" if state else target, 303, headers=_NO_STORE)

    async def _dev_token(self, request: Request) -> Response:
        """A bearer token of a demo account as plain text, for curl: no real provider has such an endpoint."""
        try:
            account = ACCOUNTS.get((await _form(request)).get("account", ""))
        except _BadForm:
            account = None
        if account is None:
            return PlainTextResponse(f"Send account={' or account='.join(ACCOUNTS)} as a form.\n", status_code=400)
        return PlainTextResponse(self._tokens.access_token(account, int(self._clock()), "openid"), headers=_NO_STORE)


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form body; raises `_BadForm` for another type, an over-long body or a repeated field."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise _BadForm(f"the body must be {_FORM}")
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _FORM_MAX_BYTES:
            raise _BadForm("the body is too large")
    try:
        fields = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=50)
    except ValueError:
        raise _BadForm("the body is malformed") from None
    if len(dict(fields)) != len(fields):
        raise _BadForm("a field is repeated")
    return dict(fields)


def _client_credentials(request: Request, form: dict[str, str]) -> tuple[str, str]:
    """Client id and secret from exactly one place: the header (RFC 6749 §2.3.1) or the form."""
    header = request.headers.get("authorization")
    if header is None:
        return form.get("client_id", ""), form.get("client_secret", "")
    if "client_secret" in form:
        raise _BadForm("the client is authenticated twice")
    scheme, _, encoded = header.partition(" ")
    try:
        client_id, _, secret = base64.b64decode(encoded, validate=True).decode("ascii").partition(":")
    except (binascii.Error, ValueError):
        return "", ""
    return (unquote_plus(client_id), unquote_plus(secret)) if scheme.lower() == "basic" else ("", "")


def _token_error(status: int, error: str, description: str) -> Response:
    headers = dict(_NO_STORE)
    if status == 401:
        headers["www-authenticate"] = 'Basic realm="token"'
    return JSONResponse({"error": error, "error_description": description}, status_code=status, headers=headers)


def _problem(title: str, explanation: str) -> Response:
    body = f"<h1>{text(title)}</h1><p>{text(explanation)}</p>"
    return page(document(title, body, header=_HEADER, narrow=True), status=400)


def _sign_in_page(interaction: str) -> str:
    choices = "".join(
        f'<li><button class="button plain" name="account" value="{text(account.name)}">{text(account.email)}'
        f"<span>{text(account.summary)}</span></button></li>"
        for account in ACCOUNTS.values()
    )
    body = f"""<h1>Choose an account</h1>
<p class="lead">This provider exists for development alone: there is no password, and choosing is signing in.</p>
<form method="post" action="/sign-in">
<input type="hidden" name="interaction" value="{text(interaction)}">
<ul class="accounts">{choices}</ul>
<button class="button plain" name="cancel" value="yes">Cancel</button>
</form>"""
    return document("Sign in", body, header=_HEADER, narrow=True)


def _origin(uri: str) -> str:
    scheme, _, rest = uri.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"
