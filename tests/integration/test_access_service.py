"""`gateway-access` as a program: served, reloaded, checked by its own conformance run, stopped."""

from __future__ import annotations

import json
import os
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.ports import closed_port
from tests.support.processes import Child, Children

TOKEN = "token-of-the-service-0123456789abcdef"
ALLOWED = "user-1:w-1"
DENIED = "user-2:w-1"


def write_policy(path: Path, *subjects: str) -> None:
    grants = [{"workspace": "w-1", "route": "*", "subjects": list(subjects)}]
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({"version": 1, "grants": grants}))
    fresh.replace(path)


def start(children: Children, *arguments: str | Path, **environment: str) -> Child:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    env = {**kept, "COLUMNS": "200", **environment}
    return children.start_python(
        "-c", "from dataplane.accessservice.cli import main; main()", *arguments, name="gateway-access", env=env
    )


@dataclass
class Running:
    child: Child
    url: str
    policy: Path

    def ask(self, subject: str) -> Any:
        asked = {"subject": subject, "workspaceId": "w-1", "routeId": "r", "roles": []}
        headers = {"authorization": f"Bearer {TOKEN}"}
        response = httpx.post(f"{self.url}/v1/decisions", json=asked, headers=headers, trust_env=False, timeout=15)
        return response.json()["allow"]


@pytest.fixture
def running(children: Children, tmp_path: Path) -> Running:
    policy = tmp_path / "policy.json"
    write_policy(policy, "user-1")
    child = start(children, policy, ACCESS_TOKEN=TOKEN, ACCESS_PORT="0")
    port = child.wait_for_line(r'"msg":"listening".*"port":(\d+)')[1]
    return Running(child, f"http://127.0.0.1:{port}", policy)


def check(children: Children, url: str, *more: str) -> Child:
    return start(children, "--conformance", url, "--allow", ALLOWED, "--deny", DENIED, *more, ACCESS_TOKEN=TOKEN)


def test_the_conformance_program_passes_the_reference_service(children: Children, running: Running) -> None:
    run = check(children, running.url, "--json")
    assert run.wait(within_s=60) == 0, run.output
    report = json.loads(run.output)
    assert report["passed"] is True
    assert {one["id"]: one for one in report["checks"] if one["outcome"] != "passed"} == {}
    assert TOKEN not in run.output + running.child.output


def test_the_conformance_program_fails_what_does_not_hold_and_says_what_to_do(
    children: Children, running: Running
) -> None:
    write_policy(running.policy, "user-1", "user-2")
    running.child.wait_for_line('"msg":"policy taken"')
    run = check(children, running.url)
    assert run.wait(within_s=60) == 1
    assert "--deny must name what the policy denies" in run.output
    assert TOKEN not in run.output


def test_a_service_that_is_not_there_is_1_at_once(children: Children) -> None:
    run = check(children, f"http://127.0.0.1:{closed_port()}")
    assert run.wait(within_s=60) == 1
    assert "start the service" in run.output


def test_a_change_of_the_policy_counts_without_a_restart_and_a_broken_one_changes_nothing(running: Running) -> None:
    assert running.ask("user-1") is True
    running.policy.write_text("{")
    running.child.wait_for_line('"msg":"the policy is invalid')
    assert running.ask("user-1") is True
    write_policy(running.policy, "user-2")
    running.child.wait_for_line('"msg":"policy taken"')
    assert running.ask("user-1") is False
    assert running.ask("user-2") is True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_that_was_asked_for_ends_with_0_and_answers_who_was_being_answered(
    running: Running, number: signal.Signals
) -> None:
    host, port = running.url.removeprefix("http://").split(":")
    body = b'{"subject": "user-1", "workspaceId": "w-1", "routeId": "r", "roles": []}'
    head = (
        f"POST /v1/decisions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {TOKEN}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\nexpect: 100-continue\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=15) as caller:
        caller.sendall(head.encode())
        assert b"100 Continue" in caller.recv(1_000)  # the service waits for the body: the request is in its hands
        running.child.send(number)
        with pytest.raises(OSError):  # noqa: PT012 - until the listener is closed
            while True:
                socket.create_connection((host, int(port)), timeout=15).close()
        caller.sendall(body)
        answer = b""
        while not answer.endswith(b'{"allow":true}'):
            piece = caller.recv(10_000)
            assert piece, answer
            answer += piece
    assert running.child.wait(within_s=30) == 0
    assert running.child.lines[-1].find('"msg":"stopped"') > 0


def test_every_line_of_its_log_is_json_without_the_token(running: Running) -> None:
    running.ask("user-1")
    httpx.post(f"{running.url}/v1/decisions", headers={"authorization": "Bearer MARKER"}, trust_env=False, timeout=15)
    running.child.send(signal.SIGTERM)
    assert running.child.wait(within_s=30) == 0
    lines = [json.loads(line) for line in running.child.lines]
    assert [line["msg"] for line in lines] == ["listening", "decision", "caller refused", "stopped"]
    assert TOKEN not in running.child.output
    assert "MARKER" not in running.child.output


def test_a_policy_that_cannot_be_used_is_1_with_every_problem(children: Children, tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text('{"version": 2, "grants": [{"route": "r"}]}')
    child = start(children, policy, ACCESS_TOKEN=TOKEN, ACCESS_PORT="0")
    assert child.wait() == 1
    assert "version: must be 1" in child.output
    assert "grants[0]: grants nothing to anyone" in child.output
    absent = start(children, tmp_path / "absent.json", ACCESS_TOKEN=TOKEN, ACCESS_PORT="0")
    assert absent.wait() == 1
    assert "absent.json: cannot be read: No such file" in absent.output


def test_a_port_that_is_taken_is_1_and_says_which_variable(children: Children, running: Running) -> None:
    port = running.url.rsplit(":", 1)[1]
    child = start(children, running.policy, ACCESS_TOKEN=TOKEN, ACCESS_PORT=port)
    assert child.wait() == 1
    assert "ACCESS_PORT" in child.output
    assert "Traceback" not in child.output
