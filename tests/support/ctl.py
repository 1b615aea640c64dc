"""`gatewayctl` in the test's own process, beside the servers of the test's loop."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

from controlplane.ctl.app import build
from dataplane.dev.servers import loopback_socket, origin_of, serving
from tests.support.control import TOKENS, Control

COMMANDS = (
    "config get",
    "config diff",
    "config push",
    "config rollback",
    "config history",
    "replicas",
    "sessions list",
    "sessions revoke",
    "audit",
)
"""Every command."""

TOKEN = "a-token-that-no-other-test-has"


def help_of(command: str) -> str:
    """What `--help` prints of a command."""
    result = CliRunner().invoke(build(), [*command.split(), "--help"])
    assert result.exit_code == 0
    return result.stdout


def examples_of(command: str) -> list[list[str]]:
    """The calls of `gatewayctl` that a command's help shows, as their words."""
    block = re.split(r"\n\s*\n", help_of(command).partition("Examples:\n")[2])[0]
    calls = [line.partition("gatewayctl ")[2].partition(" >")[0].partition("   ")[0] for line in block.splitlines()]
    return [shlex.split(call) for call in calls if call]


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that ended."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def value(self) -> Any:
        """Standard output as the one JSON document that it is."""
        return json.loads(self.stdout)

    @property
    def failure(self) -> Any:
        """Standard error as the one JSON document that it is; asserts that nothing else was said."""
        assert self.stdout == ""
        return json.loads(self.stderr)


async def gatewayctl(
    *arguments: str, url: str = "", token: str = TOKEN, stdin: bytes | None = None, **environ: str
) -> Ended:
    """Run a command to its end, without a terminal. `environ` adds to the two variables that each needs."""
    given = {"GATEWAYCTL_URL": url, "GATEWAYCTL_TOKEN": token, "NO_COLOR": "", "GATEWAYCTL_CA": "", **environ}
    result = await asyncio.to_thread(CliRunner().invoke, build(), list(arguments), input=stdin, env=given)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ended(result.exit_code, result.stdout, result.stderr)


@asynccontextmanager
async def served(control: Control) -> AsyncIterator[Operator]:
    """The control plane on a port of its own, and its operator."""
    sock = loopback_socket()
    async with serving(control.plane.app, sock):
        yield Operator(control, origin_of(sock))


@dataclass(frozen=True, slots=True)
class Operator:
    """Calls `gatewayctl` for one control plane."""

    control: Control
    url: str

    async def run(self, *arguments: str, token: str = "config", **more: Any) -> Ended:
        """A command with the token of a scope."""
        return await gatewayctl(*arguments, url=self.url, token=TOKENS.get(token, token), **more)

    async def active(self) -> int:
        """The active revision."""
        return (await self.control.state.read_table()).revision
