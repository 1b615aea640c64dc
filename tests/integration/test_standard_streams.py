"""Programs whose standard streams are closed, full, or hold what is no text."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.gateway import route, table
from tests.support.gateway_processes import inherited
from tests.support.ports import free_port
from tests.support.processes import Children

ROOT = Path(__file__).parents[2]
GATEWAY = "-m dataplane.cli"


@pytest.fixture
def routes(tmp_path: Path) -> Path:
    file = tmp_path / "routes.json"
    file.write_text(json.dumps(table(route("http://127.0.0.1:9"))))
    return file


def shell(line: str, **env: str) -> subprocess.CompletedProcess[str]:
    """What a command line of a shell prints, and its exit code."""
    return subprocess.run(
        ["bash", "-c", line.replace("python", sys.executable)],
        capture_output=True,
        env={**inherited(), "PYTHONPATH": str(ROOT), **env},
        cwd=ROOT,
        text=True,
        errors="surrogateescape",
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_a_gateway_whose_streams_were_closed_before_it_began_drains_as_any_other(
    children: Children, routes: Path, closed: str
) -> None:
    """Its event loop would have their numbers else, and ends the process when it closes one of them."""
    environment = {"GATEWAY_HOST": "127.0.0.1", "GATEWAY_PORT": "0", "GATEWAY_CONFIG": str(routes)}
    child = children.start(
        ["bash", "-c", f"exec {sys.executable} {GATEWAY} run {closed}"],
        env={**inherited(), **environment},
        cwd=ROOT,
    )
    child.wait_for_line('"msg":"listening"')
    child.send(signal.SIGTERM)
    assert child.wait() == 0
    assert '"msg":"stopped"' in child.output


def test_a_gateway_without_an_output_serves(children: Children, routes: Path) -> None:
    port = free_port()
    environment = {"GATEWAY_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "GATEWAY_CONFIG": str(routes)}
    child = children.start(
        ["bash", "-c", f"exec {sys.executable} {GATEWAY} run >&-"], env={**inherited(), **environment}, cwd=ROOT
    )
    child.wait_for_port(port)
    child.send(signal.SIGTERM)
    assert child.wait() == 0


@pytest.mark.parametrize(("where", "why"), [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")])
@pytest.mark.parametrize(
    "command", ["identity-key", "identity-key --json", "check {routes}", "check --json {routes}", "--help"]
)
def test_output_that_cannot_be_written_is_a_failure_and_one_line(
    routes: Path, command: str, where: str, why: str
) -> None:
    ended = shell(f"python {GATEWAY} {command.format(routes=routes)} {where}")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"gateway: The output cannot be written: {why}.\n"


def test_a_reader_that_goes_away_hears_nothing(routes: Path) -> None:
    ended = shell(f"python {GATEWAY} check {routes} | true")
    assert ended.stderr == ""


def test_a_key_that_is_no_text_is_told_and_not_shown() -> None:
    ended = shell(f"GATEWAY_IDENTITY_SIGNING_KEY=$'hush\\xff' python {GATEWAY} identity-key --public")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert re.fullmatch("gateway identity-key: .* not a PEM .*\n", ended.stderr)


def test_an_argument_of_gatewayctl_that_is_no_text_is_wrong_usage() -> None:
    ended = shell(
        "python -m controlplane.ctl sessions list --subject $'\\xff'",
        GATEWAYCTL_URL="http://127.0.0.1:9",
        GATEWAYCTL_TOKEN="operate-token-0123456789abcdefghijk",
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "gatewayctl: An argument is not text in UTF-8.\n"


@pytest.mark.parametrize("command", ["check", "explain"])
def test_the_name_of_a_file_steers_no_terminal(tmp_path: Path, command: str) -> None:
    """It may be somebody else's, as in a shell's loop over a folder."""
    for content in (None, "{}"):
        file = tmp_path / "a\x1b[2J\nb.json"
        if content is not None:
            file.write_text(content)
        ended = subprocess.run(
            [sys.executable, *GATEWAY.split(), command, str(file), *(["GET", "/"] if command == "explain" else [])],
            capture_output=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            timeout=60,
            check=False,
        )
        assert ended.returncode != 0
        assert b"\x1b" not in ended.stdout + ended.stderr
        assert rb"a\x1b[2J\nb.json" in ended.stdout + ended.stderr
