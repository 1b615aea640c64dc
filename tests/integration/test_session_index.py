"""The index of all sessions on Redis: what it costs, and that sessions that ended do not pile up in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from common.state.ports import NewSession
from common.state.redis.keys import Keys
from common.state.redis.state import RedisState
from common.state.watch import Unwatched
from tests.support.faketime import ServerTime
from tests.support.processes import Children
from tests.support.redis import Redis, start_redis
from tests.support.state_values import hashed, session

pytestmark = pytest.mark.real

INDEX = Keys("gateway").sessions


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Redis, ServerTime]]:
    folder = tmp_path_factory.mktemp("redis")
    time = ServerTime(folder / "time")
    with Children() as children:
        yield start_redis(children, folder, env=time.environment()), time


@pytest.fixture
async def state(timed: tuple[Redis, ServerTime]) -> AsyncIterator[RedisState]:
    server, time = timed
    server.cli("FLUSHALL")
    time.begin()
    state = RedisState(server.url, prefix="gateway", timeout_s=10.0, watch=Unwatched())
    await state.start()
    yield state
    await state.close()


async def test_sessions_that_ended_by_themselves_stay_a_bounded_share(
    timed: tuple[Redis, ServerTime], state: RedisState
) -> None:
    """Nobody deletes them: each creation looks at three others."""
    server, time = timed
    number = 0
    for _ in range(120):
        for _ in range(10):
            number += 1
            await state.create_session(session(hashed(number), f"s{number}", idle_ms=30_000, max_age_ms=3_600_000))
        time.pass_s(1)
    # Of 1 200 that were created 300 live. A third of the index is what three looks each come to in the long run.
    assert 300 <= int(server.cli("ZCARD", INDEX)) <= 300 * 1.5 * 1.25


async def test_the_index_ends_with_the_last_session(timed: tuple[Redis, ServerTime], state: RedisState) -> None:
    server, time = timed
    await state.create_session(session(hashed(1), idle_ms=1_000, max_age_ms=60_000))
    await state.create_session(session(hashed(2), idle_ms=1_000, max_age_ms=5_000))
    time.pass_s(59.999)
    assert server.cli("EXISTS", INDEX) == "1"
    time.pass_s(0.002)
    assert server.cli("EXISTS", INDEX) == "0"


async def test_a_session_takes_at_most_a_kibibyte_with_all_of_its_indexes(
    timed: tuple[Redis, ServerTime], state: RedisState
) -> None:
    server, _ = timed
    count = 20_000
    before = used(server)
    for first in range(0, count, 500):
        numbers = range(first, first + 500)
        await asyncio.gather(*(state.create_session(common_session(number)) for number in numbers))
    taken = (used(server) - before) / count
    print(f"{taken:.0f} bytes a session")
    assert taken <= 1024


def used(server: Redis) -> int:
    told = dict(line.split(":", 1) for line in server.cli("INFO", "memory").splitlines() if ":" in line)
    return int(told["used_memory"])


def common_session(number: int) -> NewSession:
    email = f"somebody-{number}@example.test"
    return NewSession(hashed(number), f"auth0|{number:024}", email, ("reader",), 3_600_000, 86_400_000)
