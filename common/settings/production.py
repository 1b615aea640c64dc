"""What production refuses to start with (§4.3). Every function answers problems, and knows nothing of the process."""

from __future__ import annotations

from collections.abc import Mapping, Set

from common.routetable.compiled import TrustedProxies
from common.settings.gateway import GatewaySettings
from common.settings.keys import key_fingerprint
from common.settings.published import PUBLISHED_KEYS
from common.settings.secret import Secret
from common.settings.strength import exposure, weakness
from common.settings.urls import is_private_host, parse_http_url

TRUSTED_MAX_ADDRESSES = 16
"""A trusted peer chooses the caller's address and host, so a range is a proxy tier, never a network (§7.3)."""

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
STRONG = ("GATEWAY_SESSION_SECRET", "GATEWAY_ACCESS_TOKEN", "GATEWAY_METRICS_TOKEN")


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
    if values.get("GATEWAY_STATE_URL") == "memory://local" and values.get("GATEWAY_SINGLE_REPLICA") is False:
        problems.append(
            "GATEWAY_STATE_URL: memory://local is not shared by replicas; set GATEWAY_SINGLE_REPLICA=true where "
            "the deployment runs one process"
        )
    ranges = values.get("GATEWAY_TRUSTED_PROXIES")
    if isinstance(ranges, tuple):
        problems.extend(f"GATEWAY_TRUSTED_PROXIES: {problem}" for problem in wide_ranges(ranges))
    return problems + _secret_problems(values)


def table_problems(settings: GatewaySettings, *, asks_access: bool, trusted_proxies: TrustedProxies) -> tuple[str, ...]:
    """The rows of production that need the route table: some route asks Access; the table's own trusted ranges.

    Empty outside production. `trusted_proxies` are the table's; they do not count where the environment replaces them.
    """
    if not settings.production:
        return ()
    problems = []
    if asks_access and not settings.access_url:
        problems.append("GATEWAY_ACCESS_URL: a route asks Access; name the service, or ask it on no route")
    if asks_access and settings.access_token is None:
        problems.append("GATEWAY_ACCESS_TOKEN: a route asks Access; set the token that the service expects")
    if not settings.trusted_proxies:
        problems.extend(f"trustedProxies: {problem}" for problem in wide_ranges(trusted_proxies))
    return tuple(problems)


def wide_ranges(ranges: TrustedProxies) -> list[str]:
    """A problem for each range that covers more than `TRUSTED_MAX_ADDRESSES`."""
    return [
        f"{network} covers more than {TRUSTED_MAX_ADDRESSES} addresses, each of which could claim to be any caller; "
        "name the proxies themselves"
        for network in ranges
        if network.num_addresses > TRUSTED_MAX_ADDRESSES
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
