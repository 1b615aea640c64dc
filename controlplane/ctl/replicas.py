"""`gatewayctl replicas`: which gateways are alive, and what they serve."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

from controlplane.ctl.command import Command, Json, running

if TYPE_CHECKING:
    from controlplane.ctl.client import Record

HELP = """List the gateways that are alive, and the revision that each serves.

\b
Examples:
  gatewayctl replicas
  gatewayctl replicas --json

A gateway that is gone disappears within seconds. One that is behind and refused a revision says why.
"""

POLL_S = 0.5

now_s = time.monotonic
pause = time.sleep


def register(app: typer.Typer) -> None:
    @app.command("replicas", help=HELP)
    def replicas(context: typer.Context, as_json: Json = False) -> None:
        with running(context, as_json=as_json) as command:
            show_replicas(command)


def show_replicas(command: Command) -> None:
    """Print the replicas."""
    from controlplane.ctl.client import records
    from controlplane.ctl.screen import moment, plain
    from controlplane.ctl.tables import Column

    answer = command.api.get("/v1/replicas").value
    if command.screen.as_json:
        command.screen.json(answer)
        return
    items = records(answer["items"])
    if not items:
        command.screen.line(
            "No replica is alive, or none reads its table from the store (GATEWAY_CONFIG_SOURCE=store)."
        )
        return
    columns = (
        Column("REPLICA", shortest=8),
        Column("REVISION", right=True),
        Column("BEHIND", right=True),
        Column("SEEN"),
        Column("LAST ERROR", shortest=16),
    )
    rows = [
        [
            plain(item["replica"]),
            plain(item["revision"]),
            plain(item["behind"] or "", "yellow"),
            plain(moment(item["time"])),
            plain(item["lastError"] or "", "red"),
        ]
        for item in items
    ]
    command.screen.table(columns, rows)


def wait_for_replicas(command: Command, revision: int, wait_s: float) -> list[Record]:
    """The live replicas, once each serves the revision or a later one. Raises `NotServed` when that takes
    longer than `wait_s`.
    """
    from controlplane.ctl.failures import NotServed

    deadline = now_s() + wait_s
    told = ""
    with command.screen.progress() as show:
        while True:
            items, trouble = _seen(command)
            behind = [item for item in items if item["revision"] < revision]
            state = trouble or f"{len(items) - len(behind)} of {len(items)} replicas serve revision {revision}"
            if state != told:
                show(state)
                told = state
            if items and not behind:
                return items
            if now_s() >= deadline:
                raise NotServed(revision, wait_s, items, behind, trouble)
            pause(POLL_S)


def _seen(command: Command) -> tuple[list[Record], str]:
    """The live replicas, and why they cannot be seen: the revision is published, so that is waited out too."""
    from controlplane.ctl.client import records
    from controlplane.ctl.failures import Refused, Unreached

    try:
        return records(command.api.get("/v1/replicas").value["items"]), ""
    except (Refused, Unreached) as failure:
        return [], str(failure)
