"""`gateway dev` as a program: what it prints works as printed, it ends cleanly, and it never runs in production."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.counterparts import require_program
from tests.support.demo import RunningDemo, gateway_command, start_demo
from tests.support.ports import bound_socket, free_port, port_of
from tests.support.processes import Children, eventually

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def demo() -> Iterator[RunningDemo]:
    with Children() as children:
        yield start_demo(children)


def _sh(command: str) -> str:
    require_program("curl")
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=30, check=True).stdout


def _with_token(demo: RunningDemo, account: str) -> dict[str, str]:
    token = httpx.post(f"{demo.provider}/dev/token", data={"account": account}).text
    return {"authorization": f"Bearer {token}"}


def test_every_printed_command_answers_as_it_says(children: Children) -> None:
    """The commands are read from the announcement for people and run by a shell, character by character."""
    port = free_port()
    child = gateway_command(children, "dev", "--port", str(port))
    child.wait_for_line("Ctrl-C ends it", within_s=30)
    lines = child.lines
    promised = [
        (int(match[1]), lines[at + 1].strip())
        for at, line in enumerate(lines)
        if (match := re.fullmatch(r"  # .* \((\d{3})\)", line)) is not None
    ]
    assert len(promised) >= 7
    for status, command in promised:
        answer = _sh(command)
        assert answer.startswith(f"HTTP/1.1 {status} "), f"{command}\n{answer}"
    assert f"http://localhost:{port}/" in child.output


def test_the_commands_show_what_they_say(demo: RunningDemo) -> None:
    shown: dict[str, str] = {trial["shows"]: _sh(trial["command"]) for trial in demo.trials}
    member = json.loads(shown["A member's bearer token"].rpartition("\n\n")[2])
    assert (member["identity"]["signature"], member["identity"]["subject"]) == ("verified", "demo-member")
    forged = json.loads(shown["A forged identity header never passes"].rpartition("\n\n")[2])
    assert "root" not in json.dumps(forged)
    assert shown["Five events, as they happen"].count("event: tick") == 5
    assert "workspace_forbidden" in shown["Access refuses the guest"]
    assert 'gateway_requests_total{method="GET",route="api",status="200"}' in shown["What it counted"] or re.search(
        r"gateway_requests_total\{[^}]*route=\"api\"", shown["What it counted"]
    )


def test_a_table_that_is_published_serves_in_place_of_the_file(children: Children) -> None:
    """The whole way of an operator: the console's address, a token, a revision, and the gateway that follows it."""
    demo = start_demo(children)
    assert httpx.get(f"{demo.control}/console").status_code == 200
    table = json.loads(demo.table.read_text())
    assert httpx.get(f"{demo.gateway}/api/echo").status_code == 401
    table["routes"] = [route for route in table["routes"] if route["id"] == "api"]
    assert httpx.get(f"{demo.gateway}/").status_code != 404
    read, config = ({"authorization": f"Bearer {demo.control_tokens[scope]}"} for scope in ("read", "config"))
    refused = httpx.put(f"{demo.control}/v1/config", headers=read | {"if-match": '"0"'}, json=table)
    assert refused.status_code == 403
    published = httpx.put(f"{demo.control}/v1/config", headers=config | {"if-match": '"0"'}, json=table)
    assert published.status_code == 201, published.text
    eventually(lambda: httpx.get(f"{demo.gateway}/").status_code == 404)
    told = httpx.get(f"{demo.control}/v1/replicas", headers=read).json()
    assert len(told["items"]) == 1
    log = demo.log.read_text()
    assert not any(token in log for token in demo.control_tokens.values())


def test_the_log_tells_who_was_refused_and_holds_no_credential(demo: RunningDemo) -> None:
    headers = _with_token(demo, "guest")
    with httpx.Client(headers=headers) as http:
        answer = http.get(demo.workspace_url)
    assert answer.status_code == 403
    lines = _log_with(demo, answer.headers["x-request-id"])
    (line,) = [json.loads(one) for one in lines if '"status"' in one]
    assert (line["subject"], line["status"], line["error"]) == ("demo-guest", 403, "workspace_forbidden")
    assert headers["authorization"][7:40] not in demo.log.read_text()


def _log_with(demo: RunningDemo, request_id: str) -> list[str]:
    """The request's lines of the log, which may be written a moment after the answer."""
    return eventually(lambda: [line for line in demo.log.read_text().splitlines() if request_id in line])


def test_a_changed_table_is_served_without_a_restart(demo: RunningDemo) -> None:
    table: dict[str, Any] = json.loads(demo.table.read_text())
    table["routes"].append(
        {"id": "added", "match": {"path": "/api/open"}, "upstream": demo.upstream, "auth": {"mode": "none"}}
    )
    changed = demo.table.with_name("new.json")
    changed.write_text(json.dumps(table))
    changed.replace(demo.table)
    eventually(lambda: httpx.get(f"{demo.gateway}/api/open").status_code != 401)
    assert httpx.get(f"{demo.gateway}/api/open").status_code == 404


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_cleanly_and_leaves_nothing_behind(children: Children, number: signal.Signals) -> None:
    demo = start_demo(children)
    folder = demo.table.parent
    assert folder.is_dir()
    demo.child.send(number)
    assert demo.child.wait(within_s=15) == 0
    assert not folder.exists()
    assert "Traceback" not in demo.child.output


def test_an_open_stream_does_not_hold_the_end_up(children: Children) -> None:
    demo = start_demo(children)
    with httpx.stream("GET", f"{demo.gateway}/events", headers=_with_token(demo, "member")) as stream:
        assert next(stream.iter_text())
        demo.child.interrupt()
        assert demo.child.wait(within_s=15) == 0
    assert "Traceback" not in demo.child.output


@pytest.mark.parametrize("environment", ["production", "Production", "prod"])
def test_it_refuses_to_run_anywhere_but_in_development(children: Children, environment: str) -> None:
    child = gateway_command(children, "dev", "--json", GATEWAY_ENV=environment)
    assert child.wait() == 1
    assert "GATEWAY_ENV" in child.output
    assert "{" not in child.output


def test_a_taken_port_is_named_with_what_to_do(children: Children) -> None:
    with bound_socket() as held:
        held.listen()
        port = port_of(held)
        child = gateway_command(children, "dev", "--port", str(port))
        assert child.wait() == 1
    assert f"port {port} is in use" in child.output
    assert "--port" in child.output


def test_every_part_listens_on_loopback_alone(demo: RunningDemo) -> None:
    listening = Path(f"/proc/{demo.child.pid}/net/tcp").read_text().splitlines()[1:]
    inodes = {
        match[1]
        for link in Path(f"/proc/{demo.child.pid}/fd").iterdir()
        if (match := re.fullmatch(r"socket:\[(\d+)\]", str(link.readlink()))) is not None
    }
    addresses = {
        row.split()[1].partition(":")[0] for row in listening if row.split()[9] in inodes and row.split()[3] == "0A"
    }
    assert addresses == {"0100007F"}


def test_two_runs_share_no_secret(children: Children, demo: RunningDemo) -> None:
    other = start_demo(children)
    answer = httpx.get(f"{other.gateway}/api/echo", headers=_with_token(demo, "member"))
    assert answer.status_code == 401
