"""Exchanges for the authentication without a socket, and what it needs around it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

from common.routetable.compiled import AuthMode, Match, Route
from common.state.memory import MemoryState
from common.telemetry.log import Log
from dataplane.authentication.sessions import BrowserSessions
from dataplane.authentication.step import Authentication
from dataplane.exchange import Downstream, Exchange
from dataplane.forwarding.context import ForwardingContext
from dataplane.http1.heads import Authority, RequestHead
from dataplane.metrics import GatewayMetrics
from dataplane.oidc.claims import BearerRules
from dataplane.oidc.keys import ProviderKeys
from dataplane.oidc.login import Identity
from dataplane.oidc.tokens import BearerTokens
from dataplane.replies import Reply
from dataplane.snapshot import Snapshot
from tests.support.forwarding import route as any_route
from tests.support.jose import ec_key, key_set, signed

ISSUER = "https://id.example.com"
HOST = "gateway.test"
PUBLIC_URL = f"https://{HOST}"
PAGE = {"accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "sec-fetch-mode": "navigate"}
"""The headers of a browser that opens a page."""


@dataclass
class Time:
    """A clock that a test moves: wall and monotonic, in seconds and milliseconds."""

    s: float = 1_800_000_000.0

    def now_s(self) -> float:
        return self.s

    def now_ms(self) -> int:
        return int(self.s * 1000)

    def pass_s(self, seconds: float) -> None:
        self.s += seconds


@dataclass
class Table:
    """As much of a route table as the authentication asks for."""

    own: frozenset[str] = frozenset({HOST})

    def owns_host(self, host: str | None) -> bool:
        return host in self.own


def log_into(lines: list[bytes]) -> Log:
    """A log whose lines a test reads."""
    return Log(lines.append, level="debug")


def route(mode: AuthMode, route_id: str = "app") -> Route:
    """A route of this mode."""
    return any_route(id=route_id, auth_mode=mode)


Sent = Mapping[str, str] | list[tuple[str, str]]


def exchange(
    target: str = "/",
    headers: Sent | None = None,
    *,
    mode: AuthMode | None = None,
    method: str = "GET",
    host: str = HOST,
    scheme: str = "https",
    upgrade: str = "",
) -> Exchange:
    """A request that reached the authentication, on a route of `mode` or for one of the gateway's endpoints."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    path, mark, query = target.partition("?")
    head = RequestHead(
        method=method,
        path=path,
        query=mark + query,
        http_1_0=False,
        headers=tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs),
        authority=Authority(host, None, host),
        body_length=0,
        keep_alive=True,
        upgrade=upgrade,
    )
    x = Exchange(head, cast(Downstream, None), peer="192.0.2.7", secure=scheme == "https", started_at=0.0)
    x.forwarding = ForwardingContext("192.0.2.7", scheme, host, host, b"192.0.2.7", trusted=False)
    x.snapshot = Snapshot(cast(Any, Table()), 1, 0, "file", ())
    x.request_id = "a-request"
    if mode is not None:
        x.match = x.matched = Match(route(mode), {}, "")
        x.route_id = x.matched.route.id
    return x


@dataclass
class Browser:
    """A browser's jar for the gateway: keeps what `Set-Cookie` says, and sends it where its path reaches."""

    jar: dict[str, tuple[str, str]] = field(default_factory=dict)

    def cookie(self, path: str) -> dict[str, str]:
        """The `Cookie` header for a request of `path`, if any."""
        sent = [f"{name}={value}" for name, (value, reach) in self.jar.items() if path.startswith(reach)]
        return {"cookie": "; ".join(sent)} if sent else {}

    def take(self, x: Exchange) -> None:
        """Keep the cookies that answer `x`."""
        for name, value in x.response_headers:
            if name == b"set-cookie":
                self.take_line(value.decode("ascii"))

    def take_line(self, line: str) -> None:
        pair, *attributes = line.split("; ")
        name, _, value = pair.partition("=")
        told = dict(attribute.partition("=")[::2] for attribute in attributes)
        if told.get("Max-Age") == "0":
            self.jar.pop(name, None)
        else:
            self.jar[name] = (value, told.get("Path", "/"))

    def __contains__(self, name: str) -> bool:
        return name in self.jar

    def value(self, name: str) -> str:
        return self.jar[name][0]


def location(reply: Reply) -> str:
    """Where a redirect leads."""
    assert reply.status == 302, reply
    return dict(reply.headers)[b"location"].decode("ascii")


def path_of(address: str) -> str:
    """Path and query of an absolute address."""
    parts = urlsplit(address)
    return parts.path + ("?" + parts.query if parts.query else "")


class Parts:
    """The authentication over a state in memory, with keys of the tests instead of a provider's."""

    def __init__(self, state: MemoryState | None = None) -> None:
        self.time = Time()
        self.state = state or MemoryState(self.time.now_ms)
        self.metrics = GatewayMetrics()
        self.sessions = BrowserSessions(
            self.state, idle_ms=28_800_000, max_age_ms=86_400_000, max_per_subject=0, secure=True
        )
        self.fetch: Callable[[], Awaitable[Any]] = self._keys
        keys = ProviderKeys(lambda: self.fetch(), cache_s=600, stale_s=3600, clock=self.time.now_s, log=log_into([]))
        tokens = BearerTokens(keys, BearerRules(ISSUER, "api", 86_400), roles_claim="roles", now_s=self.time.now_s)
        self.keys = keys
        self.step = Authentication(self.sessions, tokens, public_url=PUBLIC_URL, metrics=self.metrics)

    async def __aenter__(self) -> Parts:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.keys.close()

    async def _keys(self) -> dict[str, Any]:
        return key_set(ec_key("a"))

    def token(self, **changes: object) -> bytes:
        """A bearer token of alice, good for five minutes."""
        now = self.time.now_s()
        return signed(
            {"iss": ISSUER, "aud": "api", "sub": "alice", "iat": now, "exp": now + 300, **changes}, ec_key("a")
        )

    async def session_cookie(self, subject: str) -> dict[str, str]:
        """The `Cookie` header of a browser with a new session."""
        _, line = await self.sessions.open(Identity(subject, f"{subject}@example.test", ("reader",)), ())
        return {"cookie": line.decode("ascii").partition(";")[0]}

    def failures(self, reason: str) -> float:
        """How often the route `app` refused for this reason."""
        return self.metrics.auth_failures.value("app", reason)
