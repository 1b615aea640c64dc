"""The keeper of the certificate from the settings."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from common.settings.secret import Secret
from dataplane.tls.acme.attempt import Attempts, Wanted
from dataplane.tls.acme.authority import AuthoritySettings
from dataplane.tls.acme.challenges import SharedState, Showing, ZoneWriter
from dataplane.tls.acme.keeper import CertificateKeeper
from dataplane.tls.acme.plan import DAY_MS
from dataplane.tls.acme.sealing import Sealer
from dataplane.tls.acme.vault import Vault

if TYPE_CHECKING:
    from common.settings.gateway import GatewaySettings
    from common.state.ports import State
    from common.state.sealed import SealedStore
    from common.telemetry.log import Log
    from dataplane.tls.certificate import Certificate


def build_keeper(
    settings: GatewaySettings,
    state: State,
    log: Log,
    *,
    install: Callable[[Certificate], None],
    report: Callable[[str | None], None],
) -> CertificateKeeper:
    """What keeps the certificate of `settings`, which name an authority. See `CertificateKeeper`."""
    replica = settings.replica_id or f"{socket.gethostname()}-{os.getpid()}"
    authority = AuthoritySettings(
        directory=settings.acme_directory,
        email=settings.acme_email,
        ca=settings.acme_ca,
        eab_kid=settings.acme_eab_kid,
        eab_hmac=settings.acme_eab_hmac,
    )
    wanted = Wanted(settings.acme_names, authority, settings.acme_renew_before_days * DAY_MS)
    vault = build_vault(settings, state)
    return CertificateKeeper(
        wanted,
        state,
        vault,
        Attempts(wanted, state, vault, _showing(settings, state), log),
        log,
        # Two processes may be given one id; a lease tells them apart all the same.
        owner=f"{replica}/{secrets.token_hex(4)}",
        install=install,
        report=report,
    )


def build_vault(settings: GatewaySettings, store: SealedStore) -> Vault:
    """Where the records of that certificate are."""
    secret = settings.tls_store_secret
    return Vault(
        store,
        # Without a secret the state is in memory, and ends with the process as this does.
        Sealer(secret if secret is not None else Secret(secrets.token_hex(32))),
        directory=settings.acme_directory,
        names=settings.acme_names,
        account_of=settings.acme_eab_kid,
        ordered_as=(settings.acme_email, settings.acme_challenge, settings.acme_dns_writer_url),
    )


def _showing(settings: GatewaySettings, state: State) -> Showing:
    token = settings.acme_dns_writer_token
    if settings.acme_challenge == "dns-01" and token is not None:
        return ZoneWriter(settings.acme_dns_writer_url, token)
    return SharedState(state)
