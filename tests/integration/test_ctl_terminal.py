"""`gatewayctl` as a program of its own: on a terminal, in a pipe, and interrupted."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.support.control import TOKENS, Control, route_table
from tests.support.ctl import Operator, served
from tests.support.terminal import Terminal, on_terminal
from tests.support.upstreams import never_answers, upstream

ROOT = Path(__file__).parents[2]
PROGRAM = ("-m", "controlplane.ctl")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def environment(url: str, **more: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "GATEWAYCTL_URL": url,
        "GATEWAYCTL_TOKEN": TOKENS["config"],
        **more,
    }


@pytest.fixture
async def operator() -> AsyncIterator[Operator]:
    """Of a control plane with two revisions."""
    async with served(Control()) as found:
        await found.control.put(route_table("a"), 0)
        await found.control.put(route_table("a", "b"), 1)
        yield found


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "routes.json"
    path.write_text(json.dumps(route_table("a", "c")))
    return str(path)


async def talk(
    operator: Operator,
    *arguments: str,
    columns: int = 80,
    person: Callable[[Terminal], None] = lambda _: None,
    **env: str,
) -> tuple[int, str]:
    """Exit code of a command on a terminal, and what was shown there."""

    def run() -> tuple[int, str]:
        with on_terminal([*PROGRAM, *arguments], env=environment(operator.url, **env), columns=columns) as terminal:
            person(terminal)
            return terminal.wait(), terminal.shown

    return await asyncio.to_thread(run)


async def run(operator: Operator, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A command in pipes."""
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, *PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(operator.url, **env),
        stdin=subprocess.DEVNULL,
        check=False,
    )


def answers(text: str) -> Callable[[Terminal], None]:
    def person(terminal: Terminal) -> None:
        terminal.expect("as revision 3 in place of revision 2? [y/N]")
        terminal.type(text)

    return person


async def test_a_push_asks_and_writes_when_a_person_agrees(operator: Operator, table: str) -> None:
    code, shown = await talk(operator, "config", "push", table, person=answers("y\n"))
    assert code == 0
    assert "Revision 3 is published and active." in shown
    assert shown.index('"id": "c"') < shown.index("[y/N]")
    assert await operator.active() == 3


@pytest.mark.parametrize("key", ["n\n", "\n", "\x04", "\x03"])
async def test_a_push_writes_nothing_when_a_person_does_not_agree(operator: Operator, table: str, key: str) -> None:
    code, shown = await talk(operator, "config", "push", table, person=answers(key))
    assert code == 1
    assert "Traceback" not in shown
    assert await operator.active() == 2


async def test_a_terminal_gets_colours_and_nothing_else_does(operator: Operator) -> None:
    arguments = ("config", "diff")
    _, coloured = await talk(operator, *arguments)
    assert "\x1b[32m+" in coloured
    assert "\x1b[36m@@" in coloured
    _, plain = await talk(operator, *arguments, NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", plain)
    for forced in ({}, {"FORCE_COLOR": "1"}):
        piped = await run(operator, *arguments, **forced)
        assert "\x1b" not in piped.stdout + piped.stderr
        assert piped.stdout.splitlines() == [COLOUR.sub("", line) for line in coloured.splitlines()]


async def test_a_table_fits_the_terminal(operator: Operator) -> None:
    for columns in (120, 60, 52):
        _, shown = await talk(operator, "config", "history", columns=columns)
        lines = COLOUR.sub("", shown).splitlines()
        assert len(lines) == 3
        assert all(len(line) <= columns for line in lines)
    _, shown = await talk(operator, "config", "history", columns=30)
    assert "OPERATOR  config-operator" in COLOUR.sub("", shown)


async def test_json_is_plain_on_a_terminal_too(operator: Operator) -> None:
    _, shown = await talk(operator, "config", "history", "--json")
    assert [one["revision"] for one in json.loads(shown)["items"]] == [2, 1]


async def test_a_reader_that_leaves_is_no_failure_to_tell(operator: Operator) -> None:
    for number in range(2, 40):
        await operator.control.put(route_table(*(f"r{number}-{each}" for each in range(200))), number)

    def cut() -> tuple[int, bytes]:
        with subprocess.Popen(
            [sys.executable, *PROGRAM, "config", "diff"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(operator.url),
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            said = process.stderr.read()
            return process.wait(60), said

    code, said = await asyncio.to_thread(cut)
    assert code == 1
    assert said == b""


async def test_an_interrupted_change_says_that_it_may_have_been_made() -> None:
    async with upstream(never_answers) as peer:

        def interrupt() -> tuple[int, bytes]:
            with subprocess.Popen(
                [sys.executable, *PROGRAM, "sessions", "revoke", "0123456789abcdef", "--yes"],
                stderr=subprocess.PIPE,
                env=environment(peer.url),
            ) as process:
                arrived.result(60)
                process.send_signal(signal.SIGINT)
                assert process.stderr is not None
                said = process.stderr.read()
                return process.wait(60), said

        arrived = asyncio.run_coroutine_threadsafe(peer.arrived.wait(), asyncio.get_running_loop())
        code, said = await asyncio.to_thread(interrupt)
    assert code == 1
    assert b"Interrupted. Whether the change was made is not known" in said
    assert b"Traceback" not in said


async def test_the_token_is_in_no_list_of_processes(operator: Operator) -> None:
    """There is no option for it, so no shell history and no other user's `ps` shows one."""
    refused = await run(operator, "--token", "x", "config", "history")
    assert refused.returncode == 2
    helped = await run(operator, "--help")
    assert "--token" not in helped.stdout


async def test_output_that_cannot_be_written_is_a_failure(operator: Operator) -> None:
    def fill(*arguments: str) -> tuple[int, bytes]:
        with Path("/dev/full").open("wb") as full:
            argv = [sys.executable, *PROGRAM, *arguments]
            env = environment(operator.url)
            ended = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, env=env, timeout=60, check=False)
        return ended.returncode, ended.stderr

    for arguments in (("config", "get"), ("config", "history"), ("config", "history", "--json")):
        code, said = await asyncio.to_thread(fill, *arguments)
        assert code == 1
        assert b"The output cannot be written: No space left on device" in said


async def test_a_locale_without_a_character_gets_it_escaped_and_json_stays_json(operator: Operator) -> None:
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    _, shown = await talk(operator, "config", "history", columns=52, **ascii_only)
    assert "\\u2026" in shown
    table = {**route_table("a"), "hosts": ["b\u00fccher.example"]}
    assert (await operator.control.put(table, 2)).status_code == 201
    got = await run(operator, "config", "get", **ascii_only)
    assert json.loads(got.stdout) == table
