"""Real servers that go away, stand still, come back and fail over, and what callers of the state see meanwhile."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from common.state.budgets import BudgetCheck
from common.state.ports import ControlState, NewSession, StateUnavailable
from common.state.postgres.state import PostgresState
from common.state.redis.state import RedisState
from tests.support.ports import closed_port
from tests.support.postgres import Postgres, open_folder, start_postgres
from tests.support.processes import Children
from tests.support.redis import Redis, start_cluster, start_redis, start_sentinels
from tests.support.state_backends import Recording
from tests.support.state_waits import wait_down, wait_up

pytestmark = pytest.mark.real

TIMEOUT_S = 0.5
SESSION = NewSession("a", "alice", "", (), 3_600_000, 3_600_000)
CHECK = [BudgetCheck("k", 100_000, 60_000, 1_000)]


class Server:
    """A server that can be ended, stopped in its tracks, and started again."""

    def __init__(self, kind: str, children: Children, folder: Path) -> None:
        self.kind = kind
        self.server: Redis | Postgres
        if kind == "redis":
            self.server = start_redis(children, folder / "redis")
        else:
            self.server = start_postgres(children, folder / "postgres")

    def open(self, watch: Recording, *, timeout_s: float = TIMEOUT_S, pool_max: int = 5) -> ControlState:
        if self.kind == "redis":
            return RedisState(self.server.url, prefix="gateway", timeout_s=timeout_s, watch=watch)
        return PostgresState(self.server.url, prefix="gateway", timeout_s=timeout_s, watch=watch, pool_max=pool_max)

    def end(self) -> None:
        if isinstance(self.server, Postgres):
            self.server.stop()
        else:
            self.server.child.stop()

    def signal(self, number: signal.Signals) -> None:
        """To all of its processes: each connection of Postgres has one."""
        if isinstance(self.server, Postgres):
            self.server.signal(number)
        else:
            self.server.child.send(number)


@pytest.fixture(params=["redis", "postgres"])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Server]:
    with open_folder() as folder, Children() as children:
        server = Server(request.param, children, folder)
        if isinstance(server.server, Postgres):
            await server.server.migrate()
        yield server


async def within(seconds: float, check: Callable[[], Awaitable[Any]]) -> None:
    """Try until it succeeds: a state comes back by itself, in its own time."""
    deadline = monotonic() + seconds
    while True:
        try:
            await check()
        except StateUnavailable:
            if monotonic() > deadline:
                raise
            await asyncio.sleep(0.02)
        else:
            return


async def fails(seconds: float, operation: Awaitable[Any]) -> str:
    """It is `StateUnavailable`, and says so in time."""
    began = monotonic()
    with pytest.raises(StateUnavailable) as caught:
        await operation
    assert monotonic() - began < seconds
    return str(caught.value)


async def test_a_server_that_ends_and_comes_back_is_found_again(server: Server) -> None:
    watch = Recording()
    state = server.open(watch)
    await state.start()
    await state.check_budgets(CHECK)
    server.end()
    await wait_down(state)
    for operation in (state.read_session("a"), state.check_budgets(CHECK), state.create_session(SESSION)):
        await fails(TIMEOUT_S, operation)
    await asyncio.to_thread(server.server.restart)
    await wait_up(state)
    await state.create_session(SESSION)
    assert await state.read_session("a") is not None
    assert watch.told[0] == "up"
    assert watch.told[-1] == "up"
    await state.close()


async def test_a_state_that_starts_before_its_server_waits_for_it(server: Server) -> None:
    server.end()
    watch = Recording()
    state = server.open(watch)
    await state.start()
    assert not state.up
    await fails(TIMEOUT_S, state.check_budgets(CHECK))
    await asyncio.to_thread(server.server.restart)
    await wait_up(state)
    assert (await state.check_budgets(CHECK))[0].allowed
    await state.close()


async def test_a_server_that_stands_still_costs_its_time_out_once_and_then_nothing(server: Server) -> None:
    """200 requests at once meet a server that takes connections and never answers (B46)."""
    watch = Recording()
    state = server.open(watch)
    await state.start()
    await state.check_budgets(CHECK)
    server.signal(signal.SIGSTOP)
    try:
        began = monotonic()
        asked = [state.check_budgets(CHECK) for _ in range(100)] + [state.read_session("a") for _ in range(100)]
        results = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(result, StateUnavailable) for result in results)
        assert monotonic() - began < TIMEOUT_S * 3
        began = monotonic()
        for _ in range(50):
            await fails(TIMEOUT_S, state.check_budgets(CHECK))
        assert monotonic() - began < TIMEOUT_S
        assert not state.up
    finally:
        server.signal(signal.SIGCONT)
    await wait_up(state)
    assert (await state.check_budgets(CHECK))[0].allowed
    await state.close()


async def test_a_state_that_closes_while_its_server_stands_still_closes_at_once(server: Server) -> None:
    state = server.open(Recording())
    await state.start()
    server.signal(signal.SIGSTOP)
    try:
        waiting = asyncio.ensure_future(state.check_budgets(CHECK))
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await state.close()
        with pytest.raises(StateUnavailable):
            await waiting
    finally:
        server.signal(signal.SIGCONT)


async def test_callers_that_leave_cost_nobody_else_a_connection(server: Server) -> None:
    """300 requests cut by their callers, then one that stays (B50)."""
    state = server.open(Recording(), pool_max=5)
    await state.start()
    for _ in range(3):
        tasks = [
            asyncio.ensure_future(state.touch_session(f"s{n}", 1_000) if n % 3 else state.check_budgets(CHECK))
            for n in range(100)
        ]
        await asyncio.sleep(0.001)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert state.up
    async with asyncio.timeout(5):
        assert (await state.check_budgets(CHECK))[0].allowed
        await state.create_session(SESSION)
    await state.close()


async def test_a_command_that_meets_the_end_of_the_server_fails_and_is_not_made_twice(server: Server) -> None:
    state = server.open(Recording())
    await state.start()
    server.signal(signal.SIGSTOP)
    operation = asyncio.ensure_future(state.check_budgets(CHECK))
    await asyncio.sleep(0.05)
    server.signal(signal.SIGKILL)
    await fails(TIMEOUT_S * 3, operation)
    await state.close()


async def test_a_full_pool_is_an_outage_of_those_that_wait_too_long_and_of_nobody_else() -> None:
    with open_folder() as folder, Children() as children:
        server = start_postgres(children, folder / "postgres")
        await server.migrate()
        state = PostgresState(server.url, prefix="gateway", timeout_s=1.0, watch=Recording(), pool_max=2)
        await state.start()
        await state.create_session(SESSION)
        holder = await asyncio.to_thread(_hold_session, server)
        try:
            # Both connections wait for a row that another one holds; the others wait for a connection.
            slow = [state.touch_session("a", 1_000) for _ in range(2)]
            waiting = [state.touch_session("a", 1_000) for _ in range(4)]
            said = [str(each) for each in await asyncio.gather(*slow, *waiting, return_exceptions=True)]
            assert all("gave the operation up" in each for each in said[:2])
            assert all("GATEWAY_POSTGRES_POOL_MAX" in each for each in said[2:])
            assert state.up
            await within(10, lambda: state.read_challenge("t"))
            assert state.up
        finally:
            holder.kill()
            holder.wait()
        await state.close()


def _hold_session(server: Postgres) -> Any:
    program = (
        "import asyncio, asyncpg, sys\n"
        "async def hold():\n"
        "    connection = await asyncpg.connect(sys.argv[1])\n"
        "    await connection.execute('BEGIN')\n"
        "    await connection.execute('SELECT * FROM gateway.sessions FOR UPDATE')\n"
        "    print('held', flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(hold())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, server.url], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    process.stdout.close()
    return process


async def test_a_failover_by_sentinel_is_followed(tmp_path: Path) -> None:
    """The old master is stopped, another one takes over, and the old one comes back as a replica (B49)."""
    with Children() as children:
        group = await asyncio.to_thread(start_sentinels, children, tmp_path)
        watch = Recording()
        state = RedisState(group.url, prefix="gateway", timeout_s=TIMEOUT_S, watch=watch, sentinel_master=group.name)
        await state.start()
        await state.create_session(SESSION)
        group.first.child.stop()
        await wait_down(state)
        await within(30, lambda: state.create_session(NewSession("b", "bob", "", (), 60_000, 60_000)))
        assert await state.read_session("b") is not None
        assert "role:master" in group.second.cli("INFO", "replication")
        await asyncio.to_thread(group.first.restart)
        await within(10, lambda: state.check_budgets(CHECK))
        await state.close()


async def test_a_master_that_became_a_replica_is_left_for_the_new_one(tmp_path: Path) -> None:
    """Nothing closed the connection: the first write says READONLY, and the next ones go to the master (B49)."""
    with Children() as children:
        server = start_redis(children, tmp_path / "a")
        other = start_redis(children, tmp_path / "b")
        state = RedisState(server.url, prefix="gateway", timeout_s=TIMEOUT_S, watch=Recording())
        await state.start()
        server.cli("REPLICAOF", "127.0.0.1", str(other.port))
        await fails(TIMEOUT_S, state.create_session(SESSION))
        server.cli("REPLICAOF", "NO", "ONE")
        await within(10, lambda: state.create_session(SESSION))
        await state.close()


async def test_a_slot_whose_master_is_lost_is_asked_of_the_replica_that_took_over(tmp_path: Path) -> None:
    with Children() as children:
        cluster = await asyncio.to_thread(start_cluster, children, tmp_path, replicas=3)
        watch = Recording()
        state = RedisState(cluster.url, prefix="gateway", timeout_s=TIMEOUT_S, watch=watch)
        await state.start()
        await state.create_session(SESSION)
        lost = cluster.master_of("gateway:{s}:i:a")
        lost.child.stop()
        await wait_down(state)
        # Other slots are served all the while, or for a moment while the cluster votes, refused.
        await within(60, lambda: state.create_session(NewSession("b", "bob", "", (), 60_000, 60_000)))
        assert await state.read_session("b") is not None
        await wait_up(state)
        checks = [BudgetCheck(f"k{n}", 10, 60_000, 1_000) for n in range(4)]
        await within(30, lambda: state.check_budgets(checks))
        await state.close()


async def test_a_slot_that_moves_is_followed(tmp_path: Path) -> None:
    """MOVED: the very command is sent again to where the slot is now."""
    with Children() as children:
        cluster = await asyncio.to_thread(start_cluster, children, tmp_path)
        state = RedisState(cluster.url, prefix="gateway", timeout_s=5.0, watch=Recording())
        await state.start()
        slot = cluster.cli("CLUSTER", "KEYSLOT", "gateway:{s}:i:a")
        owner = cluster.master_of("gateway:{s}:i:a")
        target = next(server for server in cluster.servers if server is not owner)
        to = target.cli("CLUSTER", "MYID")
        for server in (target, owner):
            assert server.cli("CLUSTER", "SETSLOT", slot, "NODE", to) == "OK"
        await state.create_session(SESSION)
        assert await state.read_session("a") is not None
        assert "gateway:{s}:i:a" in target.cli("KEYS", "*")
        await state.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"-LOADING Redis is loading the dataset in memory\r\n",
        b"-MASTERDOWN Link with MASTER is down\r\n",
        b"-NOAUTH Authentication required.\r\n",
        b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        b"-BUSY Redis is busy running a script.\r\n",
        b"-CLUSTERDOWN Hash slot not served\r\n",
        b"+OK\r\n",
        b"$-1\r\n",
        b"*0\r\n",
        b":1\r\n",
        b"*2\r\n:1\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"",
    ],
)
async def test_whatever_a_server_answers_is_an_outage_and_never_a_crash(answer: bytes) -> None:
    """A server that is something else, half loaded, or out of its mind."""
    handled = False

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal handled
        try:
            # The first command is the trial of a script, which succeeds.
            await reader.read(65_536)
            writer.write(b"*2\r\n:1\r\n$-1\r\n")
            while await reader.read(65_536):
                handled = True
                if not answer:
                    break
                writer.write(answer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    state = RedisState(f"redis://127.0.0.1:{port}/0", prefix="gateway", timeout_s=0.3, watch=Recording())
    await state.start()
    for operation in (
        state.check_budgets(CHECK),
        state.read_session("a"),
        state.create_session(SESSION),
        state.touch_session("a", 1_000),
        state.delete_session("a"),
        state.read_table(),
    ):
        await fails(3, operation)
    assert handled
    await state.close()
    server.close()
    await server.wait_closed()


@pytest.fixture
def nobody() -> int:
    return closed_port()


@pytest.mark.parametrize("scheme", ["redis", "postgres"])
async def test_an_outage_that_lasts_is_told_of_without_end_and_closes(scheme: str, nobody: int) -> None:
    watch = Recording()
    url = f"{scheme}://user:hunter2@127.0.0.1:{nobody}/0"
    state: ControlState
    if scheme == "redis":
        state = RedisState(url, prefix="gateway", timeout_s=TIMEOUT_S, watch=watch)
    else:
        state = PostgresState(url, prefix="gateway", timeout_s=TIMEOUT_S, watch=watch)
    await state.start()
    said = await fails(TIMEOUT_S, state.check_budgets(CHECK))
    assert "hunter2" not in said + "".join(watch.told)
    assert not state.up
    await state.close()
