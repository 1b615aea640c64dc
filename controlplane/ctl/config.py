"""`gatewayctl config`: read, compare, publish and take back the route table."""

from __future__ import annotations

from typing import Annotated

import typer

from controlplane.ctl.command import Json, Limit, Yes, running

GROUP = "The route table: read, compare, publish, take back."

GET = """Print the active route table, or a revision's.

\b
Examples:
  gatewayctl config get > routes.json
  gatewayctl config get --revision 7
  gatewayctl config get --json

The table is printed as it was written. Credentials that a version 1 table carries in upstream URLs are masked, and must
be written again before such a table is pushed. With --json it is {"revision": …, "table": …}.
"""

DIFF = """Show what differs between two revisions, or what FILE would change.

\b
Examples:
  gatewayctl config diff                        what the newest revision changed
  gatewayctl config diff routes.json            what this file would change
  gatewayctl config diff --from 3 --to 7
  gatewayctl config diff routes.json --from 3   what it changes of revision 3

What was written is compared: a default that is written out differs from one that is inherited. The order of keys and of
routes means nothing. The exit code is 0 with and without a difference.
"""

PUSH = """Publish FILE as the next revision: validate it, show what it changes, ask, and write.

\b
Examples:
  gatewayctl config push routes.json
  gatewayctl config push routes.json --yes --wait
  jq … routes.json | gatewayctl config push - --yes --json

It is written only if the revision that it was compared with is still the active one; otherwise nothing is written, and
the exit code is 3. A table without a difference is not written again.
"""

ROLLBACK = """Write the table of an earlier revision again, as a new revision.

\b
Examples:
  gatewayctl config rollback 7
  gatewayctl config rollback 7 --yes --wait

Shows what that changes and asks, as `config push` does. No revision is ever removed.
"""

HISTORY = """List the revisions, newest first. The newest is the active one.

\b
Examples:
  gatewayctl config history
  gatewayctl config history --limit 0 --json
"""

File = Annotated[str, typer.Argument(metavar="FILE", help="A route table; - reads standard input.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until every live replica serves the new revision.")]
Patience = Annotated[int, typer.Option("--timeout", min=1, metavar="SECONDS", help="How long --wait waits.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help=GROUP, no_args_is_help=True)
    app.add_typer(group, name="config")
    _register_reading(group)
    _register_writing(group)


def _register_reading(group: typer.Typer) -> None:
    @group.command("get", help=GET)
    def get(
        context: typer.Context,
        revision: Annotated[
            int | None, typer.Option(min=1, metavar="N", help="Which one; without it the active.")
        ] = None,
        as_json: Json = False,
    ) -> None:
        from controlplane.ctl.compare import show_table

        with running(context, as_json=as_json) as command:
            show_table(command, revision)

    @group.command("diff", help=DIFF)
    def diff(
        context: typer.Context,
        file: Annotated[
            str | None, typer.Argument(metavar="[FILE]", help="A route table; - reads standard input.")
        ] = None,
        from_: Annotated[int | None, typer.Option("--from", min=1, metavar="N", help="The revision before.")] = None,
        to: Annotated[int | None, typer.Option(min=1, metavar="M", help="The revision after.")] = None,
        as_json: Json = False,
    ) -> None:
        from controlplane.ctl.compare import show_difference

        with running(context, as_json=as_json) as command:
            show_difference(command, file, from_, to)

    @group.command("history", help=HISTORY)
    def history(context: typer.Context, limit: Limit = 20, as_json: Json = False) -> None:
        from controlplane.ctl.compare import show_history

        with running(context, as_json=as_json) as command:
            show_history(command, limit)


def _register_writing(group: typer.Typer) -> None:
    @group.command("push", help=PUSH)
    def push(
        context: typer.Context,
        file: File,
        yes: Yes = False,
        wait: Wait = False,
        timeout: Patience = 30,
        as_json: Json = False,
    ) -> None:
        from controlplane.ctl.publish import push_file

        with running(context, as_json=as_json) as command:
            push_file(command, file, yes=yes, wait_s=timeout if wait else None)

    @group.command("rollback", help=ROLLBACK)
    def rollback(
        context: typer.Context,
        revision: Annotated[int, typer.Argument(min=1, metavar="N", help="The revision whose table is wanted again.")],
        yes: Yes = False,
        wait: Wait = False,
        timeout: Patience = 30,
        as_json: Json = False,
    ) -> None:
        from controlplane.ctl.publish import roll_back

        with running(context, as_json=as_json) as command:
            roll_back(command, revision, yes=yes, wait_s=timeout if wait else None)
