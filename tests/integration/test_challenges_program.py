"""`gateway-challenges` as a program: it answers what gateways published in the shared state, and nothing else."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from common.state.open import open_state
from common.state.ports import State
from tests.support.ports import bound_socket, port_of
from tests.support.postgres import open_folder, start_postgres
from tests.support.processes import Child, Children, eventually
from tests.support.redis import start_redis
from tests.support.state_waits import wait_up

pytestmark = pytest.mark.real

TOKEN = "LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0"
ANSWER = f"{TOKEN}.9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI"
PATH = f"/.well-known/acme-challenge/{TOKEN}"


def start(children: Children, *arguments: str, **environment: str) -> Child:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    env = {**kept, "COLUMNS": "200", **{f"GATEWAY_{name}": text for name, text in environment.items()}}
    return children.start_python(
        "-c", "from dataplane.tls.challenges import main; main()", *arguments, name="gateway-challenges", env=env
    )


@dataclass
class Running:
    child: Child
    port: int
    state: State

    async def get(self, path: str, method: str = "GET", **headers: str) -> httpx.Response:
        async with httpx.AsyncClient(trust_env=False, timeout=15) as client:
            return await client.request(method, f"http://127.0.0.1:{self.port}{path}", headers=headers)


@asynccontextmanager
async def responder(children: Children, url: str) -> AsyncIterator[Running]:
    child = start(children, STATE_URL=url, CHALLENGES_HOST="127.0.0.1", CHALLENGES_PORT="0")
    port = int(child.wait_for_line(r'"msg":"listening".*"port":(\d+)')[1])
    state = open_state(url)
    await state.start()
    try:
        yield Running(child, port, state)
    finally:
        await state.close()


@pytest.fixture(params=["redis", "postgres"])
async def running(request: pytest.FixtureRequest, children: Children) -> AsyncIterator[Running]:
    with open_folder() as folder, Children() as servers:
        if request.param == "redis":
            url = start_redis(servers, folder / "redis").url
        else:
            postgres = start_postgres(servers, folder / "postgres")
            await postgres.migrate()
            url = postgres.data_url
        async with responder(children, url) as started:
            yield started
            started.child.stop()


@pytest.fixture
def redis_folder() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


async def test_a_published_answer_is_given_on_every_name_until_it_is_withdrawn(running: Running) -> None:
    await running.state.publish_challenge(TOKEN, ANSWER, 60_000)

    for host in ("app.example.com", "other.example.com:8082", "127.0.0.1"):
        answer = await running.get(PATH, host=host)
        assert (answer.status_code, answer.text) == (200, ANSWER)
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["cache-control"] == "no-store"
    head = await running.get(PATH, "HEAD")
    assert (head.status_code, head.text, head.headers["content-length"]) == (200, "", str(len(ANSWER)))

    await running.state.withdraw_challenge(TOKEN)
    assert (await running.get(PATH)).status_code == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/.well-known/acme-challenge/unknown"),
        ("GET", "/.well-known/acme-challenge/"),
        ("GET", f"{PATH}/"),
        ("GET", f"{PATH}%00"),
        ("GET", f"/.well-known/acme-challenge/%2e%2e/{TOKEN}"),
        ("GET", "/.well-known/acme-challenge/" + "a" * 129),
        ("GET", f"/.well-known/acme-challenge//{TOKEN}"),
        ("POST", PATH),
        ("DELETE", PATH),
        ("GET", "/"),
        ("GET", "/metrics"),
    ],
)
async def test_nothing_else_is_answered(children: Children, redis_folder: Path, method: str, path: str) -> None:
    async with responder(children, start_redis(children, redis_folder).url) as running:
        await running.state.publish_challenge(TOKEN, ANSWER, 60_000)

        answer = await running.get(path, method)

        assert answer.status_code == 404
        assert answer.json()["error"] == "not_found"


async def test_a_state_that_is_away_is_503_and_heals_by_itself(children: Children, redis_folder: Path) -> None:
    """A 404 would tell the authority that the challenge failed; a 503 has it try again."""
    redis = start_redis(children, redis_folder)
    async with responder(children, redis.url) as running:
        assert (await running.get("/readyz")).status_code == 200
        redis.child.kill()
        answer = await running.get(PATH)
        assert answer.status_code == 503
        assert answer.headers["retry-after"]
        assert "challenges could not be read" in answer.json()["message"].lower()
        assert (await running.get("/healthz")).status_code == 200
        assert (await running.get("/readyz")).status_code == 503

        redis.restart()
        async with asyncio.timeout(30):
            while (await running.get("/readyz")).status_code != 200:
                await asyncio.sleep(0.05)
        await wait_up(running.state)
        await running.state.publish_challenge(TOKEN, ANSWER, 60_000)
        assert (await running.get(PATH)).text == ANSWER


async def test_it_starts_without_its_state_and_waits_for_it(children: Children, redis_folder: Path) -> None:
    with bound_socket() as taken:
        port = port_of(taken)
    async with responder(children, f"redis://127.0.0.1:{port}/0") as running:
        assert (await running.get(PATH)).status_code == 503
        start_redis(children, redis_folder, port=port)
        async with asyncio.timeout(30):
            while (await running.get(PATH)).status_code != 404:
                await asyncio.sleep(0.05)


async def test_a_caller_that_stalls_or_speaks_nonsense_is_closed(children: Children, redis_folder: Path) -> None:
    """It stands at the edge: the gateway's own reader guards it."""
    async with responder(children, start_redis(children, redis_folder).url) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n")
        assert (await asyncio.wait_for(reader.read(-1), 15)).startswith(b"HTTP/1.1 400 ")
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(b"GET " + PATH.encode() + b" HTTP/1.1\r\nhost: ")
        assert (await asyncio.wait_for(reader.read(-1), 30)).startswith(b"HTTP/1.1 408 ")
        writer.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_stop_that_was_asked_for_ends_with_0(
    children: Children, redis_folder: Path, number: signal.Signals
) -> None:
    async with responder(children, start_redis(children, redis_folder).url) as running:
        with socket.create_connection(("127.0.0.1", running.port), timeout=15):
            running.child.send(number)
            assert running.child.wait() == 0
    assert '"msg":"stopped"' in running.child.output


