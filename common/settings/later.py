"""Names that the contract knows and this version does nothing with: setting one is a mistake, but no typing error."""

from __future__ import annotations

LATER = frozenset(
    {
        # TLS of the deployment (§11.5)
        "GATEWAY_ACME_CA",
        "GATEWAY_ACME_CHALLENGE",
        "GATEWAY_ACME_DIRECTORY",
        "GATEWAY_ACME_DNS_WRITER_TOKEN",
        "GATEWAY_ACME_DNS_WRITER_TOKEN_FILE",
        "GATEWAY_ACME_DNS_WRITER_URL",
        "GATEWAY_ACME_EAB_HMAC",
        "GATEWAY_ACME_EAB_HMAC_FILE",
        "GATEWAY_ACME_EAB_KID",
        "GATEWAY_ACME_EMAIL",
        "GATEWAY_ACME_NAMES",
        "GATEWAY_ACME_RENEW_BEFORE_DAYS",
        "GATEWAY_CHALLENGES_HOST",
        "GATEWAY_CHALLENGES_PORT",
        "GATEWAY_TLS_STORE_SECRET",
        "GATEWAY_TLS_STORE_SECRET_FILE",
    }
)
