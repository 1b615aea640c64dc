"""The control plane's environment: every problem at once, never with a token (§4.4, §12.7)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from common.settings.control import load_control_settings, load_control_store
from common.settings.errors import SettingsInvalid
from tests.support.control import TOKENS, control_settings, token_map

TOKEN = "a-token-of-thirty-two-characters"
STRONG = "0123456789abcdef" * 4
BASE = {"GATEWAY_CONTROL_TOKENS": token_map(), "GATEWAY_CONTROL_STATE_URL": "redis://u:password-of-the-state@h/0"}


def tokens(*entries: tuple[str, Any]) -> str:
    """A map as text, in which a token may stand twice."""
    return "{" + ", ".join(f"{json.dumps(token)}: {json.dumps(entry)}" for token, entry in entries) + "}"


def entry(scope: str = "read", operator: str = "alice") -> dict[str, str]:
    return {"operator": operator, "scope": scope}


def problems(**environment: str) -> tuple[str, ...]:
    given = {f"GATEWAY_{name}": value for name, value in environment.items()}
    with pytest.raises(SettingsInvalid) as caught:
        load_control_settings({**BASE, **given})
    return caught.value.problems


def test_the_map_names_each_token_with_its_operator_and_scope() -> None:
    settings = control_settings()
    assert {(one.operator, one.scope) for one in settings.tokens} == {(f"{s}-operator", s) for s in TOKENS}
    assert (settings.host, settings.port) == ("127.0.0.1", 8081)
    assert all(token not in repr(settings) for token in TOKENS.values())


def test_the_map_may_come_from_a_file() -> None:
    files = {"/run/tokens": token_map().encode() + b"\n"}
    environ = {"GATEWAY_CONTROL_STATE_URL": "memory://local", "GATEWAY_CONTROL_TOKENS_FILE": "/run/tokens"}
    assert len(load_control_settings(environ, read_file=files.__getitem__).tokens) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not set"),
        ("{", "is not valid JSON at line 1, column 2"),
        ("[" * 100_000, "is not valid JSON"),
        ("[]", "must be a JSON object"),
        ("{}", "names no token"),
        (tokens((TOKEN[:15], entry())), "entry 1 has a token of 15 characters; at least 16"),
        (tokens((f"{TOKEN} x", entry())), "entry 1 has a token with other than visible ASCII"),
        (tokens((TOKEN, entry()), (TOKEN, entry("config"))), "entry 2 has the token of an earlier one"),
        (tokens((TOKEN, entry("admin"))), "entry 1 needs a scope: read, operate or config"),
        (tokens((TOKEN, entry(operator=""))), "entry 1 needs an operator"),
        (tokens((TOKEN, entry(operator="a\nb"))), "entry 1 needs an operator"),
        (tokens((TOKEN, entry(operator="\ud800"))), "entry 1 needs an operator"),
        (tokens((TOKEN, entry(operator="x" * 129))), "entry 1 needs an operator"),
        (tokens((TOKEN, "alice")), "entry 1 must be an object"),
        (tokens((TOKEN, {**entry(), "name": "x"})), "entry 1 has a field besides operator and scope"),
        (f'{{"{TOKEN}": {{"operator": "a", "operator": "b", "scope": "read"}}}}', "entry 1 names a field twice"),
    ],
)
def test_a_malformed_map_is_refused_by_the_entry_and_never_by_the_token(text: str, said: str) -> None:
    (problem,) = problems(CONTROL_TOKENS=text)
    assert said in problem
    assert TOKEN[:15] not in problem


def test_every_problem_of_a_map_and_of_the_environment_is_named_at_once() -> None:
    found = problems(
        CONTROL_TOKENS=tokens(("short", entry()), (TOKEN, entry("root"))),
        CONTROL_PORT="x",
        PROTECTED_ROUTES="ok,Not An Id",
        CONTROL_TOKNS="",
        RATE_LIMIT_BUCKET_MS="70000",
    )
    assert len(found) == 5
    assert sum("entry 1 has a token of 5 characters" in one and "entry 2 needs a scope" in one for one in found) == 1


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"CONTROL_METRICS_TOKEN": TOKEN}, "GATEWAY_CONTROL_METRICS_TOKEN"),
        ({"CONTROL_STATE_URL": f"redis://user:{TOKEN}@host/0"}, "the password in GATEWAY_CONTROL_STATE_URL"),
        ({"CONTROL_STATE_URL": f"redis://user:{TOKEN.replace('-', '%2d')}@host/0"}, "the password in GATEWAY_CONTROL"),
        ({"STATE_URL": f"postgres://data:{TOKEN}@host/db"}, "the password in GATEWAY_STATE_URL"),
        ({"SESSION_SECRET": TOKEN}, "GATEWAY_SESSION_SECRET"),
        ({"ACCESS_TOKEN": TOKEN}, "GATEWAY_ACCESS_TOKEN"),
    ],
)
def test_a_token_that_is_another_secret_too_stops_the_start(environment: dict[str, str], name: str) -> None:
    (problem,) = problems(CONTROL_TOKENS=tokens(("x" * 31 + "y", entry()), (TOKEN, entry())), **environment)
    assert "entry 2 has the token that is also" in problem
    assert name in problem
    assert TOKEN not in problem


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("replace-this-by-a-token-of-your-own-1234", "is published"),
        ("x" * 64, "one repeated character"),
        ("0123456789abcdef" * 2, "too weak"),
    ],
)
def test_production_refuses_tokens_that_are_known_or_weak(token: str, said: str) -> None:
    (problem,) = problems(ENV="production", CONTROL_TOKENS=tokens((token, entry())))
    assert said in problem
    assert token not in problem
    (problem,) = problems(ENV="production", CONTROL_TOKENS=tokens((STRONG, entry())), CONTROL_METRICS_TOKEN=token)
    assert problem.startswith("GATEWAY_CONTROL_METRICS_TOKEN")
    assert said in problem


def test_production_refuses_a_state_that_no_gateway_shares() -> None:
    (problem,) = problems(
        ENV="production", CONTROL_TOKENS=tokens((STRONG, entry())), CONTROL_STATE_URL="memory://local"
    )
    assert problem.startswith("GATEWAY_CONTROL_STATE_URL: memory://local is shared with no gateway")


def test_two_prefixes_are_refused_since_a_gateway_has_one() -> None:
    """What is written under another prefix than the gateway's is read by nobody."""
    (problem,) = problems(CONTROL_KEY_PREFIX="one", CONTROL_SHARED_STATE_KEY_PREFIX="two")
    assert problem.startswith("GATEWAY_CONTROL_SHARED_STATE_KEY_PREFIX: differs from GATEWAY_CONTROL_KEY_PREFIX")
    both = {"GATEWAY_CONTROL_KEY_PREFIX": "one", "GATEWAY_CONTROL_SHARED_STATE_KEY_PREFIX": "one"}
    assert load_control_store({**BASE, **both}).key_prefix == "one"


