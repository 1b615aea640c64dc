"""deploy/redis/gateway.acl on a real Redis: it loads as it is, and each plane can do its work and no more (§12.8)."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.state.budgets import BudgetCheck
from common.state.coordination import Lease
from common.state.ports import NewSession, StateMisconfigured, StateUnavailable
from common.state.redis.state import RedisState
from common.state.sealed import Sealed
from common.state.table_store import AuditFilter, NewAuditEntry
from common.state.watch import Unwatched
from tests.support.processes import Children
from tests.support.redis import Redis, start_redis
from tests.support.state_values import decision_key, hashed, keep_decision, session

ROOT = Path(__file__).parents[2]
ACL = ROOT / "deploy/redis/gateway.acl"
ENTRY = NewAuditEntry("config.write", "routes", "someone", "config", "192.0.2.1", "r")

DENIED = re.compile(r"NOPERM|can't run this command|can't access at least one of the keys")

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    folder = tmp_path_factory.mktemp("acl")
    shutil.copy(ACL, folder / "gateway.acl")
    with Children() as children:
        started = start_redis(children, folder, "--aclfile", str(folder / "gateway.acl"))
        # As a deployment does it: the passwords are not in the file.
        assert started.cli("ACL", "SETUSER", "gateway", ">data") == "OK"
        assert started.cli("ACL", "SETUSER", "gateway-control", ">control") == "OK"
        yield started


def state_of(server: Redis, user: str, password: str) -> RedisState:
    url = f"redis://{user}:{password}@127.0.0.1:{server.port}/0"
    return RedisState(url, prefix="gateway", timeout_s=5.0, watch=Unwatched())


async def use_as_a_data_plane(state: RedisState) -> None:
    """Every operation of the data plane."""
    for number in range(3):
        await state.create_session(NewSession(f"a{number}", "alice", "", ("r",), 60_000, 60_000, 2))
    assert await state.read_session("a2") is not None
    assert await state.touch_session("a2", 60_000) is not None
    assert await state.delete_session("a2")
    assert await state.delete_subject_sessions("alice") == 1
    assert (await state.check_budgets([BudgetCheck("k", 9, 1_000, 1_000)]))[0].allowed
    await keep_decision(state, decision_key(b"k"), 60_000)
    assert await state.read_decision(decision_key(b"k")) is not None
    await state.beat("r", 1, "", 60_000)
    assert len(await state.list_heartbeats()) == 1
    lease = await state.take_lease("order", "r", 60_000)
    assert lease is not None
    assert await state.renew_lease(lease, 60_000) is not None
    assert await state.release_lease(lease)
    await state.publish_challenge("t", "a", 60_000)
    assert await state.read_challenge("t") == "a"
    assert await state.withdraw_challenge("t")
    await state.read_table()
    assert await state.decisions_dropped() == 0


async def use_as_a_replica(state: RedisState) -> None:
    """What only the data plane does."""
    lease = await state.take_lease("certificate", "r", 60_000)
    assert lease is not None
    assert await state.write_sealed("n", b"blob", lease)
    assert await state.read_sealed("n") == Sealed(b"blob", lease.fence)


async def use_as_a_control_plane(state: RedisState) -> None:
    """Every operation of the control plane; three entries of the trail."""
    await state.create_session(session(hashed(1)))
    await state.create_session(session(hashed(2)))
    assert len((await state.list_sessions(None, None, 10)).sessions) == 2
    assert len((await state.list_sessions("alice", None, 10)).sessions) == 2
    assert (await state.revoke_session(hashed(1)[:16], ENTRY)).matching == 1
    assert await state.revoke_subject_sessions("alice", ENTRY) == 1
    await keep_decision(state, decision_key(b"k"), 60_000)
    assert await state.drop_decisions("alice", None, ENTRY) == 1
    assert await state.count_auth_failure("192.0.2.1") == 0
    assert await state.auth_failure_wait("192.0.2.1") == 0
    page = await state.list_audit(None, 10, AuditFilter(action=ENTRY.action, operator=ENTRY.operator, from_ms=0))
    assert len(page.entries) == 3


async def test_each_plane_can_do_all_of_its_work(server: Redis) -> None:
    server.cli("FLUSHALL")
    data, control = state_of(server, "gateway", "data"), state_of(server, "gateway-control", "control")
    await data.start()
    await control.start()
    await use_as_a_data_plane(data)
    await use_as_a_data_plane(control)
    await use_as_a_replica(data)
    await use_as_a_control_plane(control)
    assert (await control.move_pointer(0, b"one", ENTRY)).moved
    assert (await data.read_table()).document == b"one"
    assert await control.read_revision(1) is not None
    assert len(await control.list_revisions(None, 10)) == 1
    await control.append_audit(ENTRY)
    assert len((await control.list_audit(None, 10)).entries) == 5
    await data.close()
    await control.close()


async def test_the_data_plane_cannot_write_the_table_the_pointer_or_the_audit_trail(server: Redis) -> None:
    server.cli("FLUSHALL")
    control, data = state_of(server, "gateway-control", "control"), state_of(server, "gateway", "data")
    await control.start()
    await data.start()
    await control.move_pointer(0, b"one", ENTRY)
    await control.drop_decisions("alice", None, ENTRY)
    await control.count_auth_failure("192.0.2.1")
    await data.create_session(session(hashed(1)))
    for forbidden in (
        data.move_pointer(1, b"two", ENTRY),
        data.append_audit(ENTRY),
        data.list_audit(None, 10),
        data.list_revisions(None, 10),
        data.revoke_subject_sessions("alice", ENTRY),
        data.revoke_session(hashed(1)[:16], ENTRY),
        data.drop_decisions("alice", None, ENTRY),
        data.count_auth_failure("192.0.2.1"),
        data.auth_failure_wait("192.0.2.1"),
    ):
        with pytest.raises(StateUnavailable, match="refuses"):
            await forbidden
    assert await data.read_session(hashed(1)) is not None
    names = (*server.cli("KEYS", "*{t}*").split(), "gateway:a:192.0.2.1")
    before = {name: server.cli("DUMP", name) for name in names}
    assert len(before) == 7
    for name in before:
        for command in (
            ("SET", name, "x"), ("DEL", name), ("HSET", name, "revision", "9"), ("RPUSH", name, "x"), ("INCR", name),
            ("ZADD", name, "1", "x"), ("PEXPIREAT", name, "1"), ("RENAME", name, "gateway:c:x"), ("UNLINK", name),
            ("EVAL", "return redis.call('SET', KEYS[1], 'x')", "1", name),
            ("EVAL", "return redis.call('DEL', ARGV[1])", "0", name),
            ("EVAL", "return redis.call('HSET', ARGV[1], 'revision', '9')", "0", name),
        ):  # fmt: skip
            told = server.cli(*command, user="gateway", password="data")
            assert DENIED.search(told), (command, told)
    for name in ("gateway:{t}:audit:trail", "gateway:{t}:audit:count", "gateway:a:192.0.2.1"):
        for command in (("GET", name), ("EVAL", "return redis.call('GET', ARGV[1])", "0", name)):
            assert DENIED.search(server.cli(*command, user="gateway", password="data"))
    assert {name: server.cli("DUMP", name) for name in before} == before
    await control.close()
    await data.close()


async def test_the_control_plane_cannot_rewrite_history_or_read_what_is_sealed(server: Redis) -> None:
    server.cli("FLUSHALL")
    control, data = state_of(server, "gateway-control", "control"), state_of(server, "gateway", "data")
    await control.start()
    await data.start()
    await control.move_pointer(0, b"one", ENTRY)
    await use_as_a_replica(data)
    names = ("audit:trail", "audit:count", "revision:1", "history")
    before = {f"gateway:{{t}}:{name}": server.cli("DUMP", f"gateway:{{t}}:{name}") for name in names}
    before["gateway:e:n"] = server.cli("DUMP", "gateway:e:n")
    for name in before:
        for command in (
            ("SET", name, "x"), ("DEL", name), ("UNLINK", name), ("HSET", name, "document", "9"), ("EXPIRE", name, "1"),
            ("PEXPIREAT", name, "1"), ("LSET", name, "0", "x"), ("LTRIM", name, "1", "0"), ("LPOP", name),
            ("HDEL", name, "document"), ("RENAME", name, "gateway:c:x"), ("DECR", name), ("COPY", name, "gateway:c:x"),
            ("EVAL", "return redis.call('DEL', ARGV[1])", "0", name),
        ):  # fmt: skip
            told = server.cli(*command, user="gateway-control", password="control")
            assert DENIED.search(told), (command, told)
    server.cli("HSETNX", "gateway:{t}:revision:1", "document", "other", user="gateway-control", password="control")
    assert {name: server.cli("DUMP", name) for name in before} == before
    with pytest.raises(StateUnavailable, match="refuses"):
        await control.read_sealed("n")
    with pytest.raises(StateUnavailable, match="refuses"):
        await control.write_sealed("n", b"", Lease("certificate", "r", 99, 0))
    await control.close()
    await data.close()


@pytest.mark.parametrize(
    "command", [("KEYS", "*"), ("FLUSHALL",), ("CONFIG", "GET", "*"), ("GET", "other"), ("SHUTDOWN",), ("ACL", "LIST")]
)
@pytest.mark.parametrize(("user", "password"), [("gateway", "data"), ("gateway-control", "control")])
def test_neither_plane_may_administer_the_server(
    server: Redis, user: str, password: str, command: tuple[str, ...]
) -> None:
    assert "NOPERM" in server.cli(*command, user=user, password=password)


@pytest.mark.parametrize(
    ("user", "password", "said"),
    [("gateway", "wrong", "user or password"), ("nobody", "x", "user or password"), ("weak", "weak", "gateway.acl")],
)
async def test_a_wrong_password_or_a_user_without_rights_stops_the_start(
    server: Redis, user: str, password: str, said: str
) -> None:
    server.cli("ACL", "SETUSER", "weak", "on", ">weak", "+ping", "~other:*")
    state = state_of(server, user, password)
    with pytest.raises(StateMisconfigured, match=said) as refused:
        await state.start()
    assert "wrong" not in str(refused.value)
    await state.close()


def test_the_file_holds_one_rule_a_line_and_no_password() -> None:
    lines = ACL.read_text().splitlines()
    assert [line.split()[:2] for line in lines] == [["user", "gateway"], ["user", "gateway-control"]]
    assert not any(word.startswith((">", "#", "<", "nopass")) for line in lines for word in line.split())
