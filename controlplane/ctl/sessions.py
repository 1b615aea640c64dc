"""`gatewayctl sessions`: who is signed in, and ending it."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from controlplane.ctl.command import Command, Json, Limit, Yes, running

GROUP = "Sessions of signed-in people: list, revoke."

LIST = """List live sessions, of one subject or of all.

\b
Examples:
  gatewayctl sessions list --subject alice@example.test
  gatewayctl sessions list --limit 500 --json

A handle names a session and opens nothing: it is no part of the cookie.
"""

REVOKE = """End every session of a subject, or the one of a handle.

\b
Examples:
  gatewayctl sessions revoke --subject alice@example.test
  gatewayctl sessions revoke 1f2e3d4c5b6a7988 --yes

Replicas refuse a revoked session at once, open WebSockets within their revalidation interval. A bearer token is no
session: it is good until it expires. The exit code is 1 for a handle that names no session, 3 for one that names two.
"""

HANDLE = re.compile(r"[0-9a-f]{16}")

Subject = Annotated[str | None, typer.Option("--subject", metavar="S", help="The provider's `sub` of the person.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help=GROUP, no_args_is_help=True)
    app.add_typer(group, name="sessions")

    @group.command("list", help=LIST)
    def list_(context: typer.Context, subject: Subject = None, limit: Limit = 100, as_json: Json = False) -> None:
        with running(context, as_json=as_json) as command:
            show_sessions(command, subject, limit)

    @group.command("revoke", help=REVOKE)
    def revoke(
        context: typer.Context,
        handle: Annotated[str | None, typer.Argument(metavar="[HANDLE]", help="A session's handle.")] = None,
        subject: Subject = None,
        yes: Yes = False,
        as_json: Json = False,
    ) -> None:
        with running(context, as_json=as_json) as command:
            revoke_sessions(command, handle, subject, yes=yes)


def show_sessions(command: Command, subject: str | None, limit: int) -> None:
    """Print sessions."""
    from controlplane.ctl.screen import moment
    from controlplane.ctl.tables import Column

    items, more = command.api.pages("/v1/sessions", {"subject": subject}, limit)
    if command.screen.as_json:
        command.screen.json({"items": items, "more": more})
        return
    if not items:
        command.screen.line(f"No session of {subject} is live." if subject else "No session is live.")
        return
    columns = (
        Column("HANDLE"),
        Column("SUBJECT", shortest=8),
        Column("EMAIL", shortest=8),
        Column("CREATED"),
        Column("EXPIRES"),
    )
    rows = [
        [item["handle"], item["subject"], item["email"] or "", moment(item["createdAt"]), moment(item["expiresAt"])]
        for item in items
    ]
    command.screen.table(columns, rows)
    if more:
        command.screen.note("There are more: raise --limit, or list all with --limit 0.")


def revoke_sessions(command: Command, handle: str | None, subject: str | None, *, yes: bool) -> None:
    """End sessions; how many is printed."""
    from controlplane.ctl.failures import WrongUsage

    if (handle is None) == (subject is None):
        raise WrongUsage("Name a HANDLE or a --subject, and not both.")
    if handle is not None and HANDLE.fullmatch(handle) is None:
        raise WrongUsage("A handle is 16 hexadecimal characters, as `gatewayctl sessions list` shows them.")
    if handle is not None:
        if not yes:
            command.confirm(f"Revoke the session {handle}?")
        answer = command.api.change("DELETE", f"/v1/sessions/{handle}").value
    else:
        if not yes:
            command.confirm(f"Revoke {_counted(command, subject)} of {subject}?")
        answer = command.api.change("DELETE", "/v1/sessions", query={"subject": subject}).value
    _tell(command, answer)


def _counted(command: Command, subject: str | None) -> str:
    items, more = command.api.pages("/v1/sessions", {"subject": subject}, 1_000)
    count = f"{len(items)}{' or more' if more else ''}"
    return f"{count} session{'' if count == '1' else 's'}"


def _tell(command: Command, answer: dict[str, Any]) -> None:
    if command.screen.as_json:
        command.screen.json(answer)
        return
    count = int(answer["revoked"])
    command.screen.line(f"{count} session{'' if count == 1 else 's'} revoked.")
