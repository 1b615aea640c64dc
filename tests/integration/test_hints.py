"""Hints over real servers: a connection that is lost is made again, and one that is silent is given up."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from common.state.open import StateOptions, open_state
from common.state.postgres import hints as postgres_hints
from common.state.redis import hints as redis_hints
from common.state.redis.servers import OneServer
from common.state.redis.state import RedisState
from tests.support.postgres import Postgres
from tests.support.processes import Children
from tests.support.redis import Redis, start_cluster, start_redis, start_sentinels
from tests.support.shared_store import ENTRY, Store
from tests.support.state_backends import Recording
from tests.support.state_waits import wait_down, wait_up

pytestmark = pytest.mark.real

DEADLINE_S = 30.0


async def woken(event: asyncio.Event) -> None:
    async with asyncio.timeout(DEADLINE_S):
        await event.wait()
    event.clear()


async def cut(server: Redis | Postgres) -> None:
    """Close the connections that listen, from the server's side."""
    if isinstance(server, Redis):
        assert server.cli("CLIENT", "KILL", "TYPE", "pubsub") == "1"
    else:
        (rows,) = await server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
        assert len(rows) == 1


async def test_the_data_planes_user_hears_what_the_control_planes_publishes(store: Store) -> None:
    if isinstance(store.server, Redis):
        acl = (Path(__file__).parents[2] / "deploy/redis/gateway.acl").read_text().splitlines()
        for rule in acl:
            _, name, *rules = rule.split()
            assert store.server.cli("ACL", "SETUSER", name, *rules, "on", f">{name}-password") == "OK"
        port = store.server.port
        store.data_url = f"redis://gateway:gateway-password@127.0.0.1:{port}"
        store.control_url = f"redis://gateway-control:gateway-control-password@127.0.0.1:{port}"
    control, data, event = await store.control(), open_state(store.data_url), asyncio.Event()
    data.on_hint(event.set)
    await data.start()
    await woken(event)
    await control.move_pointer(0, b"{}", ENTRY)
    await woken(event)
    await data.close()
    await control.close()


async def test_a_connection_that_is_cut_is_made_again_and_hears_on(store: Store) -> None:
    control, event = await store.control(), asyncio.Event()
    control.on_hint(event.set)
    await woken(event)
    for revision in range(2):
        await cut(store.server)
        await woken(event)  # It listens again.
        await control.move_pointer(revision, b"{}", ENTRY)
        await woken(event)
    await control.close()


async def test_a_server_that_comes_late_is_listened_to(store: Store) -> None:
    server = store.server
    await asyncio.to_thread(server.stop if isinstance(server, Postgres) else server.child.stop)
    state, event = open_state(store.control_url, StateOptions(timeout_s=5.0)), asyncio.Event()
    state.on_hint(event.set)
    await state.start()
    await asyncio.to_thread(server.restart)
    await woken(event)
    await wait_up(state)
    await state.move_pointer(0, b"{}", ENTRY)
    await woken(event)
    await state.close()


async def test_a_server_that_stands_still_is_given_up(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing closes such a connection: without a look at it, it would be deaf for good."""
    monkeypatch.setattr(redis_hints, "PING_S", 0.1)
    monkeypatch.setattr(postgres_hints, "PING_S", 0.1)
    event = asyncio.Event()
    control = await store.control()
    server = store.server
    if isinstance(control, RedisState):
        listening = redis_hints.listen(control._servers, "gateway:{t}:hints", event.set)
        stop = server.child.send
    else:
        assert isinstance(server, Postgres)
        listening = postgres_hints.listen(control._pool._dial, "gateway_table", event.set)  # type: ignore[attr-defined]
        stop = server.signal
    task = asyncio.ensure_future(listening)
    await woken(event)
    await asyncio.sleep(0.3)
    assert not task.done()  # One that answers is kept.
    stop(signal.SIGSTOP)
    try:
        async with asyncio.timeout(DEADLINE_S):
            assert isinstance(await asyncio.gather(task, return_exceptions=True), list)
    finally:
        stop(signal.SIGCONT)
    assert task.exception() is not None
    await control.close()


async def test_hints_come_on_after_a_failover_by_sentinel(tmp_path: Path) -> None:
    with Children() as children:
        group = await asyncio.to_thread(start_sentinels, children, tmp_path)
        state = RedisState(group.url, prefix="gateway", timeout_s=5.0, watch=Recording(), sentinel_master=group.name)
        event = asyncio.Event()
        state.on_hint(event.set)
        await state.start()
        await woken(event)
        group.first.child.stop()
        await wait_down(state)
        await wait_up(state)
        await woken(event)
        await state.move_pointer(0, b"{}", ENTRY)
        await woken(event)
        await state.close()


async def test_in_a_cluster_a_server_that_is_lost_leaves_another_to_listen_to(tmp_path: Path) -> None:
    with Children() as children:
        cluster = await asyncio.to_thread(start_cluster, children, tmp_path)
        state = RedisState(cluster.url, prefix="gateway", timeout_s=5.0, watch=Recording())
        event = asyncio.Event()
        state.on_hint(event.set)
        await state.start()
        await woken(event)
        (listened_to,) = [each for each in cluster.servers if "sub=1" in each.cli("CLIENT", "LIST")]
        others = [each for each in cluster.servers if each is not listened_to]
        listened_to.child.stop()
        await woken(event)
        assert others[0].cli("PUBLISH", "gateway:{t}:hints", "1").isdigit()
        await woken(event)
        await state.close()


async def test_without_anybody_who_wants_hints_no_connection_is_made(tmp_path: Path) -> None:
    with Children() as children:
        server = start_redis(children, tmp_path / "redis")
        state = open_state(server.url)
        await state.start()
        assert isinstance(state, RedisState)
        assert isinstance(state._servers, OneServer)
        assert await state.read_session("a") is None
        assert "sub=1" not in server.cli("CLIENT", "LIST")
        await state.close()