def test_help_says_what_it_answers_and_how_it_is_set_up(children: Children) -> None:
    child = start(children, "--help")

    assert child.wait() == 0
    for word in ("GATEWAY_STATE_URL", "GATEWAY_CHALLENGES_PORT", "/healthz", "Exit codes"):
        assert word in child.output


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({}, "GATEWAY_STATE_URL: names no shared state"),
        ({"STATE_URL": "memory://local"}, "GATEWAY_STATE_URL: names no shared state"),
        ({"STATE_URL": "redis://r", "CHALLENGES_PORT": "http"}, "GATEWAY_CHALLENGES_PORT: must be a whole number"),
        ({"STATE_URL": "redis://r", "CHALENGES_PORT": "80"}, "did you mean GATEWAY_CHALLENGES_PORT?"),
    ],
)
def test_wrong_settings_end_it_with_1_and_say_why(children: Children, environment: dict[str, str], says: str) -> None:
    child = start(children, **environment)

    assert child.wait() == 1
    assert says in child.output


async def test_a_taken_address_ends_it_with_1_and_says_what_to_do(children: Children, redis_folder: Path) -> None:
    redis = start_redis(children, redis_folder)
    with bound_socket() as taken:
        taken.listen()
        child = start(children, STATE_URL=redis.url, CHALLENGES_HOST="127.0.0.1", CHALLENGES_PORT=str(port_of(taken)))
        assert child.wait() == 1
    assert "free the address or set GATEWAY_CHALLENGES_HOST" in child.output


async def test_an_answer_leaves_the_usual_line_in_the_log(children: Children, redis_folder: Path) -> None:
    async with responder(children, start_redis(children, redis_folder).url) as running:
        await running.get(PATH)
        eventually(lambda: '"msg":"request"' in running.child.output)
        line = next(line for line in running.child.lines if '"msg":"request"' in line)
        assert '"status":404' in line
        assert '"error":"not_found"' in line