def test_the_gateways_defaults_are_read_from_the_same_variables() -> None:
    gateways = control_settings(
        MAX_BODY_BYTES="7",
        ACCESS_CACHE_TTL_MS="9",
        TRUSTED_PROXIES="10.0.0.1/32",
        WS_REVALIDATE_INTERVAL_MS="0",
        STATE_TIMEOUT_MS="750",
    ).gateways
    assert gateways.route_defaults.max_body_bytes == 7
    assert gateways.route_defaults.access_cache_ttl_ms == 9
    assert gateways.surroundings.revalidate_interval_ms == 0
    assert len(gateways.surroundings.trusted_proxies) == 1
    assert gateways.state_timeout_s == 0.75


def test_names_of_the_gateway_that_it_has_no_business_with_are_left_alone() -> None:
    control_settings(OIDC_CLIENT_ID="x", PORT="not a port", SESSION_SECRET="s")


def test_a_sentinel_without_redis_is_a_setting_without_effect() -> None:
    (problem,) = problems(CONTROL_STATE_URL="memory://local", REDIS_SENTINEL_MASTER="m")
    assert problem.startswith("GATEWAY_REDIS_SENTINEL_MASTER: has no effect")


def test_the_migrations_need_the_state_and_nothing_else() -> None:
    store = load_control_store({"GATEWAY_CONTROL_STATE_URL": "postgres://u:p@h/d"})
    assert store.state_url.reveal() == "postgres://u:p@h/d"
    with pytest.raises(SettingsInvalid):
        load_control_store({})
