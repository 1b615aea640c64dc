"""The program `gatewayctl`: its commands, and what is common to all of them."""

from __future__ import annotations

from typing import Annotated

import typer

from controlplane.ctl import audit, config, replicas, sessions

HELP = """The operator's command line of Wicketgate: the route table, replicas, sessions and the audit trail.

\b
Examples:
  export GATEWAYCTL_URL=https://control.internal:8081
  export GATEWAYCTL_TOKEN_FILE=~/.gateway-token
  gatewayctl config get > routes.json
  gatewayctl config push routes.json
  gatewayctl replicas

\b
Variables:
  GATEWAYCTL_URL          the control plane
  GATEWAYCTL_TOKEN        your token, or in its place
  GATEWAYCTL_TOKEN_FILE   the file that holds it
  GATEWAYCTL_CA           authorities to trust in place of the system's

`gatewayctl COMMAND --help` shows the examples of a command; every command takes --json. Exit codes: 0 done, 1 refused
or failed, 2 wrong usage, 3 conflict.
"""


def build() -> typer.Typer:
    """The application with every command."""
    # A traceback with local variables would print secrets.
    app = typer.Typer(
        name="gatewayctl",
        help=HELP,
        rich_markup_mode=None,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_show_locals=False,
    )

    @app.callback()
    def common(
        context: typer.Context,
        allow_http: Annotated[
            bool, typer.Option("--allow-http", help="Send the token in clear to a host that is not private, too.")
        ] = False,
        _: Annotated[
            bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
        ] = False,
    ) -> None:
        """Options before the command."""
        context.obj = allow_http

    config.register(app)
    replicas.register(app)
    sessions.register(app)
    audit.register(app)
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
