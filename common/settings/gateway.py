"""The settings of the data plane as one frozen value (CONTRACT §4.1). `load` makes it from the environment."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from common.routetable.compiled import DeploymentDefaults, TrustedProxies
from common.routetable.warnings import Surroundings
from common.settings.secret import Secret

ClientAuth = Literal["client_secret_basic", "client_secret_post", "private_key_jwt"]
LogLevel = Literal["debug", "info", "warning", "error"]
RateLimitFallback = Literal["local", "deny", "allow"]


def _random_secret() -> Secret:
    return Secret(secrets.token_hex(32))


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Every setting of `gateway run`. Fields are named after their variables; an absent text is `""`.

    The defaults are those of the environment's variables. Values made by hand are not validated: that is the loader's.
    """

    production: bool = False
    host: str = "0.0.0.0"  # noqa: S104 - a gateway serves every interface unless told otherwise
    port: int = 8080
    """0: any free port, which the log names."""
    public_url: str = "http://localhost:8080"
    """Origin only (`https://app.example.com`), without a trailing slash."""
    config: Path = Path("gateway.json")
    config_source: Literal["file", "store"] = "file"
    log_level: LogLevel = "info"
    http_fast_lane: bool = True
    """Off: h11 reads every head, the plain ones too."""
    metrics_token: Secret | None = None
    shutdown_timeout_s: float = 15.0
    workers: int = 1

    oidc_issuer: str = ""
    oidc_client_id: str = ""
    oidc_client_secret: Secret | None = None
    oidc_client_auth: ClientAuth = "client_secret_basic"
    oidc_client_key: Secret | None = None
    """PEM private key of `private_key_jwt`."""
    oidc_scopes: tuple[str, ...] = ("openid", "email", "profile")
    oidc_audience: str = ""
    """What a bearer token's `aud` must hold; the client id where none was given."""
    oidc_roles_claim: str = "roles"
    oidc_max_token_age_ms: int = 86_400_000
    """0: no bound."""
    oidc_reject_nonce_token: bool = True
    oidc_required_token_claims: tuple[tuple[str, str], ...] = ()
    oidc_timeout_s: float = 5.0
    oidc_jwks_cache_s: float = 600.0
    oidc_jwks_stale_s: float = 3_600.0
    oidc_ca: Path | None = None
    """PEM file of the authority behind the provider's certificate; None: the system's authorities."""

    session_secret: Secret = field(default_factory=_random_secret)
    """Never absent: outside production a random one is made for the process (§7.4)."""
    session_idle_ms: int = 28_800_000
    session_max_age_ms: int = 86_400_000
    session_max_per_subject: int = 0
    """0: no bound."""

    state_url: Secret = field(default_factory=lambda: Secret("memory://local"))
    state_prefix: str = "gateway"
    state_timeout_s: float = 0.5
    redis_sentinel_master: str = ""
    postgres_pool_max: int = 10
    postgres_synchronous_commit: Literal["off", "on"] = "off"
    replica_id: str = ""
    """`""`: the process names itself. Of several workers each adds its number."""

    access_url: str = ""
    """Without a trailing slash."""
    access_token: Secret | None = None
    access_timeout_s: float = 3.0
    access_cache_ttl_ms: int = 5_000
    access_stale_grace_ms: int = 0
    access_cache_max: int = 100_000
    access_breaker_failures: int = 5
    """0: no breaker."""
    access_breaker_cooldown_s: float = 5.0

    identity_signing_key: Secret | None = None
    """PKCS#8 PEM of an EC P-256 key; None (never in production): a key made for the process."""

    allowed_origins: tuple[str, ...] = ()
    """Serialized origins (RFC 6454 §6.2), in lower case."""
    csrf_strict: bool = False
    trusted_proxies: TrustedProxies = ()
    """Where not empty it replaces the table's ranges (§7.3)."""
    trusted_proxy_hops: int = 1

    max_connections: int = 10_000
    max_pending_requests: int = 1_000
    """0: no bound; the same for `max_concurrent_requests` and `max_body_bytes`."""
    max_concurrent_requests: int = 1_000
    max_head_bytes: int = 32_768
    max_headers: int = 100
    max_body_bytes: int = 10_485_760
    head_timeout_s: float = 10.0
    keepalive_timeout_s: float = 75.0

    tls_cert: tuple[Path, ...] = ()
    """PEM files, each a chain; none: no TLS from files."""
    tls_key: tuple[Path, ...] = ()
    """As many, in the same order."""
    tls_port: int = 8443
    """0: any free port, which the log names."""
    tls_min_version: Literal["1.2", "1.3"] = "1.2"

    upstream_tls_ca: Path | None = None
    """PEM file; None: the system's authorities."""
    upstream_tls_cert: Path | None = None
    """PEM files of a client certificate and its key; None: no certificate is presented."""
    upstream_tls_key: Path | None = None
    upstream_pool_max: int = 256
    upstream_pool_idle_s: float = 30.0
    upstream_attempt_timeout_s: float = 2.0
    upstream_breaker_failures: int = 3
    """0: no breaker."""
    upstream_breaker_cooldown_s: float = 30.0
    replay_max_bytes: int = 65_536

    rate_limit_deployment_max: int = 0
    """0 turns a limiter off."""
    rate_limit_client_max: int = 0
    rate_limit_route_max: int = 6_000
    rate_limit_principal_max: int = 0
    rate_limit_login_max: int = 20
    rate_limit_window_ms: int = 60_000
    rate_limit_bucket_ms: int = 1_000
    rate_limit_fallback: RateLimitFallback = "local"

    ws_max_connections: int = 1_000
    """0: no bound; the same for `ws_max_per_principal`."""
    ws_max_per_principal: int = 50
    ws_handshake_timeout_s: float = 10.0
    ws_max_message_bytes: int = 1_048_576
    ws_idle_timeout_s: float = 300.0
    ws_revalidate_interval_s: float = 60.0
    """0: open connections are not checked again."""

    acme_directory: str = ""
    """`""`: no authority."""
    acme_names: tuple[str, ...] = ()
    acme_email: str = ""
    acme_ca: Path | None = None
    acme_eab_kid: str = ""
    acme_eab_hmac: Secret | None = None
    acme_challenge: Literal["http-01", "dns-01"] = "http-01"
    acme_dns_writer_url: str = ""
    acme_dns_writer_token: Secret | None = None
    acme_renew_before_days: int = 30
    tls_store_secret: Secret | None = None
    """With an authority None only where the state is in memory: then one is made for the process."""

    def __post_init__(self) -> None:
        if not self.oidc_audience:
            object.__setattr__(self, "oidc_audience", self.oidc_client_id)

    @property
    def terminates_tls(self) -> bool:
        """The gateway has a certificate, from files or from an authority, and listens for TLS."""
        return bool(self.tls_cert or self.acme_directory)

    @property
    def route_defaults(self) -> DeploymentDefaults:
        """What a route table's fields fall back to."""
        return DeploymentDefaults(
            max_body_bytes=self.max_body_bytes,
            replay_max_bytes=self.replay_max_bytes,
            upstream_attempt_ms=round(self.upstream_attempt_timeout_s * 1000),
            access_cache_ttl_ms=self.access_cache_ttl_ms,
            access_stale_grace_ms=self.access_stale_grace_ms,
            rate_limit_window_ms=self.rate_limit_window_ms,
            rate_limit_bucket_ms=self.rate_limit_bucket_ms,
        )

    @property
    def surroundings(self) -> Surroundings:
        """What the environment adds to the judgement of a table (§12.2)."""
        return Surroundings(
            csrf_strict=self.csrf_strict,
            route_limit_max=self.rate_limit_route_max,
            principal_limit_max=self.rate_limit_principal_max,
            revalidate_interval_ms=round(self.ws_revalidate_interval_s * 1000),
            trusted_proxies=self.trusted_proxies,
        )
