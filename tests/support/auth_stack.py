"""The authentication as it is built from settings, and a user with a browser who goes through it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any
from urllib.parse import quote

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc.jwk import ECKey

from common.identity.principal import Principal
from common.settings.gateway import GatewaySettings
from common.settings.secret import Secret
from common.state.memory import MemoryState
from dataplane.authentication.build import build_authentication
from dataplane.authentication.cookies import LoginCookie
from dataplane.errors import GatewayError
from dataplane.exchange import Exchange
from dataplane.limits.steps import LoginPart
from dataplane.metrics import GatewayMetrics
from dataplane.replies import Answered, Reply
from tests.support.auth_harness import PAGE, PUBLIC_URL, Browser, exchange, location, log_into, path_of
from tests.support.oidc_provider import AUDIENCE, Person, client_secret

__all__ = ["PUBLIC_URL", "Stack", "User", "client_key"]

Endpoint = Callable[[Exchange], Awaitable[Reply]]


@cache
def client_key() -> tuple[Secret, dict[str, Any]]:
    """The key of the client `gateway-key`: what the gateway holds, and what the provider is told."""
    key = ECKey.generate_key("P-256", {"use": "sig", "alg": "ES256"})
    pem = key.raw_value.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())  # type: ignore[union-attr]
    return Secret(pem.decode()), dict(key.as_dict(private=False))


async def no_limit(_: Exchange, __: LoginPart) -> None:
    """Lets every login start and end."""


class Stack:
    """Step and endpoints over a state in memory. `later_s` moves the wall clock."""

    def __init__(self, issuer: str, client_id: str = "gateway", **changes: Any) -> None:
        auth = {"gateway-rsa": "client_secret_post", "gateway-key": "private_key_jwt"}
        values = {
            "public_url": PUBLIC_URL,
            "oidc_issuer": issuer,
            "oidc_client_id": client_id,
            "oidc_client_secret": Secret(client_secret(client_id)),
            "oidc_client_auth": auth.get(client_id, "client_secret_basic"),
            "oidc_client_key": client_key()[0],
            "oidc_audience": AUDIENCE,
            **changes,
        }
        self.issuer = issuer
        self.later_s = 0.0
        self.log_lines: list[bytes] = []
        self.settings = GatewaySettings(**values)
        self.metrics = GatewayMetrics()
        self.state = MemoryState(lambda: int(self.now_s() * 1000))
        self.login_limit: Callable[[Exchange, LoginPart], Awaitable[None]] = no_limit
        self.parts = build_authentication(
            self.settings,
            self.state,
            self.metrics,
            log_into(self.log_lines),
            login_limit=lambda x, part: self.login_limit(x, part),
            clock=self._clock,
            now_s=self.now_s,
        )
        self.cookie = LoginCookie(self.settings.session_secret, secure=True)

    def now_s(self) -> float:
        return time.time() + self.later_s

    def _clock(self) -> float:
        return time.monotonic() + self.later_s

    def _endpoint(self, path: str) -> Endpoint:
        return self.parts.endpoints[path][1]

    @property
    def login(self) -> Endpoint:
        return self._endpoint("/auth/login")

    @property
    def callback(self) -> Endpoint:
        return self._endpoint("/auth/callback")

    @property
    def logout(self) -> Endpoint:
        return self._endpoint("/auth/logout")

    @property
    def session(self) -> Endpoint:
        return self._endpoint("/auth/session")

    def logins(self, result: str) -> float:
        return self.metrics.logins.value(result)

    async def bearer(self, token: bytes) -> str:
        """`ok`, or the code that refuses this token."""
        x = exchange("/", {"authorization": f"Bearer {token.decode()}"}, mode="jwt-only")
        try:
            await self.parts.step(x)
        except GatewayError as error:
            return error.code
        return "ok"

    async def __aenter__(self) -> Stack:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.parts.close()


class User:
    """Somebody at a browser: `browser` holds the gateway's cookies, `person` sits at the provider."""

    def __init__(self, stack: Stack, name: str = "alice") -> None:
        self.stack = stack
        self.browser = Browser()
        self.person = Person(name)
        self.seen: Principal | None = None
        self._told: list[str] = []

    async def __aenter__(self) -> User:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.person.close()

    async def login(self, target: str) -> str:
        """Start a login that leads to `target`; the provider's address."""
        x = exchange("/auth/login")
        object.__setattr__(x.head, "query", "?redirect=" + quote(target, safe=""))
        return await self._go(self.stack.login, x)

    async def callback_of(self, address: str) -> str:
        """Log in at the provider's address; path and query of the callback it leads to."""
        return path_of(await self.person.visit(address, until=f"{PUBLIC_URL}/auth/callback"))

    async def finish(self, callback: str) -> str:
        """Follow a callback; where it leads."""
        return await self._go(self.stack.callback, exchange(callback))

    async def open(self, target: str) -> str:
        """Open a page, through the login where it is asked for; the path at which the page is seen."""
        for _ in range(3):
            x = exchange(target, {**PAGE, **self.browser.cookie(target)}, mode="session")
            try:
                await self.stack.parts.step(x)
            except Answered as answered:
                self.browser.take(x)
                login = location(answered.reply)
                address = await self._go(self.stack.login, exchange(login))
                target = await self.finish(await self.callback_of(address))
                continue
            self.browser.take(x)
            self.seen = x.principal
            return target
        raise AssertionError("the login leads to the login")

    async def refusal(self, endpoint: Endpoint, target: str, *, fresh: bool = False) -> str:
        """The code with which an endpoint refuses this user; `fresh` leaves the cookies out."""
        x = exchange(target, {} if fresh else self.browser.cookie(target.partition("?")[0]))
        try:
            reply = await endpoint(x)
        except GatewayError as error:
            self.browser.take(x)
            self._told.append(f"{error} {error.detail} {error.message} {error.headers}")
            return error.code
        raise AssertionError(f"not refused: {reply}")

    def told(self) -> str:
        """Everything that refusals said, for the log or for the caller."""
        return "\n".join(self._told)

    async def _go(self, endpoint: Endpoint, x: Exchange) -> str:
        sent = [(name.encode(), value.encode()) for name, value in self.browser.cookie(x.head.path).items()]
        object.__setattr__(x.head, "headers", (*x.head.headers, *sent))
        try:
            return location(await endpoint(x))
        finally:
            self.browser.take(x)
