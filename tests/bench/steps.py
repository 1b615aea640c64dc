"""The steps of a request as things to time: each is a call without arguments, made of the gateway's own parts."""

from __future__ import annotations

import hashlib
import itertools
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar, cast

from common.identity.principal import Principal
from common.identity.signature import IdentitySigner
from common.ready import Ready
from common.routetable.compiled import Budget, DeploymentDefaults, Match
from common.routetable.load import load_route_table
from common.routetable.table import RouteTable
from common.state.budgets import BudgetTable
from common.state.memory import MemoryState
from common.state.ports import NewSession
from common.telemetry.log import Log
from common.telemetry.request_id import new_request_id
from common.telemetry.trace import continue_trace
from dataplane.access.breaker import Breaker
from dataplane.access.client import AccessClient
from dataplane.authentication.sessions import BrowserSessions
from dataplane.dev.accounts import MEMBER, WORKSPACE_ID
from dataplane.exchange import Downstream, Exchange
from dataplane.forwarding.context import forwarding_context
from dataplane.forwarding.request_headers import copied_headers, gateway_lines, identity_lines
from dataplane.forwarding.response_headers import response_headers
from dataplane.http1.request import read_request_head
from dataplane.http1.response import read_response_head
from dataplane.http1.write import request_head
from dataplane.limits import DeploymentBudgets, Limiter, PrincipalLimit, RequestLimits
from dataplane.metrics import GatewayMetrics
from dataplane.record import Recorder

T = TypeVar("T")
Step = Callable[[], object]

SESSION_ID = secrets.token_urlsafe(32)
PATH = f"/workspaces/{WORKSPACE_ID}/items"

REQUEST = (
    f"GET {PATH}?page=2 HTTP/1.1\r\nhost: app.example.com\r\naccept: application/json\r\n"
    "accept-encoding: gzip, br\r\naccept-language: en\r\nuser-agent: Mozilla/5.0 (X11; Linux x86_64) bench\r\n"
    f"cookie: theme=dark; gateway_session={SESSION_ID}\r\n\r\n"
).encode()
RESPONSE = (
    b"HTTP/1.1 200 OK\r\nserver: nginx\r\ndate: Mon, 30 Nov 2026 12:00:00 GMT\r\ncontent-type: application/json\r\n"
    b"content-length: 191\r\nconnection: keep-alive\r\n\r\n"
)


def at_once(work: Awaitable[T]) -> T:
    """The result of what waits for nothing, without a loop."""
    if isinstance(work, Ready):
        return cast("T", work[0])
    try:
        next(work.__await__())
    except StopIteration as stop:
        return cast("T", stop.value)
    raise AssertionError("the step waited")


def services(count: int) -> list[dict[str, Any]]:
    """Routes of services beside each other, each with a workspace in its path, where nobody is authenticated. Short
    ones: a table of 100 000 is to be no larger than a document may be.
    """
    match = "/svc-%d/{w}/"
    return [{"id": f"svc-{n}", "match": {"path": match % n}, "upstream": "http://app:80"} for n in range(count)]


def document_of(routes: Sequence[dict[str, Any]]) -> bytes:
    """A table as a document."""
    document = {"version": 2, "defaults": {"auth": {"mode": "none"}}, "routes": routes}
    return json.dumps(document, separators=(",", ":")).encode()


def paths_of(routes: int) -> list[str]:
    """A path for each of its routes."""
    return [f"/svc-{n}/{WORKSPACE_ID}/items" for n in range(routes - 1)] + [PATH]


def routes_of(count: int) -> list[dict[str, Any]]:
    """As many services, the last of them the demo's workspaces."""
    return [*services(count - 1), {**_ROUTE, "match": {"path": "/workspaces/{workspaceId}/"}}]


def table_of(count: int) -> RouteTable:
    """The same, compiled."""
    return load_route_table(document_of(routes_of(count)), DeploymentDefaults(access_cache_ttl_ms=3_600_000))


_ROUTE = {
    "id": "app",
    "upstream": "http://app.internal:3000",
    "auth": {"mode": "session", "workspace": {"param": "workspaceId", "requireUuid": True}},
}


class _Allows:
    async def post_decision(self, body: bytes) -> tuple[int, bytes]:
        return 200, b'{"allow": true}'


