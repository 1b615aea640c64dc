"""`gateway dev`: everything on this machine, for a person to try."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dataplane.dev.stack import Demo

HELP = """Run the gateway with all that it stands between, on loopback, and print what to open and what to try.

A development identity provider with two demo accounts, the reference Access service and a sample upstream run in the
same process. Nothing is installed, and nothing outlives it. Refuses to run where GATEWAY_ENV is not development.

\b
Examples:
  gateway dev
  gateway dev --port 9000
  gateway dev --json
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""

    @app.command("dev", help=HELP)
    def dev(
        port: Annotated[
            int | None,
            typer.Option(
                min=1, max=65_535, help="The gateway's port; without it 8080, or any free one.", show_default=False
            ),
        ] = None,
        as_json: Annotated[bool, typer.Option("--json", help="Print the addresses as one JSON object.")] = False,
    ) -> None:
        # What this brings in is large, and no other command needs it.
        from dataplane.dev.run import run
        from dataplane.dev.stack import NotForProduction, PortTaken

        try:
            run(port, os.environ, _announce_json if as_json else _announce)
        except NotForProduction:
            typer.echo(
                "gateway dev: GATEWAY_ENV is not development. The demo lets anyone in who can reach it; "
                "unset GATEWAY_ENV here, or use `gateway run`.",
                err=True,
            )
            raise typer.Exit(1) from None
        except PortTaken:
            typer.echo(
                f"gateway dev: port {port} is in use. Name another with --port, or leave --port out for a free one.",
                err=True,
            )
            raise typer.Exit(1) from None


def _announce(demo: Demo) -> None:
    from dataplane.dev.announce import for_people

    typer.echo(for_people(demo))


def _announce_json(demo: Demo) -> None:
    import orjson

    from dataplane.dev.announce import for_programs

    typer.echo(orjson.dumps(for_programs(demo)))
