"""Step 8 of the dispatcher: authentication by the route's mode (§5.1)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import quote

from common.identity.principal import Principal
from common.ready import DONE, Ready
from common.state.ports import StateUnavailable
from dataplane.authentication.cookies import session_ids
from dataplane.authentication.pages import opens_a_page
from dataplane.authentication.redirects import safe_redirect
from dataplane.authentication.sessions import BrowserSessions, SessionRefused
from dataplane.errors import GatewayError
from dataplane.oidc.errors import ProviderUnavailable, TokenRefused
from dataplane.replies import Answered, redirect

if TYPE_CHECKING:
    from common.routetable.compiled import AuthMode
    from common.state.ports import Session
    from dataplane.exchange import Exchange
    from dataplane.metrics import GatewayMetrics
    from dataplane.oidc.tokens import BearerTokens

LOGIN_PATH = "/auth/login"

_CHALLENGE = ((b"www-authenticate", b"Bearer"),)


class Authentication:
    """Sets `principal` and `session` of an exchange, or refuses it.

    `GatewayError`: `unauthorized`, or `session_store_unavailable` and `identity_provider_unavailable` where the
    credential could not be judged. `Answered` with a redirect to the login for a person without a credential.
    """

    def __init__(
        self, sessions: BrowserSessions, tokens: BearerTokens, *, public_url: str, metrics: GatewayMetrics
    ) -> None:
        self._sessions = sessions
        self._tokens = tokens
        self._public_url = public_url
        self._metrics = metrics

    def ask_ahead(self, x: Exchange) -> None:
        """Have the session that this step will judge read meanwhile, so that it costs no round trip of its own. What
        refuses the request before this step does so without it.
        """
        match = x.match
        if match is None or not self._sessions.asks_ahead:
            return
        mode = match.route.auth_mode
        if mode == "session" or (mode == "any" and not x.head.values(b"authorization")):
            x.session_reads = self._sessions.ask(_session_ids(x))

    def __call__(self, x: Exchange) -> Awaitable[None]:
        mode = x.matched.route.auth_mode
        if mode == "none":
            return DONE
        if mode != "session":
            authorization = x.head.values(b"authorization")
            if authorization or mode == "jwt-only":
                return self._bearer(x, authorization)
        presented = _session_ids(x)
        session = self._sessions.at_hand(presented)
        if session is None:
            return self._session(x, mode, presented)
        self._identify(x, session)
        return DONE

    def _bearer(self, x: Exchange, authorization: tuple[bytes, ...]) -> Awaitable[None]:
        if not authorization:
            self._refuse(x, "missing", "no Authorization header")
        if len(authorization) > 1:
            self._refuse(x, "invalid", "several Authorization headers")
        scheme, _, token = authorization[0].partition(b" ")
        token = token.strip(b" ")
        if scheme.lower() != b"bearer" or not token:
            self._refuse(x, "invalid", "an Authorization header without a bearer token")
        verified = self._tokens.verify(token)
        if not isinstance(verified, Ready):
            return self._verified(x, verified)
        x.principal = verified[0]
        return DONE

    async def _verified(self, x: Exchange, verified: Awaitable[Principal]) -> None:
        try:
            x.principal = await verified
        except TokenRefused as refused:
            self._refuse(x, refused.reason, f"bearer token: {refused}")
        except ProviderUnavailable as away:
            raise GatewayError("identity_provider_unavailable", str(away)) from away

    async def _session(self, x: Exchange, mode: AuthMode, presented: Sequence[str]) -> None:
        try:
            session, cookie = await self._sessions.use(presented, x.session_reads)
        except SessionRefused as refused:
            if refused.clear:
                x.response_headers.append((b"set-cookie", self._sessions.cleared_cookie))
            self._login_or_refuse(x, mode, refused.reason)
        except StateUnavailable as away:
            raise GatewayError("session_store_unavailable", str(away)) from away
        if cookie is not None:
            x.response_headers.append((b"set-cookie", cookie))
        self._identify(x, session)

    def _identify(self, x: Exchange, session: Session) -> None:
        x.session = session
        x.principal = Principal(session.subject, session.email, session.roles)

    def _login_or_refuse(self, x: Exchange, mode: AuthMode, reason: str) -> NoReturn:
        # On a name that is not the gateway's, /auth/login is the service's own: there is no login to send to.
        if not opens_a_page(x.head) or not x.snapshot.table.owns_host(x.forwarding.hostname):
            self._refuse(x, reason, f"session: {reason}", challenge=mode == "any")
        self._count(x, reason)
        target = safe_redirect(x.head.path + x.head.query, self._public_url)
        raise Answered(redirect(f"{LOGIN_PATH}?redirect={quote(target, safe='')}"))

    def _refuse(self, x: Exchange, reason: str, detail: str, *, challenge: bool = True) -> NoReturn:
        self._count(x, reason)
        raise GatewayError("unauthorized", detail, headers=_CHALLENGE if challenge else ())

    def _count(self, x: Exchange, reason: str) -> None:
        self._metrics.auth_failures.inc(x.route_id, reason)


def _session_ids(x: Exchange) -> tuple[str, ...]:
    return x.head.derived(session_ids)
