"""`gatewayctl audit`: who did what, and when."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from controlplane.ctl.command import Command, Json, Limit, running

HELP = """List what was done through the control plane, newest first.

\b
Examples:
  gatewayctl audit --since 2h
  gatewayctl audit --action config.write --operator alice
  gatewayctl audit --since 2026-01-31 --until 2026-02-01T06:00:00Z --limit 0 --json

Actions: config.write, config.rollback, sessions.revoke, decisions.drop. A time is 90s, 30m, 2h or 7d before now, a
date, or a date and time; without an offset it is UTC.
"""

_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DIGITS_MAX = 9


def register(app: typer.Typer) -> None:
    @app.command("audit", help=HELP)
    def audit(
        context: typer.Context,
        action: Annotated[str | None, typer.Option(metavar="A", help="Only this action.")] = None,
        operator: Annotated[str | None, typer.Option(metavar="O", help="Only what this operator did.")] = None,
        since: Annotated[str | None, typer.Option(metavar="T", help="Not before this time.")] = None,
        until: Annotated[str | None, typer.Option(metavar="T", help="Before this time.")] = None,
        limit: Limit = 50,
        as_json: Json = False,
    ) -> None:
        with running(context, as_json=as_json) as command:
            show_audit(command, action, operator, since, until, limit)


def show_audit(
    command: Command, action: str | None, operator: str | None, since: str | None, until: str | None, limit: int
) -> None:
    """Print entries of the trail."""
    from controlplane.ctl.screen import moment
    from controlplane.ctl.tables import Column

    now_s = time.time()
    query = {
        "action": action,
        "operator": operator,
        "from": None if since is None else point_in_time(since, now_s),
        "to": None if until is None else point_in_time(until, now_s),
    }
    items, more = command.api.pages("/v1/audit", query, limit)
    if command.screen.as_json:
        command.screen.json({"items": items, "more": more})
        return
    columns = (
        Column("TIME"),
        Column("OPERATOR", shortest=8),
        Column("ACTION"),
        Column("TARGET", shortest=12),
        Column("CLIENT", shortest=8),
    )
    rows = [[moment(item["time"]), item["operator"], item["action"], item["target"], item["client"]] for item in items]
    command.screen.table(columns, rows)
    if more:
        command.screen.note("There are more: raise --limit, or list all with --limit 0.")


def point_in_time(text: str, now_s: float) -> str:
    """A time as a person writes it, as RFC 3339 in UTC. Raises `WrongUsage`."""
    from controlplane.ctl.failures import WrongUsage

    number, unit = text[:-1], text[-1:]
    try:
        if number.isascii() and number.isdigit() and len(number) <= _DIGITS_MAX and unit in _UNITS_S:
            found = datetime.fromtimestamp(max(now_s - int(number) * _UNITS_S[unit], 0), UTC)
        else:
            found = datetime.fromisoformat(text)
            found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise WrongUsage(f"{text} is no time: write 30m, 2h, 7d, 2026-01-31 or 2026-01-31T12:00:00Z.") from None
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")
