"""The program `gateway-control`."""

from __future__ import annotations

import typer

from controlplane import migrate

HELP = """Act on the shared state of the gateways. `gateway-control COMMAND --help` shows the examples of a command."""


def build() -> typer.Typer:
    """The application with every command."""
    # A traceback with local variables would print secrets.
    app = typer.Typer(
        name="gateway-control",
        help=HELP,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_show_locals=False,
    )

    @app.callback()
    def common() -> None:
        """Options before the command."""

    migrate.register(app)
    return app


def main() -> None:
    """The program `gateway-control`."""
    build()(prog_name="gateway-control")
