"""Heads, routes and contexts as values, for tests of the forwarding rules."""

from __future__ import annotations

from typing import Any, cast

from common.routetable.compiled import Match, Route, Timeouts, Upstream
from common.telemetry.trace import TraceContext
from dataplane.exchange import Downstream, Exchange
from dataplane.forwarding.context import ForwardingContext
from dataplane.http1.authority import parse_authority
from dataplane.http1.heads import RequestHead, ResponseHead

Lines = tuple[tuple[str, str], ...]

UPSTREAM = Upstream("http", "app", 3000, "app:3000", "", "http://app:3000")
TRACE = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "01", None)
CONTEXT = ForwardingContext("203.0.113.9", "https", "api.example.com", "api.example.com", b"203.0.113.9", False)


def encoded(lines: Lines) -> tuple[tuple[bytes, bytes], ...]:
    """Header lines as the parser gives them: lower-case names, bytes."""
    return tuple((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in lines)


def request(
    *lines: tuple[str, str],
    method: str = "GET",
    path: str = "/",
    query: str = "",
    host: str | None = "api.example.com",
    upgrade: str = "",
) -> RequestHead:
    """A request's head; `host` None is HTTP/1.0 without one."""
    named: Lines = () if host is None else (("Host", host),)
    return RequestHead(
        method=method,
        path=path,
        query=query,
        http_1_0=host is None,
        headers=encoded(named + lines),
        authority=None if host is None else parse_authority(host.encode("ascii")),
        body_length=0,
        keep_alive=True,
        upgrade=upgrade,
    )


def response(*lines: tuple[str, str], status: int = 200) -> ResponseHead:
    """A response's head."""
    return ResponseHead(status, b"OK", encoded(lines), 0, True)


def route(**fields: Any) -> Route:
    """A route with everything at its default, but for `fields`."""
    values: dict[str, Any] = {
        "id": "app",
        "host": "*",
        "path": "/",
        "methods": None,
        "upstreams": (UPSTREAM,),
        "auth_mode": "any",
        "workspace_param": None,
        "require_uuid": True,
        "access_check": False,
        "access_cache_ttl_ms": 5_000,
        "access_stale_grace_ms": 0,
        "forward_authorization": False,
        "cross_site": None,
        "websocket": False,
        "timeouts": Timeouts(),
        "max_body_bytes": 0,
        "replay_max_bytes": 65_536,
        "upstream_attempt_s": 2.0,
        "upstream_host": "upstream",
        "rewrite": None,
    }
    return Route(**{**values, **fields})


def match(rest: str = "", params: dict[str, str] | None = None, **fields: Any) -> Match:
    """A match of `route(**fields)`."""
    return Match(route(**fields), params or {}, rest)


def forwarded(head: RequestHead, *, of: Route | None = None, **slots: Any) -> Exchange:
    """An exchange that all steps before the last have let pass, on the route `of`; `slots` are set as they say."""
    x = Exchange(head, cast("Downstream", None), peer="203.0.113.9", secure=True, started_at=0.0)
    x.request_id, x.trace, x.forwarding, x.matched = "req-1", TRACE, CONTEXT, Match(of or route(), {}, "")
    for name, value in slots.items():
        setattr(x, name, value)
    return x
