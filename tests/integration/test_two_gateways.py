"""Two gateway processes on one store: exact limits, one session, one revocation, one decision (§12.5)."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic

import pytest

from tests.support import upstreams
from tests.support.access_transport import DENY, http_answer, raw_access
from tests.support.gateway import route, table
from tests.support.gateway_processes import DEADLINE_S, ROOT, GatewayProcess, inherited, start_gateways
from tests.support.postgres import Postgres
from tests.support.processes import Children
from tests.support.shared_store import ENTRY, Store, log_in

pytestmark = pytest.mark.real


Start = Callable[..., list[GatewayProcess]]


@pytest.fixture
def start(store: Store, tmp_path: Path, children: Children) -> Start:
    """Starts two gateways over the store and one table, once each is ready."""
    return partial(start_gateways, children, tmp_path, store.data_url)


@pytest.fixture
async def upstream() -> AsyncIterator[str]:
    async with upstreams.upstream(upstreams.answers) as running_upstream:
        yield running_upstream.url


async def test_both_together_admit_the_limit_and_not_one_more(start: Start, upstream: str) -> None:
    gateways = start(table(route(upstream)), GATEWAY_RATE_LIMIT_ROUTE_MAX="60")
    admitted = 0
    # More at once than one batch of the store holds, and one more round after the budget is spent.
    for _ in range(2):
        answers = await asyncio.gather(*(gateways[n % 2].get("/") for n in range(100)))
        assert {answer.status for answer in answers} <= {200, 429}
        admitted += sum(answer.status == 200 for answer in answers)
    assert admitted == 60


async def test_what_one_counted_still_counts_when_it_was_killed(start: Start, upstream: str) -> None:
    first, second = start(table(route(upstream)), GATEWAY_RATE_LIMIT_ROUTE_MAX="10")
    assert [(await first.get("/")).status for _ in range(7)] == [200] * 7
    first.child.send_group(signal.SIGKILL)
    assert [(await second.get("/")).status for _ in range(5)] == [200] * 3 + [429] * 2


async def test_a_session_is_good_at_both_until_it_is_revoked(start: Start, store: Store, upstream: str) -> None:
    gateways = start(table(route(upstream, auth={"mode": "session"})))
    cookie = await log_in(store, "alice")
    other = await log_in(store, "bob")
    assert [(await each.get("/", cookie)).status for each in gateways] == [200, 200]
    program = [sys.executable, "-m", "dataplane.cli", "sessions", "--subject", "alice", "--json"]
    environ = {**inherited(), "GATEWAY_CONFIG": "unused.json", "GATEWAY_STATE_URL": store.data_url}
    process = await asyncio.create_subprocess_exec(*program, env=environ, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    told, _ = await process.communicate()
    assert json.loads(told) == {"revoked": 1}
    assert [(await each.get("/", cookie)).status for each in gateways] == [401, 401]
    assert [(await each.get("/", other)).status for each in gateways] == [200, 200]


async def test_a_published_revision_is_served_by_both_within_a_second_and_a_half(
    start: Start, store: Store, upstream: str
) -> None:
    gateways = start(table(route(upstream, "/file")), GATEWAY_CONFIG_SOURCE="store")
    assert [(await each.get("/file")).status for each in gateways] == [200, 200]
    control = await store.control()
    for revision, path in enumerate(("/first", "/second")):
        began = monotonic()
        document = json.dumps(table(route(upstream, path))).encode()
        assert (await control.move_pointer(revision, document, ENTRY)).moved
        await asyncio.gather(*(each.until(path, status=200) for each in gateways))
        assert monotonic() - began < 1.5
    assert [(await each.get("/file")).status for each in gateways] == [404, 404]

    # One that is not valid changes nothing.
    await control.move_pointer(2, b'{"version": 2, "routes": [{}]}', ENTRY)
    async with asyncio.timeout(DEADLINE_S):
        while not all("revision 3" in each.last_error for each in await control.list_heartbeats()):
            await asyncio.sleep(0.01)
    assert [(await each.get("/second")).status for each in gateways] == [200, 200]
    assert {(each.replica, each.revision) for each in await control.list_heartbeats()} == {("a", 2), ("b", 2)}
    await control.close()


async def test_what_access_told_one_serves_both_until_it_is_dropped(start: Start, store: Store, upstream: str) -> None:
    async with raw_access() as access:
        gateways = start(
            table(route(upstream, auth={"mode": "session"}, accessCheck=True)),
            GATEWAY_ACCESS_URL=access.url,
            GATEWAY_ACCESS_TOKEN="token-of-a-test-0123456789",
            GATEWAY_ACCESS_CACHE_TTL_MS="300000",
        )
        cookie, other = await log_in(store, "alice"), await log_in(store, "bob")
        assert (await gateways[0].get("/", cookie)).status == 200
        assert len(access.requests) == 1
        await stored(store)
        assert [(await each.get("/", cookie)).status for each in gateways] == [200, 200]
        assert len(access.requests) == 1
        assert (await gateways[1].get("/", other)).status == 200, "a decision about another is no answer"
        assert len(access.requests) == 2

        # Access has another mind now; nobody knows before decisions are dropped, and everybody within a second.
        access.reply = http_answer(200, DENY)
        assert [(await each.get("/", cookie)).status for each in gateways] == [200, 200]
        control = await store.control()
        began = monotonic()
        assert await control.drop_decisions("alice", None, replace(ENTRY, action="decisions.drop")) == 1
        await control.close()
        await asyncio.gather(*(each.until("/", cookie, status=403) for each in gateways))
        assert monotonic() - began < 1.5


async def stored(store: Store) -> None:
    """Wait until the first decision is: nobody waits for that to be answered."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if isinstance(store.server, Postgres):
                ((row,),) = await store.server.run("SELECT count(*) FROM gateway.decisions")
                count = row[0]
            else:
                count = len(store.server.cli("KEYS", "gateway:d:*").split())
            if count:
                return
            await asyncio.sleep(0.01)
