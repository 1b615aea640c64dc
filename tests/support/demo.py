"""`gateway dev` as a person starts it: a process of its own, known by what it prints."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.ports import free_port
from tests.support.processes import Child, Children

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class RunningDemo:
    """A running demo and where its parts are; `trials` are its commands with `shows`, `command` and `status`."""

    child: Child
    gateway: str
    provider: str
    upstream: str
    workspace: str
    table: Path
    log: Path
    control: str
    control_tokens: dict[str, str]
    trials: list[dict[str, Any]]

    @property
    def workspace_url(self) -> str:
        """The page that one account may see and the other may not."""
        return f"{self.gateway}/workspaces/{self.workspace}"


def gateway_command(children: Children, *arguments: str, **environment: str) -> Child:
    """Start the program `gateway` with `arguments`; no `GATEWAY_*` variable of this process reaches it."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
    env = {**inherited, "PYTHONUNBUFFERED": "1", **environment}
    return children.start_python("-m", "dataplane.cli", *arguments, name="gateway", env=env, cwd=ROOT)


def start_demo(children: Children) -> RunningDemo:
    """Start `gateway dev` on a free port; returns once it said what to open."""
    child = gateway_command(children, "dev", "--json", "--port", str(free_port()))
    told = json.loads(child.wait_for_line(r"^\{.*\}$", within_s=30)[0])
    return RunningDemo(
        child=child,
        gateway=told["gateway"],
        provider=told["provider"],
        upstream=told["upstream"],
        workspace=told["workspace"],
        table=Path(told["table"]),
        log=Path(told["log"]),
        control=told["control"],
        control_tokens=told["controlTokens"],
        trials=told["trials"],
    )
