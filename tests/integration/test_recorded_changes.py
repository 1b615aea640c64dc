"""A change and its audit entry are both there or neither is, at whatever step something fails (CONTRACT §12.7)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from time import monotonic

import pytest

from common.state.ports import ControlState, StateUnavailable
from common.state.postgres.state import PostgresState
from common.state.redis import scripts
from common.state.redis.keys import Keys
from common.state.redis.state import RedisState
from common.state.watch import Unwatched
from tests.support.cutting_proxy import When, cutting_proxy
from tests.support.faketime import ServerTime
from tests.support.ports import free_port
from tests.support.postgres import Postgres, open_folder, start_postgres
from tests.support.processes import Children, eventually
from tests.support.redis import Redis, RedisCluster, start_cluster, start_redis
from tests.support.state_backends import in_its_own_loop
from tests.support.state_changes import CHANGES, KEY, MARK, Change, prepare, recorded
from tests.support.state_values import hashed
from tests.support.state_waits import wait_up

pytestmark = pytest.mark.real

BY_ACTION = pytest.mark.parametrize("change", CHANGES, ids=[each.action for each in CHANGES])


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with open_folder() as folder, Children() as children:
        server = start_postgres(children, folder / "postgres")
        in_its_own_loop(server.migrate())
        yield server


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    with Children() as children:
        yield start_redis(children, tmp_path_factory.mktemp("redis"))


Opened = Callable[[int | None], ControlState]


@pytest.fixture(params=["redis", "postgres"])
async def opened(request: pytest.FixtureRequest) -> Opened:
    """Opens states over an empty store: at its own port, or at the one of a proxy before it."""
    server = request.getfixturevalue(request.param)
    if isinstance(server, Redis):
        return on_redis(server)
    await server.empty()
    return on_postgres(server)


def on_redis(server: Redis) -> Opened:
    server.cli("FLUSHALL")
    for script in vars(scripts).values():
        # One that is not known has to be sent a second time, with its text.
        if isinstance(script, scripts.Script):
            server.cli("SCRIPT", "LOAD", script.text.decode())
    return lambda port: RedisState(
        f"redis://127.0.0.1:{port or server.port}/0", prefix="gateway", timeout_s=5.0, watch=Unwatched()
    )


def on_postgres(server: Postgres) -> Opened:
    return lambda port: PostgresState(
        server.planes_url.replace(f":{server.port}/", f":{port or server.port}/"),
        prefix="gateway",
        timeout_s=5.0,
        watch=Unwatched(),
        pool_max=1,
    )


@pytest.fixture
async def state(opened: Opened) -> AsyncIterator[ControlState]:
    """Straight to the server, which is prepared."""
    state = opened(None)
    await state.start()
    await prepare(state)
    yield state
    await state.close()


async def settled(state: ControlState, change: Change, *, done: bool) -> None:
    """The change and its entry come to be `done` together: a server may still be at it when its client is gone."""
    deadline = monotonic() + 20
    while True:
        both = await change.is_done(state), await recorded(state) == 1
        if both == (done, done):
            return
        assert monotonic() < deadline, both


@BY_ACTION
@pytest.mark.parametrize("when", ["before the request", "before the answer"])
async def test_a_connection_that_is_cut_leaves_both_or_neither(
    opened: Opened, state: ControlState, change: Change, when: When, request: pytest.FixtureRequest
) -> None:
    port = request.getfixturevalue("redis" if state.backend == "redis" else "postgres").port
    async with cutting_proxy(port) as proxy:
        through = opened(proxy.port)
        await through.start()
        proxy.arm(MARK, when)
        with pytest.raises(StateUnavailable):
            await change.run(through, change.entry)
        await through.close()
    sent = when == "before the answer"
    if state.backend == "redis" and change.action == "decisions.drop" and sent:
        # Decisions spread over servers, so it is recorded first. What was left is dropped when it is done again.
        assert (await recorded(state), await state.decisions_dropped()) == (1, 1)
        await change.run(state, change.entry)
        assert await change.is_done(state)
    else:
        await settled(state, change, done=sent)


WRITES = {
    "config.write": [("revisions", "INSERT"), ("pointer", "UPDATE"), ("audit", "INSERT")],
    "sessions.revoke": [("sessions", "DELETE"), ("audit", "INSERT")],
    "session.revoke": [("sessions", "DELETE"), ("audit", "INSERT")],
    "decisions.drop": [("decision_drops", "UPDATE"), ("decisions", "DELETE"), ("audit", "INSERT")],
}
FAULTS = {
    "raises": "RAISE EXCEPTION 'injected'",
    # By an operator, or a server that shuts down; the connection ends at the wait.
    "is ended": "PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(10)",
}


@pytest.mark.parametrize("opened", ["postgres"], indirect=True)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("timing", ["BEFORE", "AFTER", "COMMIT"])
@pytest.mark.parametrize(
    ("change", "table", "event"),
    [(change, table, event) for change in CHANGES for table, event in WRITES[change.action]],
    ids=lambda value: value.action if isinstance(value, Change) else value,
)
async def test_on_postgres_a_statement_that_fails_leaves_neither(
    state: ControlState, postgres: Postgres, change: Change, table: str, event: str, timing: str, fault: str
) -> None:
    when = (
        f"CONSTRAINT TRIGGER fault AFTER {event} ON {table} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"
        if timing == "COMMIT"
        else f"TRIGGER fault {timing} {event} ON {table} FOR EACH STATEMENT"
    )
    await postgres.run(
        "SET search_path TO gateway",
        f"CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {FAULTS[fault]}; RETURN NULL; END $$",
        f"CREATE {when} EXECUTE FUNCTION fault()",
    )
    try:
        with pytest.raises(StateUnavailable):
            await change.run(state, change.entry)
    finally:
        await postgres.run("DROP FUNCTION gateway.fault CASCADE")
    await wait_up(state)
    await settled(state, change, done=False)
    await change.run(state, change.entry)
    await settled(state, change, done=True)


KEYS = Keys("gateway")
USED = {
    "config.write": (KEYS.active, KEYS.history, f"{KEYS.revision_prefix}2", KEYS.audit, KEYS.audit_count),
    "sessions.revoke": (KEYS.subject_index("alice"), KEYS.sessions, KEYS.audit, KEYS.audit_count),
    "session.revoke": (
        KEYS.subject_index("alice"), KEYS.sessions, KEYS.session(hashed(0)), KEYS.audit, KEYS.audit_count
    ),
    "decisions.drop": (KEYS.drops, KEYS.audit, KEYS.audit_count, KEYS.decision(KEY).decode()),
}  # fmt: skip


def dumped(server: Redis) -> dict[str, str]:
    return {name: server.cli("DUMP", name) for name in server.cli("KEYS", "*").split()}


@pytest.mark.parametrize("opened", ["redis"], indirect=True)
@pytest.mark.parametrize(
    ("change", "key", "planted"),
    [
        (change, key, planted)
        for change in CHANGES
        for key in USED[change.action]
        for planted in (("SET", "x"), ("RPUSH", "x"), ("HSET", "f", "x"), ("ZADD", "1", "x"))
        # A trail is such a list.
        if (key, planted[0]) != (KEYS.audit, "RPUSH")
    ],
    ids=lambda value: value.action if isinstance(value, Change) else value[0] if isinstance(value, tuple) else value,
)
async def test_on_redis_a_key_that_is_not_ours_stops_a_script_before_it_writes_or_not_at_all(
    state: ControlState, redis: Redis, change: Change, key: str, planted: tuple[str, ...]
) -> None:
    redis.cli("DEL", key)
    redis.cli(planted[0], key, *planted[1:])
    before = dumped(redis)
    refused = ""
    try:
        await change.run(state, change.entry)
    except StateUnavailable as failure:
        refused = str(failure)
    if refused:
        assert "FOREIGN" in refused or "WRONGTYPE" in refused
        assert dumped(redis) == before
    else:
        # It took the value for one that is not there, and went on. A handle that names nothing then records nothing.
        assert await recorded(state) == (dumped(redis) != before)


@pytest.mark.parametrize("opened", ["redis"], indirect=True)
@BY_ACTION
async def test_on_redis_a_server_without_memory_left_changes_nothing(
    state: ControlState, redis: Redis, change: Change
) -> None:
    """A script may delete where it may not write: the entry comes first, and is refused."""
    before = dumped(redis)
    redis.cli("CONFIG", "SET", "maxmemory", "1")
    try:
        with pytest.raises(StateUnavailable, match="maxmemory"):
            await change.run(state, change.entry)
    finally:
        redis.cli("CONFIG", "SET", "maxmemory", "0")
    assert dumped(redis) == before
    await change.run(state, change.entry)
    await settled(state, change, done=True)


@pytest.fixture(scope="module")
def clustered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RedisCluster, ServerTime]]:
    folder = tmp_path_factory.mktemp("cluster")
    time = ServerTime(folder / "time")
    with Children() as children:
        yield start_cluster(children, folder, env=time.environment(), node_timeout_ms=1_000_000_000), time


@pytest.mark.parametrize("change", CHANGES[1:3], ids=[each.action for each in CHANGES[1:3]])
async def test_in_a_cluster_what_was_deleted_and_not_recorded_is_recorded_when_it_is_done_again(
    clustered: tuple[RedisCluster, ServerTime], change: Change
) -> None:
    cluster, time = clustered
    cluster.flush()
    time.begin()
    state = RedisState(cluster.url, prefix="gateway", timeout_s=10.0, watch=Unwatched())
    await state.start()
    await prepare(state)
    keeper = cluster.master_of(KEYS.audit)
    trail = keeper.cli("DUMP", KEYS.audit)
    keeper.cli("RENAME", KEYS.audit, "{t}:aside")
    keeper.cli("SET", KEYS.audit, "damage")
    with pytest.raises(StateUnavailable, match="repeat it"):
        await change.run(state, change.entry)
    # Whoever was revoked stays out, recorded or not.
    assert await state.read_session(hashed(0)) is None
    keeper.cli("DEL", KEYS.audit)
    keeper.cli("RENAME", "{t}:aside", KEYS.audit)
    assert keeper.cli("DUMP", KEYS.audit) == trail
    if change.action == "session.revoke":
        # Somebody may be at it still.
        with pytest.raises(StateUnavailable, match="in some seconds"):
            await change.run(state, change.entry)
        time.pass_s(10)
    await change.run(state, change.entry)
    await settled(state, change, done=True)
    if change.action == "session.revoke":
        await change.run(state, change.entry)
        assert await recorded(state) == 1
    await state.close()


@pytest.mark.parametrize("mark", ["", "x", "-1", "9" * 16, "9" * 400])
async def test_in_a_cluster_a_mark_that_is_not_ours_records_nothing(
    clustered: tuple[RedisCluster, ServerTime], mark: str
) -> None:
    cluster, time = clustered
    cluster.flush()
    time.begin()
    state = RedisState(cluster.url, prefix="gateway", timeout_s=10.0, watch=Unwatched())
    await state.start()
    await prepare(state)
    unknown = "0" * 16
    owed = KEYS.owed_record(unknown)
    cluster.master_of(owed).cli("SET", owed, mark)
    assert (await state.revoke_session(unknown, CHANGES[2].entry)).matching == 0
    assert await recorded(state) == 0
    await state.close()


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    options = ("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    with Children() as children:
        server = start_redis(children, tmp_path_factory.mktemp("single"), *options)
        server.cli("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        eventually(lambda: "cluster_state:ok" in server.cli("CLUSTER", "INFO"))
        yield server


@BY_ACTION
async def test_a_single_server_in_cluster_mode_is_served_as_a_cluster_is(single: Redis, change: Change) -> None:
    single.cli("FLUSHALL")
    state = RedisState(single.url, prefix="gateway", timeout_s=10.0, watch=Unwatched())
    await state.start()
    await prepare(state)
    await change.run(state, change.entry)
    await settled(state, change, done=True)
    await state.close()
