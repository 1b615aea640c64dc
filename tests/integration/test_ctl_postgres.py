"""A day of an operator: `gatewayctl`, the program `gateway-control`, and a real Postgres behind it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from common.state.open import StateOptions, open_state
from common.state.ports import NewSession, State
from tests.support.control import TOKENS, route_table, token_map
from tests.support.ctl import Ended, gatewayctl
from tests.support.ports import free_port
from tests.support.postgres import Postgres, open_folder, start_postgres
from tests.support.processes import Child, Children
from tests.support.route_tables import route

pytestmark = pytest.mark.real


@pytest.fixture
async def server(children: Children) -> AsyncIterator[Postgres]:
    with ExitStack() as stack:
        folder = stack.enter_context(open_folder())
        postgres = start_postgres(children, folder / "postgres")
        await postgres.migrate()
        yield postgres
        postgres.stop()


@pytest.fixture
async def data_plane(server: Postgres) -> AsyncIterator[State]:
    """The shared state as a gateway sees it."""
    state = open_state(server.data_url, StateOptions(timeout_s=30))
    await state.start()
    yield state
    await state.close()


@pytest.fixture
def url(children: Children, server: Postgres) -> str:
    """The address of a running `gateway-control`."""
    child: Child = children.start_python(
        "-c",
        "from controlplane.cli import main; main()",
        name="gateway-control",
        env={
            "PATH": os.environ["PATH"],
            "GATEWAY_CONTROL_TOKENS": token_map(),
            "GATEWAY_CONTROL_STATE_URL": server.control_url,
            "GATEWAY_CONTROL_PORT": "0",
        },
    )
    port = child.wait_for_line(r'"msg":"listening".*"port":(\d+)', within_s=60)[1]
    return f"http://127.0.0.1:{port}"


async def test_a_day_of_an_operator(url: str, data_plane: State, tmp_path: Path) -> None:
    file = tmp_path / "routes.json"

    async def ctl(*arguments: str, scope: str = "config") -> Ended:
        return await gatewayctl(*arguments, url=url, token=TOKENS[scope])

    async def value(*arguments: str, scope: str = "config") -> Any:
        ended = await ctl(*arguments, "--json", scope=scope)
        assert (ended.exit_code, ended.stderr) == (0, ""), ended
        return ended.value

    file.write_text(json.dumps(route_table("a", "b")))
    assert (await value("config", "push", str(file), "--yes"))["revision"] == 1
    file.write_text(json.dumps(route_table("b", "c")))
    await data_plane.beat("gateway-1", 2, "", 60_000)
    second = await value("config", "push", str(file), "--yes", "--wait")
    assert (second["revision"], [one["replica"] for one in second["replicas"]]) == (2, ["gateway-1"])
    assert (await data_plane.read_table()).revision == 2

    difference = await value("config", "diff")
    assert (difference["from"], difference["to"], difference["added"], difference["removed"]) == (1, 2, ["c"], ["a"])
    assert (await value("config", "rollback", "1", "--yes"))["revision"] == 3
    assert (await value("config", "get"))["table"] == route_table("a", "b")

    for name in ("0" * 64, "1" * 64):
        await data_plane.create_session(NewSession(name, "alice", "", (), 60_000, 60_000))
    listed = await value("sessions", "list", "--subject", "alice", scope="operate")
    assert [one["handle"] for one in listed["items"]] == ["0" * 16, "1" * 16]
    assert (await value("sessions", "revoke", "0" * 16, "--yes", scope="operate"))["revoked"] == 1
    assert (await value("sessions", "revoke", "--subject", "alice", "--yes", scope="operate"))["revoked"] == 1
    assert await data_plane.read_session("1" * 64) is None

    trail = await value("audit", "--since", "1h", "--limit", "0", scope="read")
    assert [one["action"] for one in trail["items"]] == [
        "sessions.revoke",
        "sessions.revoke",
        "config.rollback",
        "config.write",
        "config.write",
    ]
    shown = await ctl("audit", "--action", "config.rollback", scope="read")
    assert "revision 3, the table of revision 1" in shown.stdout


async def test_a_push_that_waits_returns_when_two_real_gateways_serve_it(
    url: str, server: Postgres, data_plane: State, children: Children, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    for file, name in ((first, "a"), (second, "b")):
        file.write_text(json.dumps({"version": 2, "routes": [route(name, f"/{name}/")]}))
    for name in ("one", "two"):
        child = children.start_python(
            "-m",
            "dataplane.cli",
            "run",
            name=f"gateway {name}",
            env={
                "PATH": os.environ["PATH"],
                "GATEWAY_HOST": "127.0.0.1",
                "GATEWAY_PORT": str(port := free_port()),
                "GATEWAY_CONFIG": str(first),
                "GATEWAY_CONFIG_SOURCE": "store",
                "GATEWAY_PUBLIC_URL": "http://app.test",
                "GATEWAY_STATE_URL": server.data_url,
                "GATEWAY_STATE_TIMEOUT_MS": "5000",
                "GATEWAY_REPLICA_ID": name,
            },
        )
        child.wait_for_port(port, within_s=60)
    async with asyncio.timeout(60):
        while len(await data_plane.list_heartbeats()) < 2:
            await asyncio.sleep(0.02)
    push = ("config", "push", "--yes", "--wait", "--timeout", "60")
    told = await gatewayctl(*push, str(first), url=url, token=TOKENS["config"])
    assert told.exit_code == 0, told
    assert told.stderr.splitlines()[-1] == "2 of 2 replicas serve revision 1"
    again = await gatewayctl(*push, str(second), "--json", url=url, token=TOKENS["config"])
    assert again.exit_code == 0, again
    assert [(one["replica"], one["revision"], one["behind"]) for one in again.value["replicas"]] == [
        ("one", 2, 0),
        ("two", 2, 0),
    ]


async def test_of_many_that_write_over_one_revision_one_wins(url: str, tmp_path: Path) -> None:
    files = []
    for number in range(4):
        files.append(tmp_path / f"{number}.json")
        files[-1].write_text(json.dumps(route_table(f"r{number}")))
    argv = ("-m", "controlplane.ctl", "config", "push")
    with Children() as programs:
        env = {
            "PATH": os.environ["PATH"],
            "GATEWAYCTL_URL": url,
            "GATEWAYCTL_TOKEN": TOKENS["config"],
        }
        running = [programs.start_python(*argv, str(file), "--yes", "--json", env=env) for file in files]
        codes = [await asyncio.to_thread(child.wait, within_s=120) for child in running]
    assert set(codes) <= {0, 3}
    history = await gatewayctl("config", "history", "--json", url=url, token=TOKENS["read"])
    numbers = [one["revision"] for one in history.value["items"]]
    assert numbers == list(range(codes.count(0), 0, -1))
    trail = await gatewayctl("audit", "--json", url=url, token=TOKENS["read"])
    assert len(trail.value["items"]) == codes.count(0)
