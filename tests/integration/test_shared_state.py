"""Two gateways on one store: what they serve from it, and what they do while it is away (§3.4, §12.5)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from common.settings.secret import Secret
from common.state.ports import ControlState
from tests.support import upstreams
from tests.support.gateway import DEADLINE_S, Running, route, running, table
from tests.support.postgres import Postgres
from tests.support.redis import Redis
from tests.support.shared_store import ENTRY, Store

pytestmark = pytest.mark.real


async def until(check: Callable[[], Awaitable[Any]], within_s: float = DEADLINE_S) -> None:
    async with asyncio.timeout(within_s):
        while not await check():
            await asyncio.sleep(0.01)


@pytest.fixture
async def pair(store: Store, tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[list[Running]]]]:
    """Starts two gateways over one table and the store."""
    async with AsyncExitStack() as stack:

        async def start(document: dict[str, Any] | None, **settings: Any) -> list[Running]:
            pair = []
            for name in ("a", "b"):
                folder = tmp_path / name
                folder.mkdir()
                settings = {"state_url": Secret(store.data_url), "replica_id": name, **settings}
                pair.append(await stack.enter_async_context(running(folder, document, **settings)))
                settings.pop("replica_id")
            return pair

        yield start


@pytest.fixture
async def upstream() -> AsyncIterator[str]:
    async with upstreams.upstream(upstreams.answers) as running_upstream:
        yield running_upstream.url


async def test_while_the_store_stands_still_callers_with_a_session_are_denied_and_others_served(
    pair: Callable[..., Awaitable[list[Running]]], store: Store, upstream: str
) -> None:
    document = table(route(upstream, "/session", auth={"mode": "session"}), route(upstream, "/open", rateLimits={}))
    first, _ = await pair(document, state_timeout_s=0.3)
    cookie = await first.session("alice")
    assert (await first.get("/session", cookie)).status == 200
    stop = store.server.signal if isinstance(store.server, Postgres) else store.server.child.send
    stop(signal.SIGSTOP)
    try:
        answer = await first.get("/session", cookie)
        assert (answer.status, answer.json["error"]) == (503, "session_store_unavailable")
        assert answer.values("set-cookie") == []
        assert (await first.get("/open")).status == 200
        await until(lambda: _is(first, 503))
        assert (await first.get("/healthz")).status == 200
    finally:
        stop(signal.SIGCONT)
    await until(lambda: _is(first, 200))
    assert (await first.get("/session", cookie)).status == 200
    told = [line["msg"] for line in first.lines if line["msg"].startswith("the shared state on")]
    assert len(told) == 2
    assert first.metric("gateway_state_operations_total", operation="read_session", result="unavailable") >= 1
    assert first.metric("gateway_state_up") == 1


async def _is(gateway: Running, status: int) -> bool:
    return (await gateway.get("/readyz")).status == status


async def test_the_first_revision_takes_the_place_of_the_file_and_one_that_is_refused_changes_nothing(
    pair: Callable[..., Awaitable[list[Running]]], store: Store, upstream: str
) -> None:
    gateways = await pair(table(route(upstream, "/file")), config_source="store")
    assert [(await each.get("/file")).status for each in gateways] == [200, 200]
    control = await store.control()
    document = json.dumps(table(route(upstream, "/store"))).encode()
    assert (await control.move_pointer(0, document, ENTRY)).moved
    for each in gateways:
        await until(lambda each=each: _serves(each, "/store"))  # type: ignore[misc]
    assert [(await each.get("/file")).status for each in gateways] == [404, 404]
    ready = (await gateways[0].get("/readyz")).json["config"]
    assert (ready["source"], ready["revision"], ready["lastError"]) == ("store", 1, None)
    await until(lambda: _all_beat(control, 1))

    # One that is not valid changes nothing, and everybody learns why.
    await control.move_pointer(1, b'{"version": 2, "routes": [{}]}', ENTRY)
    await until(lambda: _has_error(gateways[0], "revision 2"))
    assert (await gateways[0].get("/store")).status == 200
    assert (await gateways[0].get("/readyz")).status == 200
    assert gateways[0].metric("gateway_config_reloads_total", result="failed") == 1
    await until(lambda: _told_error(control))

    # A change of the file is of no more interest.
    gateways[0].gateway.settings.config.write_text(json.dumps(table(route(upstream, "/other"))))
    await control.move_pointer(2, json.dumps(table(route(upstream, "/third"))).encode(), ENTRY)
    await until(lambda: _serves(gateways[0], "/third"))
    assert (await gateways[0].get("/other")).status == 404
    await control.close()


async def _serves(gateway: Running, path: str) -> bool:
    return (await gateway.get(path)).status == 200


async def _has_error(gateway: Running, part: str) -> bool:
    return part in ((await gateway.get("/readyz")).json["config"]["lastError"] or "")


async def _all_beat(control: ControlState, revision: int) -> bool:
    return [(each.replica, each.revision) for each in await control.list_heartbeats()] == [
        ("a", revision),
        ("b", revision),
    ]


async def _told_error(control: ControlState) -> bool:
    return all("revision 2" in each.last_error for each in await control.list_heartbeats())


async def test_a_store_that_goes_away_leaves_the_table_and_is_reported(
    pair: Callable[..., Awaitable[list[Running]]], store: Store, upstream: str
) -> None:
    control = await store.control()
    await control.move_pointer(0, json.dumps(table(route(upstream, "/store", rateLimits={}))).encode(), ENTRY)
    await control.close()
    first, _ = await pair(None, config_source="store", state_timeout_s=0.3)
    assert (await first.get("/store")).status == 200
    stop = store.server.signal if isinstance(store.server, Postgres) else store.server.child.send
    stop(signal.SIGSTOP)
    try:
        await until(lambda: _has_error(first, "cannot be read"))
        assert (await first.get("/store")).status == 200
    finally:
        stop(signal.SIGCONT)
    await until(lambda: _is(first, 200))
    await until(lambda: _cleared(first))


async def _cleared(gateway: Running) -> bool:
    return (await gateway.get("/readyz")).json["config"]["lastError"] is None


async def test_a_gateway_that_the_store_refuses_does_not_start(store: Store, tmp_path: Path) -> None:
    if isinstance(store.server, Redis):
        store.server.cli("CONFIG", "SET", "requirepass", "something")
        url, said = store.data_url, "user or password"
    else:
        url, said = store.server.url_of("data", "wrong"), "user or password"
    (tmp_path / "routes.json").write_text(json.dumps(table()))
    environ = {
        **os.environ,
        "GATEWAY_CONFIG": str(tmp_path / "routes.json"),
        "GATEWAY_STATE_URL": url,
        "GATEWAY_PORT": "0",
        "GATEWAY_HOST": "127.0.0.1",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "dataplane.cli", "run",
        env=environ, cwd=Path(__file__).parents[2], stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    told, _ = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    assert process.returncode == 1
    assert said in told.decode()
    assert "wrong" not in told.decode()
