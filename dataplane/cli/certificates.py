"""`gateway certificates`: what the shared state holds of the authority's certificate, and to have it renewed now."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from common.settings.gateway import GatewaySettings
    from dataplane.tls.acme.vault import Kept

PATIENCE_S = 5.0
"""For a person who waits once, where a request has a fraction of a second."""
LEASE_MS = 10_000

HELP = """Show the certificate of GATEWAY_ACME_NAMES in the shared state, or have it renewed now.

\b
Examples:
  gateway certificates            names, dates, when it is renewed, what went wrong last
  gateway certificates --json
  gateway certificates --renew    after it was revoked, or after what made renewals fail was mended

Run it with the environment of the gateways. --renew asks for a new certificate with a new key: the gateways begin
within half a minute, whatever they were waiting for; look again to see what came of it. The authority counts.
Exit 0 when the state answered, 1 when it did not, when something in it cannot be read, or when nothing could be asked.
"""


class NotAsked(Exception):
    """Nothing was asked for; the text says why."""


def register(app: typer.Typer) -> None:
    @app.command("certificates", help=HELP)
    def certificates(
        renew: bool = typer.Option(False, "--renew", help="Have the certificate renewed now."),
        as_json: bool = typer.Option(False, "--json", help="Print JSON."),
    ) -> None:
        from common.settings.errors import SettingsInvalid
        from common.settings.load import load_gateway_settings
        from common.state.ports import StateUnavailable

        try:
            settings = load_gateway_settings(os.environ)
        except SettingsInvalid as invalid:
            raise _failed(*invalid.problems) from None
        try:
            _check(settings)
            kept = asyncio.run(_ask(settings, renew=renew))
        except NotAsked as refused:
            raise _failed(str(refused)) from None
        except StateUnavailable as failure:
            raise _failed(f"{failure}. Is the server of GATEWAY_STATE_URL there?") from None
        shown = _shown(settings, kept)
        typer.echo(json.dumps(shown) if as_json else _as_text(shown, renew=renew))
        raise typer.Exit(1 if kept.troubles else 0)


def _failed(*problems: str) -> typer.Exit:
    for problem in problems:
        typer.echo(f"gateway: {problem}", err=True)
    return typer.Exit(1)


def _check(settings: GatewaySettings) -> None:
    if not settings.acme_directory:
        raise NotAsked(
            "GATEWAY_ACME_DIRECTORY is not set: there is no certificate from an authority. One from files is renewed "
            "by whoever writes them"
        )
    if settings.state_url.reveal().startswith("memory:"):
        raise NotAsked(
            "GATEWAY_STATE_URL is memory://local: the certificate lives inside the gateway's own process; restart the "
            "gateway to have a new one"
        )


async def _ask(settings: GatewaySettings, *, renew: bool) -> Kept:
    from common.state.open import StateOptions, open_state
    from dataplane.tls.acme.build import build_vault
    from dataplane.tls.acme.keeper import renewal_asked
    from dataplane.tls.acme.vault import LEASE, Overtaken

    options = StateOptions(
        prefix=settings.state_prefix,
        timeout_s=max(settings.state_timeout_s, PATIENCE_S),
        redis_sentinel_master=settings.redis_sentinel_master,
    )
    state = open_state(settings.state_url.reveal(), options)
    try:
        await state.start()
        vault = build_vault(settings, state)
        if not renew:
            return await vault.read()
        lease = await state.take_lease(LEASE, f"operator at {socket.gethostname()}/{os.getpid()}", LEASE_MS)
        if lease is None:
            raise NotAsked("a gateway is ordering a certificate just now; look again in a minute")
        try:
            kept = await vault.read()
            await vault.write_progress(renewal_asked(kept), lease)
        except Overtaken:
            raise NotAsked("the lease passed on meanwhile; try again") from None
        finally:
            await state.release_lease(lease)
        return await vault.read()
    finally:
        await state.close()


def _shown(settings: GatewaySettings, kept: Kept) -> dict[str, Any]:
    from dataplane.tls.acme.plan import DAY_MS, renewal_at

    issued, progress = kept.issued, kept.progress
    renewal_ms = 0 if issued is None else renewal_at(issued, progress, settings.acme_renew_before_days * DAY_MS)
    asked = issued is not None and progress.renew_now == issued.fingerprint
    return {
        "names": list(settings.acme_names),
        "authority": settings.acme_directory,
        "certificate": None
        if issued is None
        else {
            "serial": issued.serial,
            "notBefore": _time(issued.not_before_ms),
            "notAfter": _time(issued.not_after_ms),
            "renewal": "asked for" if asked else _time(renewal_ms),
        },
        "lastFailure": {
            "at": _time(progress.failed_at_ms),
            "reason": progress.last_error,
            "nextAttempt": _time(progress.retry_at_ms),
        }
        if progress.failing
        else None,
        "unreadable": list(kept.troubles),
    }


def _as_text(shown: dict[str, Any], *, renew: bool) -> str:
    lines = [f"names       {', '.join(shown['names'])}", f"authority   {shown['authority']}"]
    certificate, failure = shown["certificate"], shown["lastFailure"]
    if certificate is None:
        lines.append("certificate none yet")
    else:
        lines += [
            f"serial      {certificate['serial']}",
            f"valid       {certificate['notBefore']} to {certificate['notAfter']}",
            f"renewal     {certificate['renewal']}",
        ]
    if failure is not None:
        lines += [f"failed      {failure['at']}: {failure['reason']}", f"next try    {failure['nextAttempt']}"]
    lines += [f"unreadable  {trouble}" for trouble in shown["unreadable"]]
    if renew:
        lines.append("A new certificate was asked for; the gateways begin within half a minute.")
    return "\n".join(lines)


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
