"""A session is read on the way of the budgets' check; whoever is refused before, or needs none, depends not on it."""

from __future__ import annotations

import gc
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from common.settings.secret import Secret
from common.state.ports import NewSession
from dataplane.authentication.sessions import id_hash
from tests.support import upstreams
from tests.support.gateway import Running, route, running, table
from tests.support.postgres import Postgres
from tests.support.processes import Children
from tests.support.redis import Redis, start_redis
from tests.support.shared_store import Store

pytestmark = pytest.mark.real


@asynccontextmanager
async def gateway(store: Store, tmp_path: Path, url: str = "", **settings: Any) -> AsyncIterator[Running]:
    """A gateway over the store, with a route for sessions and one for everybody."""
    async with upstreams.upstream(upstreams.answers) as upstream:
        document = table(route(upstream.url, "/session", auth={"mode": "session"}), route(upstream.url, "/open"))
        settings = {"state_url": Secret(url or store.data_url), **settings}
        async with running(tmp_path, document, **settings) as it:
            yield it


async def test_session_and_budgets_are_both_asked_for_before_either_answers(store: Store, tmp_path: Path) -> None:
    async with gateway(store, tmp_path) as it:
        cookie = await it.session("alice")
        state: Any = it.gateway.state
        told: list[str] = []
        read, check = state.read_session, state.check_budgets

        def read_session(hashed: str) -> Any:
            told.append("session asked")
            return read(hashed)

        async def check_budgets(checks: Any) -> Any:
            told.append("budgets asked")
            results = await check(checks)
            told.append("budgets answered")
            return results

        state.read_session = read_session
        it.gateway._dispatcher._limits._limiter._store.check_budgets = check_budgets  # type: ignore[attr-defined]
        assert (await it.get("/session", cookie)).status == 200
        assert told == ["session asked", "budgets asked", "budgets answered"]


async def test_a_request_waits_for_redis_once(children: Children, tmp_path: Path) -> None:
    server = start_redis(children, tmp_path / "redis")
    async with gateway(Store(server, server.url, server.url), tmp_path) as it:
        cookie = await it.session("alice")
        caller = await it.connect()
        asked = f"GET /session HTTP/1.1\r\nhost: app.test\r\n{cookie}\r\n\r\n".encode()
        assert (await caller.ask(asked)).status == 200
        before = _reads(server)
        for _ in range(50):
            assert (await caller.ask(asked)).status == 200
        # Beside them: one for the question itself, and a probe of an idle connection each second.
        assert 50 <= _reads(server) - before < 75


def _reads(server: Redis) -> int:
    """How often it has read from a connection."""
    told = dict(line.split(":", 1) for line in server.cli("INFO", "stats").splitlines() if ":" in line)
    return int(told["total_reads_processed"])


async def test_a_refused_request_neither_touches_its_session_nor_says_anything_of_it(
    store: Store, tmp_path: Path
) -> None:
    # The write of a session in use is due at once.
    async with gateway(store, tmp_path, rate_limit_route_max=1, session_idle_ms=9) as it:
        hashed, cookie = await _long_session(it)
        before = await it.gateway.state.read_session(hashed)
        assert before is not None
        assert (await it.get("/open")).status == 200  # Another route, another budget.
        first = await it.get("/session", "accept: text/html")
        assert first.status in (302, 401)
        refused = await it.get("/session", cookie)
        assert refused.status == 429
        assert refused.values("set-cookie") == []
        assert b"alice" not in refused.raw_head + refused.body
        assert await it.gateway.state.read_session(hashed) == before
        line = await it.request_line(3)
        assert line["error"] == "too_many_requests"
        assert "alice" not in str(line)


async def _long_session(it: Running) -> tuple[str, str]:
    """A session that lives for an hour, where the gateway's own would for nine milliseconds."""
    session_id = secrets.token_urlsafe(32)
    hashed = id_hash(session_id)
    assert hashed is not None
    await it.gateway.state.create_session(NewSession(hashed, "alice", "", (), 3_600_000, 3_600_000))
    return hashed, f"cookie: gateway_session={session_id}"


async def test_a_session_that_cannot_be_read_fails_only_who_needs_it(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if isinstance(store.server, Postgres):
        url = store.data_url
    else:
        told = store.server.cli("ACL", "SETUSER", "data", "on", ">secret", "~*", "&*", "+@all")
        assert told == "OK"
        url = store.server.url.replace("redis://", "redis://data:secret@")
    async with gateway(store, tmp_path, url, rate_limit_route_max=3) as it:
        cookie = await it.session("alice")
        assert (await it.get("/session", cookie)).status == 200
        # Budgets go on being counted; sessions may not be read any more.
        if isinstance(store.server, Postgres):
            await store.server.run("REVOKE SELECT ON gateway.sessions FROM gateway_data")
        else:
            store.server.cli("ACL", "SETUSER", "data", "resetkeys", "~gateway:b:*")
        failed = await it.get("/session", cookie)
        assert (failed.status, failed.json["error"]) == (503, "session_store_unavailable")
        assert failed.values("set-cookie") == []
        assert (await it.get("/open", cookie)).status == 200
        assert (await it.get("/session")).status == 401
        assert (await it.get("/session", cookie)).status == 429
    gc.collect()
    assert "never retrieved" not in caplog.text
