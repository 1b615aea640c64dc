"""The authentication put together from the settings: the step, the endpoints, and the provider behind both."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dataplane.authentication.cookies import LoginCookie
from dataplane.authentication.sessions import BrowserSessions
from dataplane.authentication.step import LOGIN_PATH, Authentication
from dataplane.crosssite import CrossSiteGuard
from dataplane.endpoints.auth import AuthEndpoints
from dataplane.endpoints.router import READ, AuthEndpoint
from dataplane.oidc.provider import CALLBACK_PATH, IdentityProvider

if TYPE_CHECKING:
    from common.settings.gateway import GatewaySettings
    from common.state.ports import State
    from common.telemetry.log import Log
    from dataplane.exchange import Exchange
    from dataplane.limits.steps import LoginPart
    from dataplane.metrics import GatewayMetrics


@dataclass(frozen=True, slots=True)
class AuthenticationParts:
    """`step` is the dispatcher's; `endpoints` gives each path its methods and handler; `close` once, at the end."""

    step: Authentication
    endpoints: dict[str, tuple[frozenset[str], AuthEndpoint]]
    close: Callable[[], Awaitable[None]]


def build_authentication(
    settings: GatewaySettings,
    state: State,
    metrics: GatewayMetrics,
    log: Log,
    *,
    login_limit: Callable[[Exchange, LoginPart], Awaitable[None]],
    lands_strict: Callable[[Exchange, str], bool] = lambda _x, _target: False,
    clock: Callable[[], float] = time.monotonic,
    now_s: Callable[[], float] = time.time,
) -> AuthenticationParts:
    """Everything that authenticates, from validated settings. Opens no connection: the provider may be away.

    `clock` is monotonic, `now_s` the wall clock. A client key or authority that cannot be read is `ValueError` or
    `OSError`.
    """
    secure = not settings.public_url.startswith("http://")
    provider = IdentityProvider(settings, log=log, clock=clock, now_s=now_s)
    sessions = BrowserSessions(
        state,
        idle_ms=settings.session_idle_ms,
        max_age_ms=settings.session_max_age_ms,
        max_per_subject=settings.session_max_per_subject,
        secure=secure,
    )
    endpoints = AuthEndpoints(
        provider.login,
        sessions,
        LoginCookie(settings.session_secret, secure=secure),
        public_url=settings.public_url,
        # A page of ours may log out wherever a proxy in front, trusted or not, says that the request came to.
        guard=CrossSiteGuard(
            (settings.public_url, *settings.allowed_origins), strict=settings.csrf_strict, metrics=metrics
        ),
        login_limit=login_limit,
        lands_strict=lands_strict,
        metrics=metrics,
        now_s=now_s,
    )
    return AuthenticationParts(
        step=Authentication(sessions, provider.tokens, public_url=settings.public_url, metrics=metrics),
        endpoints={
            LOGIN_PATH: (READ, endpoints.login),
            CALLBACK_PATH: (READ, endpoints.callback),
            "/auth/logout": (READ | {"POST"}, endpoints.logout),
            "/auth/session": (READ, endpoints.session),
        },
        close=provider.close,
    )
