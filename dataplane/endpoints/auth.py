"""The gateway's own endpoints of the browser flow: login, callback, logout, session (§2.2, §5.2)."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from common.identity.principal import Principal
from common.rfc3339 import rfc3339
from common.state.ports import StateUnavailable
from dataplane.authentication.cookies import LoginCookie, session_ids, values_of
from dataplane.authentication.redirects import safe_redirect
from dataplane.authentication.sessions import BrowserSessions, SessionRefused
from dataplane.errors import GatewayError
from dataplane.forwarding.cookies import STATE_COOKIE, cookies_of
from dataplane.oidc.errors import LoginFailed, ProviderUnavailable
from dataplane.oidc.login import CallbackParameters, Identity, PendingLogin
from dataplane.replies import Reply, json_reply, onward_page, redirect

if TYPE_CHECKING:
    from dataplane.crosssite import CrossSiteGuard
    from dataplane.exchange import Exchange
    from dataplane.http1.heads import RequestHead
    from dataplane.limits.steps import LoginPart
    from dataplane.metrics import GatewayMetrics
    from dataplane.oidc.login import LoginFlow


class AuthEndpoints:
    """One method an endpoint: each takes the exchange and returns its answer, or raises `GatewayError`.

    Cookies go into the exchange's `response_headers`, so that they are sent with an error as well. The exchange has its
    forwarding context already.
    """

    def __init__(
        self,
        flow: LoginFlow,
        sessions: BrowserSessions,
        cookie: LoginCookie,
        *,
        public_url: str,
        guard: CrossSiteGuard,
        login_limit: Callable[[Exchange, LoginPart], Awaitable[None]],
        lands_strict: Callable[[Exchange, str], bool],
        metrics: GatewayMetrics,
        now_s: Callable[[], float],
    ) -> None:
        """`login_limit` counts a part of a login and raises the refusal of one too many. `now_s` is the wall clock.

        `lands_strict` says of a redirect target whether its route refuses navigations from other sites.
        """
        self._flow = flow
        self._sessions = sessions
        self._cookie = cookie
        self._public_url = public_url
        self._guard = guard
        self._login_limit = login_limit
        self._lands_strict = lands_strict
        self._metrics = metrics
        self._now_s = now_s

    async def login(self, x: Exchange) -> Reply:
        """`GET /auth/login?redirect=`: to the provider, with the login noted in the browser's cookie."""
        await self._login_limit(x, "login")
        target = safe_redirect(_parameters(x.head.query).get("redirect", "/"), self._public_url)
        try:
            pending, address = await self._flow.start(target)
        except ProviderUnavailable as away:
            raise self._unavailable("identity_provider_unavailable", away) from away
        self._keep_pending(x, (*self._pending(x.head), pending))
        self._metrics.logins.inc("started")
        return redirect(address)

    async def callback(self, x: Exchange) -> Reply:
        """`GET /auth/callback`: completes a login of this browser and leads to where it was going."""
        parameters = _parameters(x.head.query)
        state = parameters.get("state", "")
        logins = self._pending(x.head)
        pending = next((each for each in logins if hmac.compare_digest(each.state.encode(), state.encode())), None)
        if pending is None:
            return await self._unknown_state(x)
        if "code" in parameters:
            await self._login_limit(x, "callback")  # before the entry is used up: the page may be loaded again
        # Single use: whatever comes of it, this entry is gone.
        self._keep_pending(x, tuple(each for each in logins if each is not pending))
        identity = await self._identity(pending, parameters)
        try:
            session, cookie = await self._sessions.open(identity, replaces=_presented(x.head))
        except StateUnavailable as away:
            raise self._unavailable("session_store_unavailable", away) from away
        x.session = session
        x.principal = Principal(session.subject, session.email, session.roles)
        x.response_headers.append((b"set-cookie", cookie))
        self._metrics.logins.inc("completed")
        # To a browser a redirect that began at the provider is cross-site to its end: a strict route would refuse it.
        return onward_page(pending.redirect) if self._lands_strict(x, pending.redirect) else redirect(pending.redirect)

    async def logout(self, x: Exchange) -> Reply:
        """`GET, POST /auth/logout`: ends the session here, then at the provider where it has a place for that.

        Another site cannot send a browser here. Without the provider the logout still happens.
        """
        if self._guard.refuses(x.head, x.forwarding, state_changing=True, strict=True):
            self._metrics.auth_failures.inc("gateway", "cross_site")
            raise GatewayError("cross_site_request", "a logout that another site asked for")
        try:
            await self._sessions.end(_presented(x.head))
        except StateUnavailable as away:
            raise GatewayError("session_store_unavailable", str(away)) from away
        x.response_headers.append((b"set-cookie", self._sessions.cleared_cookie))
        try:
            address = await self._flow.logout_address(self._public_url + "/")
        except ProviderUnavailable:
            address = None
        return redirect(address or "/")

    async def session(self, x: Exchange) -> Reply:
        """`GET /auth/session`: who is logged in and until when, never a token or id. Looking does not extend it."""
        try:
            _, session = await self._sessions.find(_presented(x.head))
        except SessionRefused as refused:
            if refused.clear:
                x.response_headers.append((b"set-cookie", self._sessions.cleared_cookie))
            self._metrics.auth_failures.inc("gateway", refused.reason)
            raise GatewayError("unauthorized", f"session: {refused.reason}") from refused
        except StateUnavailable as away:
            raise GatewayError("session_store_unavailable", str(away)) from away
        x.session = session
        x.principal = Principal(session.subject, session.email, session.roles)
        return json_reply(
            200,
            {
                "subject": session.subject,
                "email": session.email,
                "roles": session.roles,
                "expiresAt": rfc3339(session.expires_at_ms),
                "idleExpiresAt": rfc3339(min(session.idle_expires_at_ms, session.expires_at_ms)),
            },
        )

    async def _identity(self, pending: PendingLogin, parameters: dict[str, str]) -> Identity:
        try:
            return await self._flow.finish(
                pending,
                CallbackParameters(
                    code=parameters.get("code"), error=parameters.get("error"), issuer=parameters.get("iss")
                ),
            )
        except LoginFailed as failed:
            self._metrics.logins.inc("failed")
            raise GatewayError("login_failed", str(failed)) from failed
        except ProviderUnavailable as away:
            raise self._unavailable("identity_provider_unavailable", away) from away

    async def _unknown_state(self, x: Exchange) -> Reply:
        """A callback that belongs to no pending login: used already, too old, pushed out, or of another browser.

        Somebody who pressed "back" or finished a second tab is logged in already, and meets no wall of errors.
        """
        try:
            await self._sessions.find(_presented(x.head))
        except SessionRefused:
            self._metrics.logins.inc("failed")
            raise GatewayError("login_failed", "the state belongs to no pending login of this browser") from None
        except StateUnavailable as away:
            raise self._unavailable("session_store_unavailable", away) from away
        return redirect("/")

    def _pending(self, head: RequestHead) -> tuple[PendingLogin, ...]:
        return self._cookie.read(values_of(head.derived(cookies_of), STATE_COOKIE), self._now_s())

    def _keep_pending(self, x: Exchange, logins: tuple[PendingLogin, ...]) -> None:
        x.response_headers.append((b"set-cookie", self._cookie.write(logins)))

    def _unavailable(self, code: str, cause: Exception) -> GatewayError:
        self._metrics.logins.inc("unavailable")
        return GatewayError(code, str(cause))


def _presented(head: RequestHead) -> tuple[str, ...]:
    return head.derived(session_ids)


def _parameters(query: str) -> dict[str, str]:
    """The parameters that were sent once. One that was sent twice has no value that two readers would agree on."""
    sent = parse_qs(query[1:], keep_blank_values=True)
    return {name: values[0] for name, values in sent.items() if len(values) == 1}
