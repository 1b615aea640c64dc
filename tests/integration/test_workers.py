"""Several workers on one port, as a program with a real Redis: they serve, die, hang, drain, and count as one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from select import PIPE_BUF
from time import monotonic
from typing import Any

import pytest

from common.state.open import open_state
from tests.support import upstreams
from tests.support.gateway import Caller, route, table
from tests.support.processes import Children, eventually
from tests.support.redis import Redis, start_redis
from tests.support.upstreams import Peer, Upstream, ok, upstream
from tests.support.workers import GET, SCRAPE, Fleet, is_gone, ready, refuses, start_workers, stop

pytestmark = [pytest.mark.real, pytest.mark.slow]

HASTY = ("-m", "tests.support.run_workers", "5", "0")
"""A worker that stands still is missed after 5 s, and each is replaced at once."""
PATIENT = (*HASTY[:2], "600", "0")
REQUESTS = 'gateway_requests_total{method="GET",route="r0",status="200"}'
WORKERS = 'gateway_workers{{state="{}"}}'


@pytest.fixture
def children() -> Iterator[Children]:
    with Children() as started:
        yield started


@pytest.fixture
def redis(children: Children, tmp_path: Path) -> Redis:
    return start_redis(children, tmp_path / "redis")


@pytest.fixture
async def app() -> AsyncIterator[Upstream]:
    async with upstream(upstreams.answers) as running:
        yield running


Start = Callable[..., Awaitable[Fleet]]


@pytest.fixture
async def start(children: Children, redis: Redis, tmp_path: Path) -> AsyncIterator[Start]:
    """Starts a gateway of two workers over routes; its callers are closed at the end."""
    fleets: list[Fleet] = []

    async def start_fleet(*routes: dict[str, Any], **options: Any) -> Fleet:
        child = start_workers(children, tmp_path / "gateway", table(*routes), redis.url, **options)
        fleets.append(await asyncio.to_thread(ready, child))
        return fleets[-1]

    yield start_fleet
    for fleet in fleets:
        for caller in fleet.callers:
            caller.close()


async def replaced(fleet: Fleet, reason: str) -> dict[str, float]:
    """The metrics, once one worker has ended for that reason and all listen again."""
    ends = f'gateway_worker_ends_total{{reason="{reason}"}}'
    async with asyncio.timeout(30):
        while True:
            found = await fleet.metrics()
            if (found[ends], found[WORKERS.format("ready")]) == (1, 2):
                return found
            await asyncio.sleep(0.05)


async def until(check: Any, within_s: float = 30.0) -> None:
    await asyncio.to_thread(eventually, check, within_s=within_s)


async def test_both_serve_one_port_and_their_numbers_are_one(start: Start, app: Upstream) -> None:
    fleet = await start(route(app.url))
    callers = [await fleet.connect() for _ in range(24)]
    assert [(await caller.ask(GET)).status for caller in callers] == [200] * 24
    assert {await fleet.owner(caller) for caller in callers} == set(fleet.workers)
    assert len(fleet.workers) == 2
    # Whoever forks with a thread may leave its locks taken in the child.
    assert len(list(Path(f"/proc/{fleet.child.pid}/task").iterdir())) == 1
    found = await fleet.metrics()
    assert found[REQUESTS] == 24
    assert found['gateway_request_duration_seconds_count{route="r0"}'] == 24
    assert found["gateway_connections"] == 25
    assert found["gateway_state_up"] == 1
    assert found[WORKERS.format("ready")] == 2


async def test_the_metrics_of_all_are_behind_the_token(start: Start, app: Upstream) -> None:
    fleet = await start(route(app.url))
    caller = await fleet.connect()
    assert (await caller.ask(b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n")).status == 401


async def test_a_killed_worker_is_replaced_while_the_other_serves_and_no_count_falls(
    start: Start, app: Upstream
) -> None:
    fleet = await start(route(app.url))
    by_worker = await fleet.at_each()
    before = await fleet.metrics()
    killed, kept = by_worker
    os.kill(killed, signal.SIGKILL)
    assert await by_worker[killed].rest() == b""
    assert (await by_worker[kept].ask(GET)).status == 200
    # Until it is replaced everybody is served by the other. Who was in its queue at that moment is reset.
    await until(lambda: fleet.lines("a worker has ended and is replaced"))
    refused = 0
    while len(set(fleet.workers) - {killed}) < 2:
        caller = await fleet.connect()
        refused += (await caller.ask(GET)).status != 200
        caller.close()
    assert refused == 0
    await replaced(fleet, "signal")
    assert set(await fleet.at_each()) == set(fleet.workers)
    after = await fleet.metrics()
    for name, value in before.items():
        if name.partition("{")[0].endswith(("_total", "_count", "_bucket", "_sum")):
            assert after[name] >= value, name
    assert after["gateway_connections"] < 10
    (told,) = fleet.lines("a worker has ended and is replaced")
    assert (told["pid"], told["signal"], told["inMs"]) == (killed, "SIGKILL", 1_000)


async def test_callers_in_the_queue_of_a_worker_that_dies_are_served_by_its_successor(
    start: Start, app: Upstream
) -> None:
    """The socket outlives its worker: nobody who was not accepted yet sees a reset."""
    fleet = await start(route(app.url), program=PATIENT)
    victim = fleet.workers[0]
    stop(victim)
    callers = [await fleet.connect() for _ in range(24)]
    for caller in callers:
        await caller.send(GET)
    os.kill(victim, signal.SIGKILL)
    assert [(await caller.answer()).status for caller in callers] == [200] * 24
    assert victim not in {await fleet.owner(caller) for caller in callers}
    assert len({await fleet.owner(caller) for caller in callers}) == 2


async def test_a_worker_that_stands_still_is_counted_as_silent_and_then_replaced(start: Start, app: Upstream) -> None:
    fleet = await start(route(app.url), program=HASTY)
    by_worker = await fleet.at_each()
    before = await fleet.metrics()
    still, other = by_worker
    stop(still)
    answer = await by_worker[other].ask(SCRAPE)
    assert b'gateway_workers{state="silent"} 1.0' in answer.body
    assert b'gateway_workers{state="ready"} 1.0' in answer.body
    assert f"{REQUESTS} {before[REQUESTS]}".encode() in answer.body
    await until(lambda: is_gone(still))
    after = await replaced(fleet, "hang")
    assert len(fleet.lines("a worker stands still")) == 1
    assert after[REQUESTS] == before[REQUESTS]


async def test_workers_stopped_with_their_supervisor_are_not_taken_for_hung(start: Start, app: Upstream) -> None:
    """A machine that slept must not wake to a gateway that kills its workers."""
    fleet = await start(route(app.url), program=HASTY)
    workers = fleet.workers
    fleet.child.send_group(signal.SIGSTOP)
    stopped = monotonic()
    await until(lambda: monotonic() - stopped > 7)
    fleet.child.send_group(signal.SIGCONT)
    assert (await fleet.metrics())[WORKERS.format("ready")] == 2
    assert fleet.workers == workers, fleet.child.output
    assert fleet.lines("a worker stands still") == []


@pytest.fixture
async def held() -> AsyncIterator[tuple[Upstream, asyncio.Event]]:
    """An upstream that answers when it is told to."""
    release = asyncio.Event()

    async def waits(peer: Peer) -> None:
        await peer.read_request()
        await release.wait()
        await peer.write(ok(b"finished"))

    async with upstream(waits) as running:
        yield running, release


async def open_at_each(fleet: Fleet, app: Upstream) -> list[Caller]:
    """A request at each worker that its upstream holds."""
    by_worker = await fleet.at_each(request=None)
    for caller in by_worker.values():
        await caller.send(GET)
    async with asyncio.timeout(15):
        while len(app.requests) < len(by_worker):
            await asyncio.sleep(0.01)
    return list(by_worker.values())


@pytest.mark.parametrize("whole_group", [False, True], ids=["supervisor", "group"])
async def test_a_drain_lets_the_requests_of_every_worker_finish(
    start: Start, held: tuple[Upstream, asyncio.Event], whole_group: bool
) -> None:
    """A process manager may signal every process itself, beside what the supervisor does."""
    app, release = held
    fleet = await start(route(app.url))
    callers = await open_at_each(fleet, app)
    (fleet.child.send_group if whole_group else fleet.child.send)(signal.SIGTERM)
    await until(lambda: refuses(fleet.port))
    assert fleet.child.returncode is None
    release.set()
    answers = [await caller.answer() for caller in callers]
    assert [(each.body, each.value("connection")) for each in answers] == [(b"finished", "close")] * 2
    assert await asyncio.to_thread(fleet.child.wait) == 0


async def test_what_outlasts_the_drain_is_cut_and_a_second_signal_does_so_at_once(
    start: Start, held: tuple[Upstream, asyncio.Event]
) -> None:
    fleet = await start(route(held[0].url), SHUTDOWN_TIMEOUT_MS="600000")
    callers = await open_at_each(fleet, held[0])
    workers = fleet.workers
    fleet.child.send(signal.SIGTERM)
    await until(lambda: len(fleet.lines("draining")) >= 3)
    fleet.child.send(signal.SIGINT)
    assert await asyncio.to_thread(fleet.child.wait) == 128 + signal.SIGINT
    assert all(is_gone(pid) for pid in workers)
    assert [await caller.rest() for caller in callers] == [b"", b""]


async def test_workers_that_ignore_the_drain_are_killed_after_it(start: Start, app: Upstream) -> None:
    fleet = await start(route(app.url), SHUTDOWN_TIMEOUT_MS="100")
    still = fleet.workers[0]
    stop(still)
    fleet.child.send(signal.SIGTERM)
    assert await asyncio.to_thread(fleet.child.wait, within_s=30) == 1
    assert is_gone(still)
    assert len(fleet.lines("the drain took too long")) == 1


async def test_without_their_supervisor_workers_finish_what_is_open_and_end(
    start: Start, held: tuple[Upstream, asyncio.Event]
) -> None:
    app, release = held
    fleet = await start(route(app.url))
    callers = await open_at_each(fleet, app)
    workers = fleet.workers
    fleet.child.send(signal.SIGKILL)
    await until(lambda: refuses(fleet.port))
    release.set()
    assert [(await caller.answer()).body for caller in callers] == [b"finished"] * 2
    await until(lambda: all(is_gone(pid) for pid in workers))
    assert len(fleet.lines("the supervisor is gone")) == 2


async def test_a_worker_that_is_told_to_end_drains_and_is_replaced(
    start: Start, held: tuple[Upstream, asyncio.Event]
) -> None:
    app, release = held
    fleet = await start(route(app.url))
    callers = await open_at_each(fleet, app)
    ended = fleet.workers[0]
    os.kill(ended, signal.SIGTERM)
    await until(lambda: [line["msg"] for line in fleet.lines("draining")] == ["draining"])
    release.set()
    assert [(await caller.answer()).body for caller in callers] == [b"finished"] * 2
    await replaced(fleet, "exit")
    (told,) = fleet.lines("a worker has ended and is replaced")
    assert (told["pid"], told["exitCode"]) == (ended, 0)
    assert (await fleet.metrics())[REQUESTS] == 2


async def test_sighup_reloads_every_worker(start: Start, app: Upstream, tmp_path: Path) -> None:
    fleet = await start(route(app.url, "/old"))
    (tmp_path / "gateway" / "routes.json").write_text(json.dumps(table(route(app.url, "/new"))))
    fleet.child.send(signal.SIGHUP)
    await until(lambda: {line["worker"] for line in fleet.lines("reload asked for")} == {1, 2})
    await until(lambda: sorted(line["generation"] for line in fleet.lines("configuration active")) == [1, 1, 2, 2])
    for caller in (await fleet.at_each()).values():
        assert (await caller.ask(GET.replace(b"GET / ", b"GET /new "))).status == 200


async def test_a_limit_holds_over_all_workers(start: Start, app: Upstream) -> None:
    fleet = await start(route(app.url), RATE_LIMIT_ROUTE_MAX="25", workers=3)
    callers = [await fleet.connect() for _ in range(60)]
    answers = await asyncio.gather(*(caller.ask(GET) for caller in callers))
    assert {await fleet.owner(caller) for caller in callers} == set(fleet.workers)
    assert sorted(answer.status for answer in answers) == [200] * 25 + [429] * 35


async def test_every_log_line_is_whole_whoever_writes_it(start: Start, app: Upstream) -> None:
    """Lines longer than a pipe takes at once, of four processes, on one pipe."""
    fleet = await start(route(app.url), workers=4)
    quotes = '"' * 2_000  # two bytes each in JSON
    target, agent = f"/?q={quotes}", quotes[:512]
    request = f"GET {target} HTTP/1.1\r\nhost: app.test\r\nuser-agent: {agent}\r\n\r\n".encode()

    async def ask(caller: Caller) -> None:
        for _ in range(25):
            assert (await caller.ask(request)).status == 200

    await asyncio.gather(*[ask(await fleet.connect()) for _ in range(16)])
    fleet.child.send(signal.SIGTERM)
    assert await asyncio.to_thread(fleet.child.wait) == 0
    events = [json.loads(line) for line in fleet.child.lines]
    assert sum(event["msg"] == "request" for event in events) == 400
    assert sum(len(line) > PIPE_BUF for line in fleet.child.lines) == 400


async def test_each_worker_is_a_replica_of_its_own(start: Start, redis: Redis, app: Upstream) -> None:
    fleet = await start(route(app.url), CONFIG_SOURCE="store", REPLICA_ID="gw")
    control = open_state(redis.url)
    await control.start()
    async with asyncio.timeout(20):
        while [each.replica for each in await control.list_heartbeats()] != ["gw-1", "gw-2"]:
            await asyncio.sleep(0.05)
    await control.close()
    assert fleet.child.returncode is None


async def test_a_state_that_refuses_the_workers_ends_the_program_with_its_reason(
    children: Children, redis: Redis, app: Upstream, tmp_path: Path
) -> None:
    redis.cli("CONFIG", "SET", "requirepass", "something")
    child = start_workers(children, tmp_path / "gateway", table(route(app.url)), redis.url)
    assert await asyncio.to_thread(child.wait, within_s=60) == 1
    assert "the shared state refuses this gateway" in child.output
    assert child.output.count("a worker could not start") in (1, 2)


async def test_a_port_that_is_taken_ends_the_program_with_its_reason(
    start: Start, redis: Redis, children: Children, app: Upstream, tmp_path: Path
) -> None:
    """Also by another gateway of several workers, with which the system would let it share."""
    fleet = await start(route(app.url))
    child = start_workers(children, tmp_path / "second", table(route(app.url)), redis.url, PORT=str(fleet.port))
    assert await asyncio.to_thread(child.wait, within_s=60) == 1
    assert "cannot listen: free the address" in child.output
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        child = start_workers(children, tmp_path / "third", table(route(app.url)), redis.url, PORT=str(port))
        assert await asyncio.to_thread(child.wait, within_s=60) == 1
    assert len(child.lines) == 1
    assert (await (await fleet.connect()).ask(GET)).status == 200
