"""The provider's metadata is taken only when it names the configured issuer and usable addresses."""

from __future__ import annotations

from typing import Any

import pytest

from dataplane.oidc.discovery import ProviderMetadata, metadata_address, read_metadata
from dataplane.oidc.errors import ProviderUnavailable

ISSUER = "https://id.example.com"


def document(issuer: str = ISSUER, **changes: object) -> dict[str, Any]:
    full = {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/auth?tenant=a",
        "token_endpoint": f"{issuer}/token",
        "jwks_uri": "https://keys.example.net/set",
        "end_session_endpoint": f"{issuer}/end",
        **changes,
    }
    return {name: value for name, value in full.items() if value is not None}


def test_a_complete_document_is_read() -> None:
    assert read_metadata(document(authorization_response_iss_parameter_supported=True), ISSUER) == ProviderMetadata(
        ISSUER, f"{ISSUER}/auth?tenant=a", f"{ISSUER}/token", "https://keys.example.net/set", f"{ISSUER}/end", True
    )


def test_what_may_be_absent_is_absent() -> None:
    metadata = read_metadata(document(end_session_endpoint=None), ISSUER)
    assert metadata.end_session_endpoint is None
    assert not metadata.sends_issuer


@pytest.mark.parametrize(
    ("issuer", "address"),
    [
        ("https://id.example.com", "https://id.example.com/.well-known/openid-configuration"),
        ("https://id.example.com/", "https://id.example.com/.well-known/openid-configuration"),
        ("https://id.example.com/realms/a", "https://id.example.com/realms/a/.well-known/openid-configuration"),
        ("https://id.example.com/realms/a/", "https://id.example.com/realms/a/.well-known/openid-configuration"),
    ],
)
def test_only_the_address_of_the_metadata_ignores_a_trailing_slash(issuer: str, address: str) -> None:
    assert metadata_address(issuer) == address


@pytest.mark.parametrize(
    "named",
    [
        "https://id.example.com/",
        "https://ID.example.com",
        "https://id.example.com:443",
        "http://id.example.com",
        "https://id.example.com/realms/a",
        "https://evil.example",
        "",
        None,
        5,
        ["https://id.example.com"],
    ],
)
def test_another_issuer_is_refused_and_both_are_named(named: object) -> None:
    with pytest.raises(ProviderUnavailable) as refused:
        read_metadata({**document(), "issuer": named}, ISSUER)
    assert repr(named) in str(refused.value)
    assert repr(ISSUER) in str(refused.value)


def test_an_issuer_with_a_slash_is_equal_to_itself_alone() -> None:
    assert read_metadata(document(f"{ISSUER}/"), f"{ISSUER}/").issuer == f"{ISSUER}/"
    with pytest.raises(ProviderUnavailable):
        read_metadata(document(ISSUER), f"{ISSUER}/")


BAD = [
    None,
    "",
    5,
    "token",
    "/token",
    "https://",
    "https://user@id.example.com/token",
    "https://id.example.com/token#here",
    "https://id.example.com/to ken",
    "https://id.example.com/to\tken",
    "https://id.example.com/\ntoken",
    "https://ïd.example.com/token",
    "https://id.example.com:0/",
    "https://id.example.com:x/",
    "https://[::1/token",
    "javascript:alert(1)",
    "http://id.example.com/token",
    "http://127.0.0.1/token",
]


@pytest.mark.parametrize("address", BAD)
@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "jwks_uri"])
def test_an_endpoint_that_is_no_https_address_is_refused(name: str, address: object) -> None:
    with pytest.raises(ProviderUnavailable, match=name):
        read_metadata({**document(), name: address}, ISSUER)


@pytest.mark.parametrize("address", BAD[1:])
def test_a_broken_end_session_endpoint_is_refused(address: object) -> None:
    with pytest.raises(ProviderUnavailable, match="end_session_endpoint"):
        read_metadata(document(end_session_endpoint=address), ISSUER)


@pytest.mark.parametrize("issuer", ["http://127.0.0.1:9000", "http://localhost:9000", "http://provider:9000"])
def test_a_development_issuer_may_have_plain_endpoints_on_its_own_network(issuer: str) -> None:
    assert read_metadata(document(issuer), issuer).token_endpoint == f"{issuer}/token"
    with pytest.raises(ProviderUnavailable, match="must be https"):
        read_metadata(document(issuer, jwks_uri="http://keys.example.net/set"), issuer)


def test_a_plain_issuer_out_in_the_world_is_refused() -> None:
    with pytest.raises(ProviderUnavailable, match="issuer must be https"):
        read_metadata(document("http://id.example.com"), "http://id.example.com")
