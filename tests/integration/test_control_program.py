"""`gateway-control` as a program: it listens, answers, drains, and says what is wrong before it listens."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import httpx

from tests.support.control import TOKENS, route_table, token_map
from tests.support.ports import closed_port
from tests.support.processes import Child, Children


def start(children: Children, *arguments: str, **environment: str) -> Child:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    given = {f"GATEWAY_{name}": value for name, value in environment.items()}
    return children.start_python(
        "-c",
        "from controlplane.cli import main; main()",
        *arguments,
        name="gateway-control",
        env={**kept, "COLUMNS": "200", **given},
    )


def serve(children: Children, **environment: str) -> tuple[Child, httpx.Client]:
    base = {"CONTROL_TOKENS": token_map(), "CONTROL_STATE_URL": "memory://local", "CONTROL_PORT": "0"}
    child = start(children, **{**base, **environment})
    port = child.wait_for_line(r'"msg":"listening".*"port":(\d+)', within_s=60)[1]
    headers = {"authorization": f"Bearer {TOKENS['config']}"}
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, trust_env=False, timeout=30)
    return child, client


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
    child = start(children, CONTROL_TOKENS='{"short": {}}', CONTROL_PORT="x", CONTRL_HOST="y")
    assert child.wait(within_s=60) == 1
    for name in ("CONTROL_TOKENS", "CONTROL_PORT", "CONTROL_STATE_URL", "CONTRL_HOST"):
        assert f"gateway-control: GATEWAY_{name}: " in child.output
    assert "short" not in child.output


def test_a_taken_address_ends_it_with_1_and_what_to_do(children: Children) -> None:
    _, client = serve(children)
    second = start(
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
