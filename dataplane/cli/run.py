"""`gateway run`: one data plane from the environment, until it is told to end."""

from __future__ import annotations

import os
import sys

import typer

from dataplane.cli.settings import settings_of_environment

HELP = """Run the data plane, configured by GATEWAY_* variables: one process, or GATEWAY_WORKERS of them on one port.

\b
Examples:
  GATEWAY_CONFIG=routes.json gateway run
  GATEWAY_ENV=production GATEWAY_CONFIG=/etc/gateway/routes.json gateway run

SIGTERM and SIGINT drain: open requests finish within GATEWAY_SHUTDOWN_TIMEOUT_MS, then the program ends with 0; a
second one ends it at once. SIGHUP reads the route table again.
Wrong settings end it with 1 before it listens, every problem named. The variables are listed in docs/configuration.md.
"""


def register(app: typer.Typer) -> None:
    @app.command("run", help=HELP)
    def run() -> None:
        settings = settings_of_environment()
        from dataplane.spans import spans_problem

        if problem := spans_problem(os.environ):
            typer.echo(f"gateway: {problem}", err=True)
            raise typer.Exit(1)
        from dataplane.workers.serve import raise_descriptor_limit, serve_alone
        from dataplane.workers.several import serve_several

        raise_descriptor_limit()
        serve = serve_alone if settings.workers == 1 else serve_several
        raise typer.Exit(serve(settings, sys.stdout.fileno()))
