"""`gateway-control` as a program: it listens, answers, drains, and says what is wrong before it listens."""

from __future__ import annotations

import asyncio
import json
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tests.support.control import TOKENS, route_table, token_map
from tests.support.control_processes import control_client, serve_control, start_control
from tests.support.ports import closed_port
from tests.support.postgres import Postgres
from tests.support.processes import Child, Children, eventually
from tests.support.shared_store import Store


def serve(children: Children, **environment: str) -> tuple[Child, httpx.Client]:
    child, origin = serve_control(children, **environment)
    return child, control_client(origin)


def test_it_serves_writes_and_ends_with_0(children: Children, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    tokens.write_text(token_map())
    child, client = serve(children, CONTROL_TOKENS="", CONTROL_TOKENS_FILE=str(tokens))
    with client:
        assert client.get("/readyz").json()["status"] == "ready"
        written = client.put("/v1/config", json=route_table(), headers={"if-match": '"0"'})
        assert (written.status_code, written.headers["location"]) == (201, "/v1/config/revisions/1")
        assert "server" not in written.headers
        assert client.get(written.headers["location"]).json()["operator"] == "config-operator"
    child.send(signal.SIGTERM)
    assert child.wait(within_s=30) == 0
    lines = [json.loads(line) for line in child.lines]
    assert [line["msg"] for line in lines][-1] == "stopped"
    assert any(line.get("operator") == "config-operator" and line.get("status") == 201 for line in lines)
    assert not any(token in child.output for token in TOKENS.values())


def test_wrong_settings_end_it_with_1_and_every_problem(children: Children) -> None:
    child = start_control(children, CONTROL_TOKENS='{"short": {}}', CONTROL_PORT="x", CONTRL_HOST="y")
    assert child.wait(within_s=60) == 1
    for name in ("CONTROL_TOKENS", "CONTROL_PORT", "CONTROL_STATE_URL", "CONTRL_HOST"):
        assert f"gateway-control: GATEWAY_{name}: " in child.output
    assert "short" not in child.output


def test_a_taken_address_ends_it_with_1_and_what_to_do(children: Children) -> None:
    _, client = serve(children)
    second = start_control(
        children,
        "serve",
        CONTROL_TOKENS=token_map(),
        CONTROL_STATE_URL="memory://local",
        CONTROL_PORT=str(client.base_url.port),
    )
    client.close()
    assert second.wait(within_s=60) == 1
    assert "cannot listen: free the address or set GATEWAY_CONTROL_HOST" in second.output


def test_a_state_that_is_away_at_the_start_is_503_and_no_end(children: Children) -> None:
    child, client = serve(children, CONTROL_STATE_URL=f"redis://:a-password@127.0.0.1:{closed_port()}/0")
    with client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").json() == {"status": "not_ready", "state": {"up": False, "backend": "redis"}}
        assert client.get("/v1/config").json()["error"] == "state_unavailable"
    assert "a-password" not in child.output


def test_a_write_that_waits_for_replicas_is_answered_when_the_process_ends(children: Children, store: Store) -> None:
    """The write has happened: a drain must not turn it into an error."""
    child, origin = serve_control(children, CONTROL_STATE_URL=store.control_url)
    with control_client(origin) as client, ThreadPoolExecutor(1) as thread:
        asyncio.run(_beat(store))
        put = thread.submit(
            client.put, "/v1/config?wait=replicas&timeoutMs=30000", json=route_table(), headers={"if-match": '"0"'}
        )
        eventually(lambda: client.get("/v1/config").status_code == 200, within_s=30)
        child.send(signal.SIGTERM)
        answer = put.result(timeout=25)
        assert answer.status_code == 201
        assert answer.json()["replicas"]["converged"] is False
    assert child.wait(within_s=30) == 0


async def _beat(store: Store) -> None:
    """A replica that serves nothing, and will be remembered for the length of the test."""
    state = await store.control()
    await state.beat("silent", 0, "", 600_000)
    await state.close()


def test_a_state_that_comes_late_or_goes_away_is_503_until_it_is_there(children: Children, store: Store) -> None:
    def stop() -> None:
        (store.server if isinstance(store.server, Postgres) else store.server.child).stop()

    stop()
    child, origin = serve_control(children, CONTROL_STATE_URL=store.control_url)

    def status(path: str) -> int:
        return client.get(path).status_code

    with control_client(origin) as client:
        assert [status(path) for path in ("/healthz", "/readyz", "/v1/config")] == [200, 503, 503]
        for _ in range(2):
            store.server.restart()
            eventually(lambda: status("/readyz") == 200, within_s=60)
            assert eventually(lambda: status("/v1/config") in {200, 404}, within_s=60)
            stop()
            eventually(lambda: status("/readyz") == 503, within_s=60)
            refused = client.put("/v1/config", json=route_table(), headers={"if-match": '"0"'})
            assert (refused.status_code, refused.json()["error"]) == (503, "state_unavailable")
    child.send(signal.SIGTERM)
    assert child.wait(within_s=30) == 0
    told = [json.loads(line)["msg"] for line in child.lines if "the shared state on" in line]
    assert len(told) == 5, told
