"""`gateway sessions`: revoke every session of a subject, against the shared state."""

from __future__ import annotations

import asyncio
import json
import os

import typer

HELP = """Revoke every session of SUBJECT (the provider's `sub`) in the shared state of GATEWAY_STATE_URL.

\b
Examples:
  gateway sessions --subject alice@example.test
  gateway sessions --subject alice@example.test --json

Prints how many sessions were removed. Exit 0 when the state answered, 1 when it did not.
"""


def register(app: typer.Typer) -> None:
    @app.command("sessions", help=HELP)
    def sessions(
        subject: str = typer.Option(..., help="The subject whose sessions end."),
        as_json: bool = typer.Option(False, "--json", help="Print JSON."),
    ) -> None:
        from common.settings.errors import SettingsInvalid
        from common.settings.load import load_gateway_settings

        try:
            settings = load_gateway_settings(os.environ)
        except SettingsInvalid as invalid:
            for problem in invalid.problems:
                typer.echo(f"gateway: {problem}", err=True)
            raise typer.Exit(1) from None
        if settings.state_url.startswith("memory:"):
            typer.echo(
                "gateway: GATEWAY_STATE_URL is memory://local: sessions live inside the gateway's own process, and no "
                "other process can revoke them. Restart the gateway to end them all.",
                err=True,
            )
            raise typer.Exit(1)
        revoked = asyncio.run(_revoke(settings.state_url, subject))
        typer.echo(json.dumps({"revoked": revoked}) if as_json else f"{revoked} sessions revoked")


async def _revoke(url: str, subject: str) -> int:
    from common.state.open import open_state

    state = open_state(url)
    try:
        return await state.delete_subject_sessions(subject)
    finally:
        await state.close()
