"""Production refuses to start unless every row of the contract holds (§4.3)."""

from __future__ import annotations

import pytest

from common.settings import published
from common.settings.keys import key_fingerprint
from common.settings.strength import secret_bytes, weakness
from common.settings.urls import is_private_host
from tests.support.environments import MINIMAL, P256_PEM, PRODUCTION, load, problems

STRONG = "kJ8vN2qR5tY7wZ1xC4bM6nL9pS3dF0gH"


def names(found: tuple[str, ...]) -> list[str]:
    return sorted(text.partition(":")[0].removeprefix("GATEWAY_") for text in found)


def test_a_complete_production_environment_starts() -> None:
    settings = load(PRODUCTION)
    assert settings.production
    assert settings.oidc_audience == "gateway"


@pytest.mark.parametrize(
    "name",
    [
        "OIDC_ISSUER",
        "OIDC_CLIENT_ID",
        "OIDC_CLIENT_SECRET",
        "OIDC_AUDIENCE",
        "PUBLIC_URL",
        "SESSION_SECRET",
        "IDENTITY_SIGNING_KEY",
    ],
)
def test_each_required_variable_is_missed_by_name(name: str) -> None:
    (problem,) = problems(PRODUCTION, **{name: None})
    assert problem.startswith(f"GATEWAY_{name}: production needs it")


def test_an_empty_production_environment_names_all_of_them_at_once() -> None:
    assert names(problems({}, ENV="production")) == [
        "CONFIG",
        "IDENTITY_SIGNING_KEY",
        "OIDC_AUDIENCE",
        "OIDC_CLIENT_ID",
        "OIDC_CLIENT_SECRET",
        "OIDC_ISSUER",
        "PUBLIC_URL",
        "SESSION_SECRET",
        "STATE_URL",
    ]


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"PUBLIC_URL": "http://app.example.com"}, ["PUBLIC_URL"]),
        ({"OIDC_ISSUER": "http://id.example.com"}, ["OIDC_ISSUER"]),
        ({"OIDC_ISSUER": "HTTPS://id.example.com"}, []),
        ({"SINGLE_REPLICA": "false"}, ["STATE_URL"]),
        ({"SINGLE_REPLICA": None}, ["STATE_URL"]),
        ({"SESSION_SECRET": "short"}, ["SESSION_SECRET"]),
        ({"METRICS_TOKEN": "short"}, ["METRICS_TOKEN"]),
        ({"METRICS_TOKEN": STRONG}, []),
        ({"METRICS_TOKEN": ""}, []),
        ({"ACCESS_URL": "http://access.example.com", "ACCESS_TOKEN": STRONG}, ["ACCESS_URL"]),
        ({"ACCESS_URL": "https://access.example.com", "ACCESS_TOKEN": STRONG}, []),
        ({"ACCESS_URL": "http://access:3000", "ACCESS_TOKEN": "a" * 64}, ["ACCESS_TOKEN"]),
        ({"OIDC_CLIENT_SECRET": "a" * 64}, ["OIDC_CLIENT_SECRET"]),
        ({"OIDC_CLIENT_SECRET": "short-but-given-by-the-provider"}, []),
        ({"TRUSTED_PROXIES": "10.0.0.0/28,fd00::/124"}, []),
        ({"TRUSTED_PROXIES": "10.0.0.0/27"}, ["TRUSTED_PROXIES"]),
        ({"TRUSTED_PROXIES": "fd00::/123,10.0.0.0/8"}, ["TRUSTED_PROXIES", "TRUSTED_PROXIES"]),
        ({"TRUSTED_PROXIES": "10.0.0.0/33"}, ["TRUSTED_PROXIES"]),
        ({"OIDC_CLIENT_AUTH": "private_key_jwt"}, ["OIDC_CLIENT_KEY", "OIDC_CLIENT_SECRET"]),
        ({"OIDC_CLIENT_AUTH": "private_key_jwt", "OIDC_CLIENT_SECRET": None, "OIDC_CLIENT_KEY": P256_PEM}, []),
    ],
)
def test_each_row_refuses_what_breaks_it(changes: dict[str, str | None], refused: list[str]) -> None:
    assert names(problems(PRODUCTION, **changes)) == refused


