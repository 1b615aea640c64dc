"""The program `gateway-control`."""

from __future__ import annotations

import os

import typer

from common.programs import run_program
from controlplane import migrate_command

HELP = """Run the control plane, configured by GATEWAY_CONTROL_* variables.

It acts on the shared state of the gateways: route-table revisions, the audit trail, sessions, the view of replicas.

\b
Examples:
  GATEWAY_CONTROL_STATE_URL_FILE=/run/secrets/state GATEWAY_CONTROL_TOKENS_FILE=/run/secrets/tokens gateway-control
  gateway-control migrate      bring the shared state on Postgres to this release

It listens on GATEWAY_CONTROL_HOST and GATEWAY_CONTROL_PORT (127.0.0.1:8081). SIGTERM and SIGINT drain: open requests
finish within GATEWAY_SHUTDOWN_TIMEOUT_MS, then the process ends with 0. Wrong settings end it with 1 before it listens,
every problem named. The variables are listed in docs/configuration.md.
"""


def build() -> typer.Typer:
    """The application with every command."""
    # A traceback with local variables would print secrets.
    app = typer.Typer(
        name="gateway-control",
        help=HELP,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_show_locals=False,
    )

    @app.callback(invoke_without_command=True)
    def control(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            raise typer.Exit(run())

    @app.command("serve", help="Run the control plane, as without a command.")
    def serve() -> None:
        raise typer.Exit(run())

    migrate_command.register(app)
    return app


def run() -> int:
    """Serve as the environment says; the exit code."""
    from common.settings.control import load_control_settings
    from common.settings.errors import SettingsInvalid

    try:
        settings = load_control_settings(os.environ)
    except SettingsInvalid as invalid:
        for problem in invalid.problems:
            typer.echo(f"gateway-control: {problem}", err=True)
        return 1
    from controlplane import serve

    return serve.run(settings)


def main() -> None:
    """The program `gateway-control`."""
    run_program(build(), "gateway-control")
