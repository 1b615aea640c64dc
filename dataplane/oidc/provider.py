"""The provider as one object: what is fetched from it, and what is verified and logged in with that."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dataplane.oidc.claims import BearerRules
from dataplane.oidc.client_assertion import ClientAssertion
from dataplane.oidc.discovery import ProviderMetadata, metadata_address, read_metadata
from dataplane.oidc.errors import ProviderUnavailable
from dataplane.oidc.http import ProviderHttp
from dataplane.oidc.kept import Kept
from dataplane.oidc.keys import ProviderKeys
from dataplane.oidc.login import Client, LoginFlow
from dataplane.oidc.tokens import BearerTokens

if TYPE_CHECKING:
    from common.settings.gateway import GatewaySettings
    from common.telemetry.log import Log

CALLBACK_PATH = "/auth/callback"


class IdentityProvider:
    """Bearer tokens and logins of the provider that the settings name. Making one opens no connection."""

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        log: Log,
        clock: Callable[[], float] = time.monotonic,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """`clock` is monotonic, for what is kept; `now_s` is the wall clock that tokens are judged by.

        A client key or authority that cannot be read is `ValueError` or `OSError`.
        """
        self._issuer = settings.oidc_issuer
        self._http = ProviderHttp(timeout_s=settings.oidc_timeout_s, ca=settings.oidc_ca)
        kept_for = {"fresh_s": settings.oidc_jwks_cache_s, "stale_s": settings.oidc_jwks_stale_s}
        self._metadata: Kept[ProviderMetadata] = Kept(
            "metadata", self._fetch_metadata, **kept_for, clock=clock, log=log
        )
        self._keys = ProviderKeys(
            self._fetch_keys,
            cache_s=settings.oidc_jwks_cache_s,
            stale_s=settings.oidc_jwks_stale_s,
            clock=clock,
            log=log,
        )
        self.tokens = BearerTokens(
            self._keys,
            BearerRules(
                issuer=settings.oidc_issuer,
                audience=settings.oidc_audience,
                max_age_s=settings.oidc_max_token_age_ms / 1000,
                reject_nonce=settings.oidc_reject_nonce_token,
                required=settings.oidc_required_token_claims,
            ),
            roles_claim=settings.oidc_roles_claim,
            now_s=now_s,
        )
        self.login = LoginFlow(
            _client(settings),
            self._metadata.get,
            self._keys,
            self._http,
            roles_claim=settings.oidc_roles_claim,
            now_s=now_s,
        )

    async def close(self) -> None:
        """End what is under way and close what is open."""
        await self._keys.close()
        await self._metadata.close()
        await self._http.close()

    async def _fetch_metadata(self) -> ProviderMetadata:
        if not self._issuer:
            raise ProviderUnavailable("no provider is configured: set GATEWAY_OIDC_ISSUER")
        return read_metadata(await self._http.get_json(metadata_address(self._issuer)), self._issuer)

    async def _fetch_keys(self) -> Mapping[str, Any]:
        return await self._http.get_json((await self._metadata.get()).jwks_uri)


def _client(settings: GatewaySettings) -> Client:
    assertion = None
    if settings.oidc_client_auth == "private_key_jwt":
        if settings.oidc_client_key is None:
            raise ValueError("private_key_jwt needs GATEWAY_OIDC_CLIENT_KEY")
        assertion = ClientAssertion(settings.oidc_client_id, settings.oidc_client_key)
    return Client(
        client_id=settings.oidc_client_id,
        redirect_uri=settings.public_url + CALLBACK_PATH,
        scopes=settings.oidc_scopes,
        secret_in_form=settings.oidc_client_auth == "client_secret_post",
        secret=settings.oidc_client_secret,
        assertion=assertion,
    )
