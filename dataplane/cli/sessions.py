"""`gateway sessions`: revoke every session of a subject, against the shared state."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from common.settings.gateway import GatewaySettings

PATIENCE_S = 5.0
"""For a person who waits once, where a request has a fraction of a second."""

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
        if settings.state_url.reveal().startswith("memory:"):
            typer.echo(
                "gateway: GATEWAY_STATE_URL is memory://local: sessions live inside the gateway's own process, and no "
                "other process can revoke them. Restart the gateway to end them all.",
                err=True,
            )
            raise typer.Exit(1)
        from common.state.ports import StateUnavailable

        try:
            revoked = asyncio.run(_revoke(settings, subject))
        except StateUnavailable as failure:
            typer.echo(
                f"gateway: no session was revoked: {failure}. Is the server of GATEWAY_STATE_URL there?", err=True
            )
            raise typer.Exit(1) from None
        typer.echo(json.dumps({"revoked": revoked}) if as_json else f"{revoked} sessions revoked")


async def _revoke(settings: GatewaySettings, subject: str) -> int:
    from common.state.open import StateOptions, open_state

    options = StateOptions(
        prefix=settings.state_prefix,
        timeout_s=max(settings.state_timeout_s, PATIENCE_S),
        redis_sentinel_master=settings.redis_sentinel_master,
    )
    state = open_state(settings.state_url.reveal(), options)
    try:
        await state.start()
        return await state.delete_subject_sessions(subject)
    finally:
        await state.close()
