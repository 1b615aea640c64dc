"""`gateway sessions`: revoke every session of a subject, against the shared state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from dataplane.cli.settings import settings_of_environment

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
        settings = settings_of_environment()
        if settings.state_url.reveal().startswith("memory:"):
            typer.echo(
                "gateway: GATEWAY_STATE_URL is memory://local: sessions live inside the gateway's own process, and no "
                "other process can revoke them. Restart the gateway to end them all.",
                err=True,
            )
            raise typer.Exit(1)
        import asyncio
        import json

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
