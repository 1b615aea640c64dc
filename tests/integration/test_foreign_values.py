"""Values in the store that are not ours: reported, counted, and treated as absent; never trusted and never a crash."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest

from common.state.administration import AUTH_FAILURES_MAX, HandleRevocation, SessionPage
from common.state.budgets import BudgetCheck
from common.state.coordination import Lease
from common.state.ports import NewSession, StateUnavailable
from common.state.redis.keys import Keys
from common.state.redis.state import RedisState
from common.state.sealed import Sealed
from common.state.table_store import AuditFilter, NewAuditEntry
from tests.support.processes import Children
from tests.support.redis import Redis, start_redis
from tests.support.state_backends import Recording
from tests.support.state_values import decision_key, hashed, session

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


@pytest.mark.parametrize("value", VALUES, ids=[f"v{n}" for n in range(len(VALUES))])
async def test_of_what_operators_and_certificates_use_a_value_that_is_not_ours_counts_as_absent_too(
    server: Redis, state: RedisState, watch: Recording, value: str | tuple[str, ...]
) -> None:
    keys = Keys("gateway")
    lease = Lease("order", "r", 7, 0)
    plant(server, keys.sealed("n"), value)
    assert await state.read_sealed("n") is None
    assert await state.write_sealed("n", b"blob", lease)
    assert await state.read_sealed("n") == Sealed(b"blob", 7)

    plant(server, keys.auth_failures("192.0.2.1"), value)
    assert await state.auth_failure_wait("192.0.2.1") == 0
    for _ in range(AUTH_FAILURES_MAX):
        assert await state.count_auth_failure("192.0.2.1") == 0
    assert await state.count_auth_failure("192.0.2.1") > 0
    assert watch.operations == [
        ("read_sealed", "foreign"), ("write_sealed", "foreign"), ("read_sealed", "ok"),
        ("auth_failure_wait", "foreign"), ("count_auth_failure", "foreign"),
        *[("count_auth_failure", "ok")] * AUTH_FAILURES_MAX,
    ]  # fmt: skip


@pytest.mark.parametrize("value", [value for value in VALUES if value != "1"])
async def test_a_number_of_drops_that_is_not_ours_rises_nevertheless(
    server: Redis, state: RedisState, watch: Recording, value: str | tuple[str, ...]
) -> None:
    for _ in range(3):
        await state.drop_decisions("alice", None, ENTRY)
    seen = [await state.decisions_dropped()]
    plant(server, Keys("gateway").drops, value)
    watch.operations.clear()
    assert await state.decisions_dropped() == 0
    await state.drop_decisions("alice", None, ENTRY)
    assert watch.operations == [("decisions_dropped", "foreign"), ("drop_decisions", "foreign")]
    seen.append(await state.decisions_dropped())
    assert seen[1] > seen[0]


async def test_entries_of_the_trail_that_are_not_ours_are_passed_over(
    server: Redis, state: RedisState, watch: Recording
) -> None:
    bodies = ("", " []", " {", ' ["a","t","o","s","c"]', ' [1,"","","","",""]', ' {"a":"b"}')
    texts = [*GARBAGE, "a1", "a1 x 3 []", *(f"a1 2 3{body}" for body in bodies)]
    await state.append_audit(ENTRY)
    for text in texts:
        server.cli("RPUSH", Keys("gateway").audit, stdin=text.encode("latin-1") or b"\n")
    server.cli("SET", Keys("gateway").audit_count, str(1 + len(texts)))
    last = await state.append_audit(ENTRY)
    for only in (AuditFilter(), AuditFilter(action=ENTRY.action), AuditFilter(to_ms=last.time_ms + 1, from_ms=5)):
        watch.operations.clear()
        found: list[int] = []
        before = None
        while True:
            page = await state.list_audit(before, 1, only)
            found += [each.id for each in page.entries]
            before = page.next_before
            if before is None:
                break
        assert found == [last.id, 1]
        assert ("list_audit", "foreign") in watch.operations


@pytest.mark.parametrize("value", OTHER_TYPES[:3], ids=[value[0] for value in OTHER_TYPES[:3]])
async def test_an_index_of_another_type_lists_nothing_until_it_is_made_anew(
    server: Redis, state: RedisState, watch: Recording, value: tuple[str, ...]
) -> None:
    keys = Keys("gateway")
    await state.create_session(session(hashed(1)))
    plant(server, keys.sessions, value)
    plant(server, keys.subject_index("alice"), value)
    watch.operations.clear()
    for subject in (None, "alice"):
        assert await state.list_sessions(subject, None, 10) == SessionPage((), None)
    assert await state.revoke_session(hashed(1)[:16], ENTRY) == HandleRevocation(0)
    assert [result for _, result in watch.operations] == ["foreign"] * 3
    await state.create_session(session(hashed(2)))
    for subject in (None, "alice"):
        assert [each.id_hash for each in (await state.list_sessions(subject, None, 10)).sessions] == [hashed(2)]


@pytest.mark.parametrize("value", VALUES, ids=[f"v{n}" for n in range(len(VALUES))])
async def test_a_listed_session_that_is_not_ours_is_passed_over_and_not_revoked(
    server: Redis, state: RedisState, watch: Recording, value: str | tuple[str, ...]
) -> None:
    await state.create_session(session(hashed(1)))
    await state.create_session(session(hashed(2)))
    plant(server, Keys("gateway").session(hashed(1)), value)
    watch.operations.clear()
    assert await state.revoke_session(hashed(1)[:16], ENTRY) == HandleRevocation(0)
    assert [each.id_hash for each in (await state.list_sessions(None, None, 10)).sessions] == [hashed(2)]
    assert watch.operations == [("revoke_session", "foreign"), ("list_sessions", "foreign")]
    assert (await state.list_audit(None, 10)).entries == ()


@pytest.mark.parametrize(
    "value",
    [
        *GARBAGE,
        f'h1 {"9" * 16} ["r",1,""]',
        'h1 -5 ["r",1,""]',
        'h1 5 ["r",1.5,""]',
        'h1 5 ["r",true,""]',
        'h1 5 ["r",1,null]',
        'h1 5 ["r",1]',
    ],
    ids=str,
)
async def test_a_heartbeat_that_is_not_ours_is_passed_over(
    server: Redis, state: RedisState, watch: Recording, value: str
) -> None:
    await state.beat("r", 1, "", 60_000)
    await state.beat("s", 1, "", 60_000)
    plant(server, Keys("gateway").heartbeat("r"), value)
    watch.operations.clear()
    assert [each.replica for each in await state.list_heartbeats()] == ["s"]
    assert watch.operations == [("list_heartbeats", "foreign")]


async def test_a_text_that_no_store_can_hold_is_refused_and_changes_nothing(server: Redis, state: RedisState) -> None:
    bad = replace(ENTRY, target="\ud800")
    await state.create_session(session(hashed(1)))
    before = server.cli("DBSIZE")
    for refused in (
        state.revoke_subject_sessions("alice", bad),
        state.revoke_session(hashed(1)[:16], bad),
        state.drop_decisions("alice", None, bad),
        state.append_audit(bad),
        state.move_pointer(0, b"", bad),
    ):
        with pytest.raises(ValueError, match="cannot hold"):
            await refused
    assert server.cli("DBSIZE") == before
