"""Values in the store that are not ours: reported, counted, and treated as absent; never trusted and never a crash."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from common.state.budgets import BudgetCheck
from common.state.ports import NewSession, StateUnavailable
from common.state.redis.keys import Keys
from common.state.redis.state import RedisState
from common.state.table_store import NewAuditEntry
from tests.support.processes import Children
from tests.support.redis import Redis, start_redis
from tests.support.state_backends import Recording
from tests.support.state_values import decision_key

pytestmark = pytest.mark.real

HEAD = "s1 1 1 9 9 " + "a" * 32
GARBAGE = [
    "", "s", "s1", "s1 ", "s1 1 2 3", "w1 1 1 x", "\x00\xff", "1", "-1", "nan", '{"subject": "root"}',
    'w2' + HEAD[2:] + ' ["s","e",[]]', HEAD.replace("9", "x", 1) + ' ["s","e",[]]', HEAD[:-1] + ' ["s","e",[]]',
    HEAD.replace("9", "9" * 23, 1) + ' ["s","e",[]]', f"{HEAD} {{", f"{HEAD} []", f"{HEAD} [1,2,[]]",
    f'{HEAD} ["s","e","r"]', f'{HEAD} ["s","e",[1]]', f'{HEAD} ["s","e",{{"a":"b"}}]', f'{HEAD} ["s","e",null]',
    f'{HEAD} ["s","e",["r"]',
]  # fmt: skip
OTHER_TYPES = [("HSET", "f", "v"), ("RPUSH", "x"), ("SADD", "x"), ("ZADD", "1", "x")]
ENTRY = NewAuditEntry("config.write", "routes", "someone", "config", "192.0.2.1", "r")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    with Children() as children:
        yield start_redis(children, tmp_path_factory.mktemp("redis"))


@pytest.fixture
def watch() -> Recording:
    return Recording()


@pytest.fixture
async def state(server: Redis, watch: Recording) -> AsyncIterator[RedisState]:
    server.cli("FLUSHALL")
    state = RedisState(server.url, prefix="gateway", timeout_s=5.0, watch=watch)
    await state.start()
    yield state
    await state.close()


def plant(server: Redis, key: str, value: str | tuple[str, ...]) -> None:
    """Put a value of some kind under a key."""
    server.cli("DEL", key)
    if isinstance(value, tuple):
        server.cli(value[0], key, *value[1:])
    else:
        server.cli("SET", key, stdin=value.encode("latin-1") or b"\n")


DECISION = Keys("gateway").decision(decision_key(b"k")).decode()
VALUES = [*GARBAGE, *OTHER_TYPES]


@pytest.mark.parametrize("value", VALUES, ids=[f"v{n}" for n in range(len(VALUES))])
async def test_a_value_that_is_not_ours_counts_as_absent(
    server: Redis, state: RedisState, watch: Recording, value: str | tuple[str, ...]
) -> None:
    key = "gateway:{s}:i:a"
    plant(server, key, value)
    assert await state.read_session("a") is None
    assert await state.touch_session("a", 1_000) is None
    assert watch.operations == [("read_session", "foreign"), ("touch_session", "foreign")]
    created = await state.create_session(NewSession("a", "alice", "", (), 60_000, 60_000))
    assert await state.read_session("a") == created
    plant(server, key, value)
    assert await state.delete_session("a") is False
    assert server.cli("EXISTS", key) == "0"

    for name, planted in (("gateway:b:k:60000:1000", value), (DECISION, value), ("gateway:c:t", value)):
        plant(server, name, planted)
    watch.operations.clear()
    [result] = await state.check_budgets([BudgetCheck("k", 2, 60_000, 1_000)])
    assert (result.allowed, result.remaining) == (True, 1)
    assert await state.read_decision(decision_key(b"k")) is None
    assert set(watch.operations) == {("check_budgets", "foreign"), ("read_decision", "foreign")}
    assert await state.read_challenge("t") is None
    [again] = await state.check_budgets([BudgetCheck("k", 2, 60_000, 1_000)])
    assert again.remaining == 0


@pytest.mark.parametrize("value", OTHER_TYPES, ids=[value[0] for value in OTHER_TYPES])
async def test_keys_of_another_type_stop_nothing(server: Redis, state: RedisState, value: tuple[str, ...]) -> None:
    await state.create_session(NewSession("a", "alice", "", (), 60_000, 60_000))
    [index] = server.cli("KEYS", "gateway:{s}:u:*").split()
    for name in (index, "gateway:{h}:index", "gateway:l:{order}:held", "gateway:l:{order}:fence"):
        plant(server, name, value)
    await state.create_session(NewSession("b", "alice", "", (), 60_000, 60_000, 5))
    assert await state.delete_subject_sessions("alice") >= 1
    await state.beat("r", 1, "", 60_000)
    assert [each.replica for each in await state.list_heartbeats()][-1:] == ["r"]
    lease = await state.take_lease("order", "r", 60_000)
    assert lease is not None
    again = await state.take_lease("order", "r", 60_000)
    assert again is not None
    assert again.fence == lease.fence


@pytest.mark.parametrize("value", VALUES, ids=[f"v{n}" for n in range(len(VALUES))])
async def test_a_damaged_pointer_is_no_empty_store_and_is_never_written_over(
    server: Redis, state: RedisState, value: str | tuple[str, ...]
) -> None:
    plant(server, "gateway:{t}:active", value)
    before = server.cli("DUMP", "gateway:{t}:active")
    with pytest.raises(StateUnavailable, match="damaged"):
        await state.read_table()
    with pytest.raises(StateUnavailable):
        await state.move_pointer(0, b"new", ENTRY)
    assert server.cli("DUMP", "gateway:{t}:active") == before
    assert server.cli("KEYS", "*audit*") == ""


async def test_a_revision_that_is_gone_is_damage(server: Redis, state: RedisState) -> None:
    await state.move_pointer(0, b"one", ENTRY)
    server.cli("DEL", "gateway:{t}:revision:1")
    with pytest.raises(StateUnavailable, match="damaged"):
        await state.read_table()
