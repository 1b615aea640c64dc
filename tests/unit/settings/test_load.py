"""The environment is validated as a whole, every problem at once (§4.1)."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from common.settings.errors import SettingsInvalid
from common.settings.gateway import GatewaySettings
from common.settings.load import load_gateway_settings, runtime_problem
from common.settings.variables import VARIABLES
from tests.support.environments import MINIMAL, PRODUCTION, load, problems


def test_an_environment_that_names_only_the_table_gives_the_defaults_of_the_settings() -> None:
    loaded, defaults = load(MINIMAL), GatewaySettings()
    for field in dataclasses.fields(GatewaySettings):
        if field.name != "session_secret":
            assert getattr(loaded, field.name) == getattr(defaults, field.name), field.name


def test_every_field_of_the_settings_has_its_variable_and_every_variable_its_field() -> None:
    fields = {field.name for field in dataclasses.fields(GatewaySettings)}
    named = {variable.field for variable in VARIABLES if variable.field}
    assert named == fields
    assert [v.name for v in VARIABLES if not v.field] == ["GATEWAY_SINGLE_REPLICA"]


def test_every_problem_is_reported_at_once_and_names_its_variable() -> None:
    found = problems(
        {},
        PORT="eighty",
        CSRF_STRICT="yes",
        LOG_LEVEL="verbose",
        PUBLIC_URL="app.example.com",
        TRUSTED_PROXIES="10.0.0.1/8",
        UNKNOWN="1",
    )
    assert sorted(problem.partition(":")[0] for problem in found) == [
        "GATEWAY_CONFIG",
        "GATEWAY_CSRF_STRICT",
        "GATEWAY_LOG_LEVEL",
        "GATEWAY_PORT",
        "GATEWAY_PUBLIC_URL",
        "GATEWAY_TRUSTED_PROXIES",
        "GATEWAY_UNKNOWN",
    ]


def test_a_problem_never_repeats_a_value_since_it_may_be_a_misplaced_secret() -> None:
    marker = "mArKeR-s3cr3t"
    changes: dict[str, str | None] = {v.name.removeprefix("GATEWAY_"): f"{marker}\x01 {marker}" for v in VARIABLES}
    found = problems({}, **changes)
    assert len(found) > 40
    assert marker not in "\n".join(found)
    secret_files = {f"{v.name.removeprefix('GATEWAY_')}_FILE": f"/x/{marker}" for v in VARIABLES if v.secret}
    assert marker not in "\n".join(problems(MINIMAL, **secret_files))


@pytest.mark.parametrize("text", ["", " ", "-1", "+1", "1_000", "0x50", "80 ", "٣", "1e3", "65536", "9" * 30])
def test_a_port_is_digits_within_bounds_and_nothing_that_python_would_read_too(text: str) -> None:
    assert bool(problems(MINIMAL, PORT=text)) is (text != "")


@pytest.mark.parametrize("text", ["True", "1", "yes", "on", "true ", "TRUE"])
def test_a_boolean_is_true_or_false_and_nothing_else(text: str) -> None:
    assert problems(MINIMAL, CSRF_STRICT=text) == ("GATEWAY_CSRF_STRICT: must be true or false",)


def test_milliseconds_become_seconds_where_the_field_says_so() -> None:
    settings = load(MINIMAL, ACCESS_TIMEOUT_MS="1500", SESSION_IDLE_MS="60000", HEAD_TIMEOUT_MS="1")
    assert (settings.access_timeout_s, settings.session_idle_ms, settings.head_timeout_s) == (1.5, 60_000, 0.001)


def test_a_variable_set_to_nothing_counts_as_absent() -> None:
    assert load(MINIMAL, PORT="", METRICS_TOKEN="", OIDC_ISSUER="").port == 8080
    assert "GATEWAY_CONFIG: is not set" in problems(MINIMAL, CONFIG="")[0]


def test_lists_are_read_in_order() -> None:
    settings = load(
        MINIMAL,
        ALLOWED_ORIGINS="https://A.example.com:443, http://b.example.com:8080",
        OIDC_SCOPES="openid groups",
        OIDC_REQUIRED_TOKEN_CLAIMS="token_use=access,tenant=a=b",
        TRUSTED_PROXIES="10.0.0.4/32,fd00::4",
    )
    assert settings.allowed_origins == ("https://a.example.com", "http://b.example.com:8080")
    assert settings.oidc_scopes == ("openid", "groups")
    assert settings.oidc_required_token_claims == (("token_use", "access"), ("tenant", "a=b"))
    assert [str(network) for network in settings.trusted_proxies] == ["10.0.0.4/32", "fd00::4/128"]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("ALLOWED_ORIGINS", "https://a.example.com,,https://b.example.com", "empty entry"),
        ("ALLOWED_ORIGINS", "https://a.example.com,null", "entry 2 is no origin"),
        ("ALLOWED_ORIGINS", "*", "entry 1 is no origin"),
        ("ALLOWED_ORIGINS", "https://a.example.com/", "entry 1 has a path"),
        ("ALLOWED_ORIGINS", "https://user@a.example.com", "entry 1 holds a user name"),
        ("TRUSTED_PROXIES", "10.0.0.4/32,proxy", "entry 2 is not a range"),
        ("TRUSTED_PROXIES", "10.0.0.4/8", "has bits set behind its prefix"),
        ("OIDC_SCOPES", "email profile", "must contain openid"),
        ("OIDC_SCOPES", "openid,email", "must contain openid"),
        ("OIDC_SCOPES", "openid  email", "single spaces"),
        ("OIDC_REQUIRED_TOKEN_CLAIMS", "typ", "entry 1 must be name=value"),
        ("OIDC_REQUIRED_TOKEN_CLAIMS", "a=1,a=2", "entry 2 names its claim again"),
        ("OIDC_ROLES_CLAIM", "realm_access..roles", "single dots"),
        ("PUBLIC_URL", "https://app.example.com/gateway", "has a path"),
        ("PUBLIC_URL", "https://app.example.com?x", "query or fragment"),
        ("PUBLIC_URL", "https://user:pass@app.example.com", "user name or password"),
        ("PUBLIC_URL", "https://", "no valid host"),
        ("PUBLIC_URL", "https://app.example.com:0", "port"),
        ("PUBLIC_URL", "https://app.example.com:", "port"),
        ("PUBLIC_URL", "https://app.example.com:99999", "port"),
        ("PUBLIC_URL", "https://[::1", "no valid host"),
        ("PUBLIC_URL", "https://app-.example.com", "no valid host"),
        ("PUBLIC_URL", "https://[fe80::1%25eth0]", "no valid host"),
        ("PUBLIC_URL", "ftp://app.example.com", "http:// or https://"),
        ("PUBLIC_URL", "https://bücher.example", "A-labels"),
        ("PUBLIC_URL", "https:\\\\app.example.com", "character that a URL cannot have"),
        ("HOST", "[::]", "without port and brackets"),
        ("HOST", "0.0.0.0:80", "without port and brackets"),
        ("METRICS_TOKEN", "two words", "visible ASCII"),
        ("SESSION_SECRET", "line\nline", "control character"),
        ("STATE_URL", "mysql://user:pass@localhost/db", "must begin with redis://"),
        ("STATE_URL", "memory://", "must begin with redis://"),
        ("STATE_URL", "redis://:secret@/0", "no valid host"),
        ("STATE_URL", "redis://a,b:x/0", "no valid host"),
        ("STATE_URL", "redis://a b/0", "a URL cannot have"),
        ("STATE_URL", "postgres://user:pass@a,b/db", "several hosts"),
        ("STATE_PREFIX", "Gateway", "lower-case"),
        ("STATE_PREFIX", "pg_gateway", "keeps for itself"),
        ("STATE_PREFIX", "a" * 32, "lower-case"),
        ("STATE_TIMEOUT_MS", "9", "from 10 to"),
        ("REPLICA_ID", "a b", "visible"),
        ("CONFIG_SOURCE", "store", "needs a shared state"),
        ("REDIS_SENTINEL_MASTER", "main", "has no effect without Redis"),
        ("POSTGRES_SYNCHRONOUS_COMMIT", "on", "has no effect without Postgres"),
        ("CONFIG_SOURCE", "etcd", "must be file"),
        ("RATE_LIMIT_BUCKET_MS", "999", "at least 1000"),
        ("RATE_LIMIT_BUCKET_MS", "60001", "longer than GATEWAY_RATE_LIMIT_WINDOW_MS"),
    ],
)
def test_a_value_that_would_not_do_what_it_looks_like_is_refused(name: str, text: str, says: str) -> None:
    (problem,) = problems(MINIMAL, **{name: text})
    assert problem.startswith(f"GATEWAY_{name}: ")
    assert says in problem


def test_sixty_buckets_are_allowed() -> None:
    assert load(MINIMAL, RATE_LIMIT_WINDOW_MS="60", RATE_LIMIT_BUCKET_MS="1").rate_limit_bucket_ms == 1


def test_urls_are_kept_in_the_form_that_is_compared_later() -> None:
    settings = load(
        PRODUCTION,
        PUBLIC_URL="HTTPS://App.Example.com:443/",
        OIDC_ISSUER="https://id.example.com/",
        ACCESS_URL="http://access:3000/base/",
        ACCESS_TOKEN="f" * 20 + "kJ8vN2qR5tY7wZ1xC4bM",
    )
    assert settings.public_url == "https://app.example.com"
    assert settings.oidc_issuer == "https://id.example.com/"
    assert settings.access_url == "http://access:3000/base"


def test_the_public_url_follows_the_port_in_development() -> None:
    assert load(MINIMAL, PORT="9000").public_url == "http://localhost:9000"


def test_the_audience_is_the_client_id_unless_it_is_named() -> None:
    named = {"OIDC_ISSUER": "http://id", "OIDC_CLIENT_ID": "gateway", "OIDC_CLIENT_SECRET": "x"}
    assert load(MINIMAL, **named).oidc_audience == "gateway"
    assert load(MINIMAL, **named, OIDC_AUDIENCE="api").oidc_audience == "api"
    assert GatewaySettings(oidc_client_id="gateway").oidc_audience == "gateway"


def test_without_a_session_secret_each_process_makes_its_own() -> None:
    assert load(MINIMAL).session_secret != load(MINIMAL).session_secret


@pytest.mark.parametrize(
    ("changes", "absent"),
    [
        ({"OIDC_ISSUER": "http://id"}, {"OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET"}),
        ({"OIDC_CLIENT_ID": "gateway"}, {"OIDC_ISSUER"}),
        ({"OIDC_CLIENT_SECRET": "x"}, {"OIDC_ISSUER", "OIDC_CLIENT_ID"}),
        ({"ACCESS_URL": "http://access"}, {"ACCESS_TOKEN"}),
        ({"ACCESS_TOKEN": "x"}, {"ACCESS_URL"}),
    ],
)
def test_half_of_what_belongs_together_is_refused(changes: dict[str, str], absent: set[str]) -> None:
    assert {text.partition(":")[0] for text in problems(MINIMAL, **changes)} == {f"GATEWAY_{n}" for n in absent}


def test_a_provider_that_is_away_is_no_problem_of_the_settings() -> None:
    """Start-up that asks the provider would fail for good while it is away."""
    settings = load(MINIMAL, OIDC_ISSUER="http://127.0.0.1:1/nobody", OIDC_CLIENT_ID="gateway", OIDC_CLIENT_SECRET="x")
    assert settings.oidc_issuer == "http://127.0.0.1:1/nobody"


def test_only_a_recent_cpython_is_accepted_and_nothing_else_is_said_before(monkeypatch: pytest.MonkeyPatch) -> None:
    assert runtime_problem("cpython", (3, 11)) is None
    assert runtime_problem("cpython", (4, 0)) is None
    for implementation, version in (("cpython", (3, 10)), ("pypy", (3, 11))):
        problem = runtime_problem(implementation, version)
        assert problem is not None
        assert "CPython 3.11 or later" in problem
    monkeypatch.setattr("common.settings.runtime.MIN_PYTHON", (99, 0))
    with pytest.raises(SettingsInvalid) as caught:
        load_gateway_settings({"GATEWAY_PORT": "wrong"})
    assert len(caught.value.problems) == 1


def test_the_settings_are_frozen_and_name_what_a_route_falls_back_to() -> None:
    settings = load(MINIMAL, UPSTREAM_ATTEMPT_TIMEOUT_MS="1234", MAX_BODY_BYTES="0", ACCESS_STALE_GRACE_MS="7")
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.port = 1  # type: ignore[misc]
    defaults = settings.route_defaults
    assert (defaults.upstream_attempt_ms, defaults.max_body_bytes, defaults.access_stale_grace_ms) == (1234, 0, 7)
    assert GatewaySettings().route_defaults == type(defaults)()
    assert settings.config == Path("gateway.json")


@pytest.mark.parametrize("base", [MINIMAL, PRODUCTION])
def test_several_workers_need_a_shared_state(base: dict[str, str]) -> None:
    (problem,) = problems(base, WORKERS="2")
    assert problem.startswith("GATEWAY_WORKERS: several workers need a shared state")
    assert load(base, WORKERS="2", STATE_URL="redis://localhost/0").workers == 2
    assert load(base, WORKERS="1").workers == 1
    assert problems(base, WORKERS="0") == problems(base, WORKERS="auto") != ()
