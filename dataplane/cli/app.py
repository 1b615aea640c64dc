"""The program `gateway`: its commands, and what is common to all of them."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from dataplane.cli import certificates, check, dev, explain, identity_key, run, sessions

HELP = """An identity-aware HTTP gateway: it authenticates callers, asks Access, and forwards with a signed identity.

\b
Examples:
  gateway dev                     try everything on this machine
  gateway check routes.json       validate a route table
  gateway run                     serve, configured by GATEWAY_* variables

`gateway COMMAND --help` shows the examples of a command. Exit codes: 0 done, 1 refused or failed, 2 wrong usage.
"""


def build() -> typer.Typer:
    """The application with every command."""
    # A traceback with local variables would print secrets.
    app = typer.Typer(
        name="gateway",
        help=HELP,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_show_locals=False,
    )

    @app.callback()
    def common(
        _: Annotated[
            bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
        ] = False,
    ) -> None:
        """Options before the command."""

    run.register(app)
    dev.register(app)
    check.register(app)
    explain.register(app)
    identity_key.register(app, os.environ)
    sessions.register(app)
    certificates.register(app)
    return app


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        number = version("wicketgate")
    except PackageNotFoundError:
        number = "unknown: not installed as a package"
    typer.echo(f"wicketgate {number}")
    raise typer.Exit
