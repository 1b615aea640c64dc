"""What production refuses of an environment (§4.3). What it refuses of a route table is said where tables are taken."""

from __future__ import annotations

from collections.abc import Mapping, Set

from common.routetable.compiled import TrustedProxies
from common.routetable.toplevel import MAX_TRUSTED_ADDRESSES
from common.settings.keys import key_fingerprint
from common.settings.published import PUBLISHED_KEYS
from common.settings.secret import Secret
from common.settings.strength import exposure, weakness
from common.settings.urls import is_private_host, parse_http_url

REQUIRED = {
    "GATEWAY_OIDC_ISSUER": "name the identity provider's issuer",
    "GATEWAY_OIDC_CLIENT_ID": "name this client at the identity provider",
    "GATEWAY_OIDC_AUDIENCE": "name the audience of bearer tokens in so many words, even where it is the client id",
    "GATEWAY_PUBLIC_URL": "name the https origin that browsers use",
    "GATEWAY_SESSION_SECRET": "without it logins end with a restart and fail on another replica; "
    "make one with `openssl rand -hex 32`",
    "GATEWAY_IDENTITY_SIGNING_KEY": "without it no upstream can verify an identity; make one with "
    "`gateway identity-key`",
}
STRONG = (
    "GATEWAY_SESSION_SECRET", "GATEWAY_ACCESS_TOKEN", "GATEWAY_METRICS_TOKEN", "GATEWAY_TLS_STORE_SECRET",
    "GATEWAY_ACME_DNS_WRITER_TOKEN",
)  # fmt: skip


def production_problems(values: Mapping[str, object], given: Set[str]) -> list[str]:
    """The rows that the environment alone decides. `values` and `given` are by variable name; a name that is given
    without a value has a problem already.
    """
    problems = [f"{name}: production needs it; {why}" for name, why in REQUIRED.items() if name not in given]
    if values.get("GATEWAY_OIDC_CLIENT_AUTH") != "private_key_jwt" and "GATEWAY_OIDC_CLIENT_SECRET" not in given:
        problems.append("GATEWAY_OIDC_CLIENT_SECRET: production needs it; set the client's secret")
    problems += [
        f"{name}: must be https in production"
        for name in ("GATEWAY_OIDC_ISSUER", "GATEWAY_PUBLIC_URL")
        if not str(values.get(name) or "https:").lower().startswith("https:")
    ]
    access_url = values.get("GATEWAY_ACCESS_URL")
    if isinstance(access_url, str) and not _is_protected(access_url):
        problems.append("GATEWAY_ACCESS_URL: must be https, or lead to a private address, in production")
    state_url = values.get("GATEWAY_STATE_URL")
    in_memory = isinstance(state_url, Secret) and state_url.reveal() == "memory://local"
    if in_memory and values.get("GATEWAY_SINGLE_REPLICA") is False:
        problems.append(
            "GATEWAY_STATE_URL: memory://local is not shared by replicas; name a Redis or Postgres, or set "
            "GATEWAY_SINGLE_REPLICA=true where the deployment runs one process"
        )
    ranges = values.get("GATEWAY_TRUSTED_PROXIES")
    if isinstance(ranges, tuple):
        problems += _wide_ranges(ranges)
    return problems + _secret_problems(values)


def _wide_ranges(ranges: TrustedProxies) -> list[str]:
    return [
        f"GATEWAY_TRUSTED_PROXIES: {network} covers more than {MAX_TRUSTED_ADDRESSES} addresses, each of which could "
        "claim to be any caller; name the proxies themselves"
        for network in ranges
        if network.num_addresses > MAX_TRUSTED_ADDRESSES
    ]


def _is_protected(url: str) -> bool:
    parts = parse_http_url(url)
    return parts.scheme == "https" or is_private_host(parts.host)


def _secret_problems(values: Mapping[str, object]) -> list[str]:
    problems = []
    for name in STRONG:
        secret = values.get(name)
        fault = weakness(secret.reveal()) if isinstance(secret, Secret) else None
        if fault is not None:
            problems.append(f"{name}: {fault}")
    client_secret = values.get("GATEWAY_OIDC_CLIENT_SECRET")
    fault = exposure(client_secret.reveal()) if isinstance(client_secret, Secret) else None
    if fault is not None:
        problems.append(f"GATEWAY_OIDC_CLIENT_SECRET: {fault}")
    for name in ("GATEWAY_IDENTITY_SIGNING_KEY", "GATEWAY_OIDC_CLIENT_KEY"):
        key = values.get(name)
        if isinstance(key, Secret) and key_fingerprint(key.reveal()) in PUBLISHED_KEYS:
            problems.append(f"{name}: is a key that is published with this software; make your own")
    return problems
