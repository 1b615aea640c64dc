"""A state that was put back to an earlier copy: what gateways serve, and whose sessions are there again.

docs/backup.md promises it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from common.state.ports import ControlState
from tests.support import upstreams
from tests.support.counterparts import require_program
from tests.support.gateway import route, table
from tests.support.gateway_processes import start_gateways
from tests.support.processes import Children
from tests.support.redis import Redis
from tests.support.shared_store import ENTRY, Store, log_in
from tests.support.state_waits import wait_up

pytestmark = pytest.mark.real


@pytest.fixture
async def upstream() -> AsyncIterator[str]:
    async with upstreams.upstream(upstreams.answers) as running:
        yield running.url


async def publish(control: ControlState, after: int, upstream: str, path: str) -> None:
    document = json.dumps(table(route(upstream, path), route(upstream, "/own/", auth={"mode": "session"})))
    assert (await control.move_pointer(after, document.encode(), ENTRY)).moved


async def test_an_earlier_copy_brings_back_its_table_and_the_sessions_that_ended_since(
    store: Store, tmp_path: Path, children: Children, upstream: str
) -> None:
    control = await store.control()
    await publish(control, 0, upstream, "/first")
    gateways = start_gateways(children, tmp_path, store.data_url, table(), GATEWAY_CONFIG_SOURCE="store")
    cookie = await log_in(store, "alice")
    copy = await back_up(store)

    await publish(control, 1, upstream, "/second")
    for each in gateways:
        await each.until("/second", status=200)
    assert await control.revoke_subject_sessions("alice", replace(ENTRY, action="sessions.revoke")) == 1
    assert [(await each.get("/own/", cookie)).status for each in gateways] == [401, 401]

    await restore(store, copy)
    # The gateways go back with the pointer, without a restart.
    for each in gateways:
        await each.until("/first", status=200)
        assert (await each.get("/own/", cookie)).status == 200
    # Publishing goes on from the restored number.
    await wait_up(control)
    await publish(control, 1, upstream, "/third")
    for each in gateways:
        await each.until("/third", status=200)
    assert await control.revoke_subject_sessions("alice", replace(ENTRY, action="sessions.revoke")) == 1
    await control.close()


async def test_a_state_that_was_emptied_leaves_gateways_their_table_until_another_is_published(
    store: Store, tmp_path: Path, children: Children, upstream: str
) -> None:
    """Its number is one that the gateways have seen: taken for the same table, it would never be served."""
    control = await store.control()
    await publish(control, 0, upstream, "/first")
    gateways = start_gateways(children, tmp_path, store.data_url, table(), GATEWAY_CONFIG_SOURCE="store")
    if isinstance(store.server, Redis):
        store.server.cli("FLUSHALL")
    else:
        await store.server.empty()
    for each in gateways:
        await each.until_ready_says(b"holds no route table any more")
        assert (await each.get("/first")).status == 200
    await publish(control, 0, upstream, "/again")
    for each in gateways:
        await each.until("/again", status=200)
    await control.close()


async def back_up(store: Store) -> Path:
    """A copy as docs/backup.md has it made."""
    copy = store.server.folder.parent / "copy"
    if isinstance(store.server, Redis):
        assert store.server.cli("SAVE") == "OK"
        shutil.copy(store.server.folder / "dump.rdb", copy)
    else:
        await postgres_program("pg_dump", "-Fc", "-n", "gateway", "-f", str(copy), store.server.url)
    return copy


async def restore(store: Store, copy: Path) -> None:
    if isinstance(store.server, Redis):
        store.server.child.kill()
        shutil.copy(copy, store.server.folder / "dump.rdb")
        store.server.restart()
    else:
        arguments = ("--clean", "--if-exists", "--single-transaction", "-d", store.server.url, str(copy))
        await postgres_program("pg_restore", *arguments)


async def postgres_program(name: str, *arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(require_program(name), *arguments, stderr=asyncio.subprocess.PIPE)
    _, said = await process.communicate()
    assert process.returncode == 0, said.decode()