def test_none_of_it_is_asked_of_a_development_machine() -> None:
    development = {name: text for name, text in PRODUCTION.items() if name != "GATEWAY_SINGLE_REPLICA"}
    changes: dict[str, str | None] = {
        "ENV": "development",
        "PUBLIC_URL": "http://localhost:8080",
        "SESSION_SECRET": "x",
        "METRICS_TOKEN": "x",
        "TRUSTED_PROXIES": "0.0.0.0/0",
        "ACCESS_URL": "http://access.example.com",
        "ACCESS_TOKEN": "x",
    }
    assert problems(development, **changes) == ()
    assert load(MINIMAL).production is False


def test_a_value_that_cannot_be_read_is_reported_once_and_not_as_missing_too() -> None:
    assert names(problems(PRODUCTION, OIDC_ISSUER="nonsense", IDENTITY_SIGNING_KEY="nonsense")) == [
        "IDENTITY_SIGNING_KEY",
        "OIDC_ISSUER",
    ]


@pytest.mark.parametrize(
    ("text", "count", "strong"),
    [
        ("3f9a1c5e7b2d4f60" * 4, 32, True),
        ("3f9a1c5e7b2d4f60" * 2, 16, False),  # 32 hexadecimal characters
        ("3F9A1C5E7B2D4F60" * 3 + "3F9A1C5E7B2D4F6", 31, False),
        ("q" + "83vEjRWeJq/83vEjRWeJq+83vEjRWeJq83vEjRWeJq8"[:42] + "=", 32, True),  # 44 of base64
        ("83vEjRWeJq/83vEjRWeJq+83vEjRWeJq83vEjRWe", 30, False),  # 40 of base64
        ("q83vEjRWeJqrze8SNFZ4mg==", 16, False),
        ("correct horse battery staple 32!", 32, True),
        ("correct horse battery staple 31", 31, False),
        ("kJ8vN2qR5tY7wZ1xC4bM6nL9pS3dF0gH", 32, True),
        ("x", 1, False),
    ],
)
def test_a_secret_counts_as_it_is_read(text: str, count: int, strong: bool) -> None:
    assert secret_bytes(text)[0] == count
    assert (weakness(text) is None) is strong


def test_one_repeated_character_is_no_secret_whatever_its_length() -> None:
    for text in ("a" * 200, "0" * 64, "é" * 40):
        assert "one repeated character" in (weakness(text) or "")


def test_a_published_value_or_key_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "PUBLISHED_SECRETS", frozenset({STRONG}))
    monkeypatch.setattr("common.settings.production.PUBLISHED_KEYS", frozenset({key_fingerprint(P256_PEM)}))
    found = problems(
        PRODUCTION,
        SESSION_SECRET=STRONG,
        OIDC_CLIENT_SECRET=STRONG,
        METRICS_TOKEN=STRONG,
        ACCESS_URL="https://access.example.com",
        ACCESS_TOKEN=STRONG,
    )
    assert names(found) == [
        "ACCESS_TOKEN",
        "IDENTITY_SIGNING_KEY",
        "METRICS_TOKEN",
        "OIDC_CLIENT_SECRET",
        "SESSION_SECRET",
    ]
    assert all("published" in text for text in found)


def test_a_placeholder_is_no_secret() -> None:
    for text in ("replace-this-with-your-own-secret-of-32", "Please-CHANGE-ME-before-production-please"):
        assert "published" in (weakness(text) or "")


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "access", "my_service", "127.0.0.1", "127.255.0.1", "10.1.2.3", "172.16.0.1", "172.31.255.254"),
        *("192.168.1.1", "169.254.1.1", "::1", "[::1]", "fd12::1", "fe80::1", "::ffff:10.0.0.1", "ACCESS", "access."),
        *("access.internal", "a.b.local", "access.apps.svc", "access.apps.svc.cluster.local", "x.localhost"),
    ],
)
def test_a_private_host_is_recognised(host: str) -> None:
    assert is_private_host(host)


@pytest.mark.parametrize(
    "host",
    [
        *("example.com", "access.example.com", "8.8.8.8", "172.32.0.1", "192.169.0.1", "0.0.0.0", "2001:db8::1", "::"),
        *("::ffff:8.8.8.8", "134744072", "0x08080808", "127.1", "8.8.8", "internal.example.com", "evil-internal.com"),
        *("", ".", ".internal", "a..local", "access@evil.com", "0177.0.0.1", "10.0.0.1.example.com"),
    ],
)
def test_what_only_looks_private_is_not(host: str) -> None:
    """A number is an address to many resolvers: `http://134744072` leads to 8.8.8.8."""
    assert not is_private_host(host)