class Steps:
    """One request of the member's, and every step of its way."""

    def __init__(self) -> None:
        self.head = read_request_head(REQUEST)
        self.answer = read_response_head(RESPONSE, "GET")
        self.context = forwarding_context(self.head, "192.0.2.7", trusted_proxies=(), hops=1, scheme="https")
        self.match = cast("Match", table_of(10).match("app.example.com", PATH, "GET"))
        self.principal = Principal(MEMBER.subject, MEMBER.email, MEMBER.roles)
        self.signer = IdentitySigner()
        self.metrics = GatewayMetrics()
        self.log = Log(lambda line: None)
        self.trace = continue_trace([], [])

    @cached_property
    def exchange(self) -> Exchange:
        x = Exchange(self.head, cast("Downstream", None), peer="192.0.2.7", secure=True, started_at=0.0)
        x.request_id, x.trace, x.forwarding = new_request_id(), self.trace, self.context
        x.match = x.matched = self.match
        x.route_id, x.principal, x.workspace_id = "app", self.principal, WORKSPACE_ID
        x.status, x.upstream_origin, x.upstream_s, x.bytes_out = 200, "http://app.internal:3000", 0.0012, 191
        return x

    def route_match(self, routes: int) -> Step:
        """Every route of the table in turn, so that no cache holds just the one that is asked for."""
        table = table_of(routes)
        paths = itertools.cycle(paths_of(routes))
        return lambda: table.match("app.example.com", next(paths), "GET")

    def request_headers(self) -> bytes:
        """Filter, identity with a cached signature, and the head as bytes."""
        x = self.exchange
        own = gateway_lines(x, self.match.route.upstreams[0], identity_lines(x, PATH, self.signer.lines))
        return request_head("GET", PATH, (), own, copied_headers(x).lines)

    def response_headers(self) -> bytes:
        """Filter, and the head as bytes."""
        headers = response_headers(
            self.answer,
            route=self.match.route,
            upstream=self.match.route.upstreams[0],
            forwarding=self.context,
            request_id="0c2f8b0e-6a35-4d0c-8d3f-0c9a6f4c1b77",
        )
        return b"%b%b\r\n" % (headers.copied.start, headers.of_gateway)

    def identity(self) -> object:
        """What says who calls and when: a request id, and a span in a new trace."""
        return new_request_id(), continue_trace([], [])

    def signature(self, *, computed: bool) -> Step:
        numbers: Iterator[int] = itertools.count() if computed else itertools.repeat(0)

        def sign() -> bytes:
            query = f"?page={next(numbers)}"
            return self.signer.lines(self.principal, WORKSPACE_ID, "GET", PATH, query, "app.example.com")

        return sign

    def record(self) -> Step:
        """The log line made, and the metrics of a request counted; the line goes nowhere."""
        recorder, x = Recorder(self.log.requests(), self.metrics, time.monotonic), self.exchange
        return lambda: recorder.record(x)

    def counted(self) -> None:
        """The three instruments of a request that was answered."""
        self.metrics.requests.inc("app", "GET", 200)
        self.metrics.request_duration.observe(0.0021, "app")
        self.metrics.upstream_duration.observe(0.0012, "app")

    def limits(self) -> Step:
        """Four budgets counted: deployment, client, route and principal."""
        often = Budget(10**9, 60_000, 1_000)
        budgets = DeploymentBudgets(often, often, often, often)
        limiter = Limiter(
            BudgetTable(), BudgetTable(), fallback="local", metrics=self.metrics, log=self.log, clock=time.monotonic
        )
        request, principal, x = RequestLimits(limiter, budgets), PrincipalLimit(limiter, budgets), self.exchange

        def count() -> None:
            at_once(request(x))
            at_once(principal(x))
            x.response_headers.clear()

        return count

    def session(self) -> Step:
        state = MemoryState(lambda: time.time_ns() // 1_000_000)
        hashed = hashlib.sha256(SESSION_ID.encode()).hexdigest()
        new = NewSession(hashed, MEMBER.subject, MEMBER.email, MEMBER.roles, 28_800_000, 86_400_000)
        at_once(state.create_session(new))
        sessions = BrowserSessions(state, idle_ms=28_800_000, max_age_ms=86_400_000, max_per_subject=0, secure=True)
        return lambda: sessions.at_hand((SESSION_ID,))

    async def decision(self) -> Step:
        """Asked once; every further answer is the kept one."""
        client = AccessClient(
            _Allows(),
            url="http://access.internal:8090",
            timeout_s=1.0,
            cache_max=100_000,
            breaker=Breaker(5, 5.0),
            metrics=self.metrics,
            log=self.log,
        )
        route = self.match.route
        await client.decide(MEMBER.subject, WORKSPACE_ID, route, MEMBER.roles)
        return lambda: client.at_hand(MEMBER.subject, WORKSPACE_ID, route, MEMBER.roles)
