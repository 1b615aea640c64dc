"""The store goes away in the middle of whatever operators do: each answer is a success or a 503, and nothing is half
written (§12.7).
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from common.state.ports import ControlState
from common.state.table_store import AuditFilter
from tests.support.control import TOKENS, route_table
from tests.support.control_processes import serve_control
from tests.support.postgres import Postgres
from tests.support.processes import Child, Children, eventually
from tests.support.redis import Redis
from tests.support.shared_store import Store

pytestmark = pytest.mark.real

WITHIN_S = 60.0
DEFINED = {200, 201, 409, 503}


class Storm:
    """Every operation of the API, again and again, each by a caller of its own; and what was answered."""

    def __init__(self, control: Child, origin: str) -> None:
        self.control = control
        self.unreachable = 0
        self._http = httpx.AsyncClient(base_url=origin, trust_env=False, timeout=WITHIN_S)
        self._operations: dict[str, Callable[[], Awaitable[httpx.Response]]] = {
            "put": lambda: self._write("PUT", "", route_table()),
            "roll back": lambda: self._write("POST", "/rollback", {"revision": 1}),
            "validate": lambda: self._ask("config", "POST", "/v1/config/validate", json=route_table()),
            "get": lambda: self._ask("read", "GET", "/v1/config"),
            "diff": lambda: self._ask("read", "GET", "/v1/config/diff?from=0&to=1"),
            "revision": lambda: self._ask("read", "GET", "/v1/config/revisions/1"),
            "history": lambda: self._ask("read", "GET", "/v1/config/revisions"),
            "replicas": lambda: self._ask("read", "GET", "/v1/replicas"),
            "sessions": lambda: self._ask("read", "GET", "/v1/sessions"),
            "revoke": lambda: self._ask("operate", "DELETE", "/v1/sessions?subject=ada"),
            "drop": lambda: self._ask("operate", "DELETE", "/v1/decisions?subject=ada"),
            "audit": lambda: self._ask("read", "GET", "/v1/audit"),
        }
        self.answers: Counter[tuple[str, int]] = Counter()
        self.undefined: list[tuple[str, int, str]] = []
        self._over = False

    async def _ask(self, scope: str, method: str, path: str, **more: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {TOKENS[scope]}", **more.pop("headers", {})}
        return await self._http.request(method, path, headers=headers, **more)

    async def _write(self, method: str, path: str, body: object) -> httpx.Response:
        active = await self._ask("config", "GET", "/v1/config")
        if active.status_code != 200:
            return active
        headers = {"if-match": active.headers["etag"]}
        return await self._ask("config", method, f"/v1/config{path}", json=body, headers=headers)

    async def _go_on(self, name: str) -> None:
        while not self._over:
            try:
                answer = await self._operations[name]()
            except httpx.TransportError:
                self.unreachable += 1
                if self.control.returncode is not None:
                    return
                continue
            self.answers[name, answer.status_code] += 1
            known = answer.status_code in DEFINED
            if not known or (answer.status_code == 503 and answer.json()["error"] != "state_unavailable"):
                self.undefined.append((name, answer.status_code, answer.text[:200]))

    async def rage(self) -> None:
        """Until it is told to end."""
        async with self._http:
            await asyncio.gather(*map(self._go_on, self._operations))

    def end(self) -> None:
        self._over = True

    async def each(self, *statuses: int) -> None:
        """Wait until every operation was answered with one of these from now on."""
        before = self.answers.copy()
        async with asyncio.timeout(WITHIN_S):
            while not all(
                any(self.answers[name, status] > before[name, status] for status in statuses)
                for name in self._operations
            ):
                await asyncio.sleep(0.01)


@asynccontextmanager
async def storm_over(children: Children, store: Store) -> AsyncIterator[Storm]:
    child, origin = await asyncio.to_thread(serve_control, children, CONTROL_STATE_URL=store.control_url)
    headers = {"authorization": f"Bearer {TOKENS['config']}", "if-match": '"0"'}
    async with httpx.AsyncClient(base_url=origin, headers=headers, trust_env=False) as http:
        assert (await http.put("/v1/config", json=route_table())).status_code == 201
    storm = Storm(child, origin)
    raging = asyncio.create_task(storm.rage())
    yield storm
    storm.end()
    await raging
    assert storm.undefined == []
    assert child.returncode is not None or storm.unreachable == 0


async def whole(state: ControlState, action: str) -> None:
    """Every revision has its entry, and every entry its revision."""
    revisions = [one.revision for one in await state.list_revisions(None, 10_000) if one.action == action]
    targets, before = [], None
    while True:
        page = await state.list_audit(before, 200, AuditFilter(action=action))
        targets += [entry.target.split(",")[0] for entry in page.entries]
        before = page.next_before
        if before is None:
            break
    assert targets == [f"revision {number}" for number in revisions]


async def test_a_store_that_stands_still_is_503_and_leaves_nothing_half_written(
    children: Children, store: Store
) -> None:
    def tell(number: signal.Signals) -> None:
        if isinstance(store.server, Postgres):
            store.server.signal(number)
        else:
            store.server.child.send(number)

    async with storm_over(children, store) as storm:
        for _ in range(2):
            await storm.each(200, 201, 409)
            tell(signal.SIGSTOP)
            await storm.each(503)
            tell(signal.SIGCONT)
            await storm.each(200, 201)
    await _whole(store)


async def test_a_store_that_is_killed_is_503_until_it_is_back_and_leaves_nothing_half_written(
    children: Children, store: Store
) -> None:
    if isinstance(store.server, Redis):
        _keep_everything(store.server)
    async with storm_over(children, store) as storm:
        await storm.each(200, 201, 409)
        if isinstance(store.server, Postgres):
            store.server.signal(signal.SIGKILL)
        else:
            store.server.child.kill()
        await storm.each(503)
        await asyncio.to_thread(store.server.restart)
        await storm.each(200, 201)
    await _whole(store)


def _keep_everything(server: Redis) -> None:
    """Have Redis write down each change before it answers, and read them when it starts again."""
    for name, value in (("appendfsync", "always"), ("appendonly", "yes")):
        server.cli("CONFIG", "SET", name, value)
        server.options += (f"--{name}", value)
    eventually(lambda: "aof_rewrite_in_progress:0" in server.cli("INFO", "persistence"))


async def test_a_control_plane_that_is_told_to_end_answers_what_it_began(children: Children, store: Store) -> None:
    """Whoever is answered nothing was not connected any more, or comes too late; nothing is half written."""
    async with storm_over(children, store) as storm:
        await storm.each(200, 201, 409)
        storm.control.send(signal.SIGTERM)
        async with asyncio.timeout(WITHIN_S):
            while storm.unreachable < 12:
                await asyncio.sleep(0.01)
        assert await asyncio.to_thread(storm.control.wait, within_s=WITHIN_S) == 0
        assert "Traceback" not in storm.control.output
    await _whole(store)


async def test_of_a_hundred_writers_at_one_process_one_wins(children: Children, store: Store) -> None:
    _, origin = await asyncio.to_thread(serve_control, children, CONTROL_STATE_URL=store.control_url)
    headers = {"authorization": f"Bearer {TOKENS['config']}", "if-match": '"0"'}
    async with httpx.AsyncClient(base_url=origin, headers=headers, trust_env=False, timeout=WITHIN_S) as http:
        puts = (http.put("/v1/config", json=route_table(f"r{number}")) for number in range(100))
        answers = await asyncio.gather(*puts)
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 99
    await _whole(store)


async def _whole(store: Store) -> None:
    state = await store.control()
    try:
        for action in ("config.write", "config.rollback"):
            await whole(state, action)
    finally:
        await state.close()
