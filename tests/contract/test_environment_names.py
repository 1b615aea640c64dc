"""The names, defaults and forms of the environment are a contract: this is their pinned copy (§14.1)."""

from __future__ import annotations

from common.settings.access_service import ACCESS_SERVICE
from common.settings.control import CONTROL
from common.settings.later import LATER
from common.settings.variables import VARIABLES

NAMES = {
    "GATEWAY_ACCESS_BREAKER_COOLDOWN_MS": "5000",
    "GATEWAY_ACCESS_BREAKER_FAILURES": "5",
    "GATEWAY_ACCESS_CACHE_MAX": "100000",
    "GATEWAY_ACCESS_CACHE_TTL_MS": "5000",
    "GATEWAY_ACCESS_STALE_GRACE_MS": "0",
    "GATEWAY_ACCESS_TIMEOUT_MS": "3000",
    "GATEWAY_ACCESS_TOKEN": "",
    "GATEWAY_ACCESS_URL": "",
    "GATEWAY_ALLOWED_ORIGINS": "",
    "GATEWAY_CONFIG": "",
    "GATEWAY_CONFIG_SOURCE": "file",
    "GATEWAY_CSRF_STRICT": "false",
    "GATEWAY_ENV": "development",
    "GATEWAY_HEAD_TIMEOUT_MS": "10000",
    "GATEWAY_HOST": "0.0.0.0",
    "GATEWAY_HTTP_FAST_LANE": "on",
    "GATEWAY_IDENTITY_SIGNING_KEY": "",
    "GATEWAY_KEEPALIVE_TIMEOUT_MS": "75000",
    "GATEWAY_LOG_LEVEL": "info",
    "GATEWAY_MAX_BODY_BYTES": "10485760",
    "GATEWAY_MAX_CONCURRENT_REQUESTS": "1000",
    "GATEWAY_MAX_CONNECTIONS": "10000",
    "GATEWAY_MAX_HEADERS": "100",
    "GATEWAY_MAX_HEAD_BYTES": "32768",
    "GATEWAY_MAX_PENDING_REQUESTS": "1000",
    "GATEWAY_METRICS_TOKEN": "",
    "GATEWAY_OIDC_AUDIENCE": "",
    "GATEWAY_OIDC_CA": "",
    "GATEWAY_OIDC_CLIENT_AUTH": "client_secret_basic",
    "GATEWAY_OIDC_CLIENT_ID": "",
    "GATEWAY_OIDC_CLIENT_KEY": "",
    "GATEWAY_OIDC_CLIENT_SECRET": "",
    "GATEWAY_OIDC_ISSUER": "",
    "GATEWAY_OIDC_JWKS_CACHE_MS": "600000",
    "GATEWAY_OIDC_JWKS_STALE_MS": "3600000",
    "GATEWAY_OIDC_MAX_TOKEN_AGE_MS": "86400000",
    "GATEWAY_OIDC_REJECT_NONCE_TOKEN": "true",
    "GATEWAY_OIDC_REQUIRED_TOKEN_CLAIMS": "",
    "GATEWAY_OIDC_ROLES_CLAIM": "roles",
    "GATEWAY_OIDC_SCOPES": "openid email profile",
    "GATEWAY_OIDC_TIMEOUT_MS": "5000",
    "GATEWAY_PORT": "8080",
    "GATEWAY_POSTGRES_POOL_MAX": "10",
    "GATEWAY_POSTGRES_SYNCHRONOUS_COMMIT": "off",
    "GATEWAY_PUBLIC_URL": "",
    "GATEWAY_RATE_LIMIT_BUCKET_MS": "1000",
    "GATEWAY_RATE_LIMIT_CLIENT_MAX": "0",
    "GATEWAY_RATE_LIMIT_DEPLOYMENT_MAX": "0",
    "GATEWAY_RATE_LIMIT_FALLBACK": "local",
    "GATEWAY_RATE_LIMIT_LOGIN_MAX": "20",
    "GATEWAY_RATE_LIMIT_PRINCIPAL_MAX": "0",
    "GATEWAY_RATE_LIMIT_ROUTE_MAX": "6000",
    "GATEWAY_RATE_LIMIT_WINDOW_MS": "60000",
    "GATEWAY_REDIS_SENTINEL_MASTER": "",
    "GATEWAY_REPLAY_MAX_BYTES": "65536",
    "GATEWAY_REPLICA_ID": "",
    "GATEWAY_SESSION_IDLE_MS": "28800000",
    "GATEWAY_SESSION_MAX_AGE_MS": "86400000",
    "GATEWAY_SESSION_MAX_PER_SUBJECT": "0",
    "GATEWAY_SESSION_SECRET": "",
    "GATEWAY_SHUTDOWN_TIMEOUT_MS": "15000",
    "GATEWAY_SINGLE_REPLICA": "false",
    "GATEWAY_STATE_PREFIX": "gateway",
    "GATEWAY_STATE_TIMEOUT_MS": "500",
    "GATEWAY_STATE_URL": "memory://local",
    "GATEWAY_TRUSTED_PROXIES": "",
    "GATEWAY_TRUSTED_PROXY_HOPS": "1",
    "GATEWAY_UPSTREAM_ATTEMPT_TIMEOUT_MS": "2000",
    "GATEWAY_UPSTREAM_BREAKER_COOLDOWN_MS": "30000",
    "GATEWAY_UPSTREAM_BREAKER_FAILURES": "3",
    "GATEWAY_UPSTREAM_POOL_IDLE_MS": "30000",
    "GATEWAY_UPSTREAM_POOL_MAX": "256",
    "GATEWAY_WS_HANDSHAKE_TIMEOUT_MS": "10000",
    "GATEWAY_WS_IDLE_TIMEOUT_MS": "300000",
    "GATEWAY_WS_MAX_CONNECTIONS": "1000",
    "GATEWAY_WS_MAX_MESSAGE_BYTES": "1048576",
    "GATEWAY_WS_MAX_PER_PRINCIPAL": "50",
    "GATEWAY_WS_REVALIDATE_INTERVAL_MS": "60000",
}
SECRETS = {
    "GATEWAY_ACCESS_TOKEN",
    "GATEWAY_IDENTITY_SIGNING_KEY",
    "GATEWAY_METRICS_TOKEN",
    "GATEWAY_OIDC_CLIENT_KEY",
    "GATEWAY_OIDC_CLIENT_SECRET",
    "GATEWAY_SESSION_SECRET",
    "GATEWAY_STATE_URL",
}
CONTROL_NAMES = {
    "GATEWAY_CONTROL_KEY_PREFIX": "gateway",
    "GATEWAY_CONTROL_SHARED_STATE_KEY_PREFIX": "gateway",
    "GATEWAY_CONTROL_STATE_URL": "",
}
ACCESS_SERVICE_NAMES = {
    "ACCESS_HOST": "127.0.0.1",
    "ACCESS_PORT": "8090",
    "ACCESS_TOKEN": "",
    "GATEWAY_ENV": "development",
}
LATER_NAMES = {
    "ACME_CA", "ACME_CHALLENGE", "ACME_DIRECTORY", "ACME_DNS_WRITER_TOKEN", "ACME_DNS_WRITER_URL", "ACME_EAB_HMAC",
    "ACME_EAB_KID", "ACME_EMAIL", "ACME_NAMES", "ACME_RENEW_BEFORE_DAYS", "CHALLENGES_HOST", "CHALLENGES_PORT",
    "CONTROL_HOST", "CONTROL_METRICS_TOKEN", "CONTROL_PORT", "CONTROL_TOKENS", "PROTECTED_ROUTES",
    "TLS_CERT", "TLS_KEY",
    "TLS_MIN_VERSION", "TLS_PORT", "TLS_STORE_SECRET", "UPSTREAM_TLS_CA", "UPSTREAM_TLS_CERT", "UPSTREAM_TLS_KEY",
    "WORKERS",
}  # fmt: skip


def test_the_names_and_defaults_of_the_gateway_are_those_that_were_published() -> None:
    assert {variable.name: variable.default for variable in VARIABLES} == NAMES
    assert len(VARIABLES) == len(NAMES)


def test_the_secrets_of_the_gateway_are_those_that_were_published() -> None:
    assert {variable.name for variable in VARIABLES if variable.secret} == SECRETS


def test_the_names_of_the_access_service_are_those_that_were_published() -> None:
    assert {variable.name: variable.default for variable in ACCESS_SERVICE.variables} == ACCESS_SERVICE_NAMES


def test_the_names_of_the_control_plane_are_those_that_were_published() -> None:
    assert {variable.name: variable.default for variable in CONTROL.variables} == CONTROL_NAMES


def test_the_names_of_what_comes_later_are_told_from_typing_errors() -> None:
    assert {name.removeprefix("GATEWAY_") for name in LATER if not name.endswith("_FILE")} == LATER_NAMES
    assert {name.removesuffix("_FILE") for name in LATER if name.endswith("_FILE")} <= LATER | set(NAMES)
