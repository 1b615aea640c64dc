"""The variables of the control plane (§4.4), and those of the gateway that it reads too."""

from __future__ import annotations

import re

from common.settings import parsers
from common.settings.control_tokens import FORM, parse_tokens
from common.settings.parsers import Function, Integer, listed
from common.settings.variable import Section, Variable
from common.settings.variables import VARIABLES

_ROUTE_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


def _route_ids(text: str) -> frozenset[str]:
    entries = listed(text)
    for number, entry in enumerate(entries, 1):
        if _ROUTE_ID.fullmatch(entry) is None:
            raise ValueError(f"entry {number} is no route id: lower-case letters, digits and hyphens")
    return frozenset(entries)


SHARED_NAMES = (
    "GATEWAY_ENV",
    "GATEWAY_LOG_LEVEL",
    "GATEWAY_SHUTDOWN_TIMEOUT_MS",
    # how the state is reached
    "GATEWAY_STATE_TIMEOUT_MS",
    "GATEWAY_REDIS_SENTINEL_MASTER",
    "GATEWAY_POSTGRES_POOL_MAX",
    # what a table falls back to
    "GATEWAY_MAX_BODY_BYTES",
    "GATEWAY_REPLAY_MAX_BYTES",
    "GATEWAY_UPSTREAM_ATTEMPT_TIMEOUT_MS",
    "GATEWAY_ACCESS_CACHE_TTL_MS",
    "GATEWAY_ACCESS_STALE_GRACE_MS",
    "GATEWAY_RATE_LIMIT_WINDOW_MS",
    "GATEWAY_RATE_LIMIT_BUCKET_MS",
    # what its warnings depend on
    "GATEWAY_ACCESS_URL",
    "GATEWAY_CSRF_STRICT",
    "GATEWAY_RATE_LIMIT_ROUTE_MAX",
    "GATEWAY_RATE_LIMIT_PRINCIPAL_MAX",
    "GATEWAY_TRUSTED_PROXIES",
    "GATEWAY_WS_REVALIDATE_INTERVAL_MS",
)

CONTROL = Section(
    "The control plane",
    (
        Variable(
            "GATEWAY_CONTROL_HOST",
            "host",
            "127.0.0.1",
            parsers.HOST,
            "Address to listen on: one of the internal network, never one that callers of the gateway reach.",
        ),
        Variable(
            "GATEWAY_CONTROL_PORT", "port", "8081", Integer(0, 65_535), "Port to listen on; 0 takes any free one."
        ),
        Variable(
            "GATEWAY_CONTROL_TOKENS",
            "tokens",
            "",
            Function(FORM, parse_tokens),
            "Who may use it, and for what. A token has at least 16 characters and is no other secret.",
            production="strong",
            secret=True,
            required='name at least one token, such as {"<token>": {"operator": "<name>", "scope": "config"}}',
        ),
        Variable(
            "GATEWAY_CONTROL_METRICS_TOKEN",
            "metrics_token",
            "",
            parsers.SECRET_TOKEN,
            "Bearer token of its `/metrics`. Without one the endpoint is off: 404.",
            default_words="off",
            production="strong, where set",
            secret=True,
        ),
        Variable(
            "GATEWAY_CONTROL_STATE_URL",
            "state_url",
            "",
            parsers.STATE_URL,
            "The shared state, with the control plane's own user; for `gateway-control migrate`, with a user that may "
            "create tables and roles. In memory (development) nothing is shared, and all ends with the process.",
            production="Redis or Postgres",
            secret=True,
            required="name the server of the shared state, such as postgres://user:password@host/database",
        ),
        Variable(
            "GATEWAY_CONTROL_KEY_PREFIX",
            "key_prefix",
            "gateway",
            parsers.STATE_PREFIX,
            "The prefix of the route table and the audit trail: the gateway's `GATEWAY_STATE_PREFIX`; on Postgres, "
            "their schema.",
        ),
        Variable(
            "GATEWAY_CONTROL_SHARED_STATE_KEY_PREFIX",
            "shared_state_key_prefix",
            "gateway",
            parsers.STATE_PREFIX,
            "The prefix of sessions, decisions and heartbeats: the same, since a gateway keeps all of them under one.",
        ),
        Variable(
            "GATEWAY_PROTECTED_ROUTES",
            "protected_routes",
            "",
            Function("route ids, comma-separated", _route_ids),
            "Routes that no write may remove or change.",
            default_words="none",
        ),
    ),
    "`gateway-control` reads these. So that the table it accepts is the table that a gateway runs, it also reads, with "
    "the meaning they have above, what a table falls back to and what decides about its warnings: give it the values "
    "that the gateways have. " + ", ".join(f"`{name}`" for name in SHARED_NAMES) + ".",
)

SHARED = tuple(variable for variable in VARIABLES if variable.name in SHARED_NAMES)
"""The variables of the gateway that the control plane reads too."""
