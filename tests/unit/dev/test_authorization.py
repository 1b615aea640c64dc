"""The development provider's rules, on values."""

from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.settings.secret import Secret
from dataplane.dev.accounts import GUEST, MEMBER
from dataplane.dev.authorization import (
    CODE_LIFETIME_S,
    INTERACTION_LIFETIME_S,
    MAX_PENDING,
    AuthorizationRefused,
    AuthorizationRequest,
    Client,
    Grant,
    InvalidGrant,
    PendingLogins,
    UntrustedRequest,
    read_authorization_request,
    verifier_matches,
)

CALLBACK = "http://localhost:8080/auth/callback"
CLIENT = Client("gateway", Secret("s" * 40), (CALLBACK,), ("http://localhost:8080/",))
VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
GOOD = {
    "client_id": "gateway",
    "redirect_uri": CALLBACK,
    "response_type": "code",
    "scope": "openid email",
    "state": "state-1",
    "nonce": "nonce-1",
    "code_challenge": CHALLENGE,
    "code_challenge_method": "S256",
}
REQUEST = AuthorizationRequest(CALLBACK, "state-1", "nonce-1", "openid", CHALLENGE)
GRANT = Grant(REQUEST, MEMBER, 1_000.0)


def _changed(**changes: str | None) -> list[tuple[str, str]]:
    merged: dict[str, str | None] = {**GOOD, **changes}
    return [(name, value) for name, value in merged.items() if value is not None]


def test_a_complete_request_is_read() -> None:
    assert read_authorization_request(_changed(), CLIENT) == AuthorizationRequest(
        CALLBACK, "state-1", "nonce-1", "openid email", CHALLENGE
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"client_id": "another"},
        {"client_id": None},
        {"redirect_uri": None},
        {"redirect_uri": CALLBACK + "/"},
        {"redirect_uri": CALLBACK + "?x=1"},
        {"redirect_uri": CALLBACK.upper()},
        {"redirect_uri": "http://localhost:8080@evil.test/auth/callback"},
        {"redirect_uri": "http://127.0.0.1:8080/auth/callback"},
    ],
)
def test_nobody_is_redirected_for_an_unknown_client_or_address(changes: dict[str, str | None]) -> None:
    with pytest.raises(UntrustedRequest):
        read_authorization_request(_changed(**changes), CLIENT)


@pytest.mark.parametrize("name", ["client_id", "redirect_uri"])
def test_a_repeated_client_or_address_is_not_trusted(name: str) -> None:
    with pytest.raises(UntrustedRequest):
        read_authorization_request([*_changed(), (name, GOOD[name])], CLIENT)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": None}, "unsupported_response_type"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"scope": "email"}, "invalid_scope"),
        ({"scope": "xopenid"}, "invalid_scope"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": CHALLENGE[:-1]}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"state": None}, "invalid_request"),
        ({"nonce": ""}, "invalid_request"),
        ({"request": "e30."}, "request_not_supported"),
        ({"request_uri": "http://evil.test/"}, "request_uri_not_supported"),
        ({"prompt": "none"}, "login_required"),
    ],
)
def test_a_broken_rule_is_answered_at_the_client(changes: dict[str, str | None], error: str) -> None:
    with pytest.raises(AuthorizationRefused) as refused:
        read_authorization_request(_changed(**changes), CLIENT)
    assert (refused.value.error, refused.value.redirect_uri) == (error, CALLBACK)


@pytest.mark.parametrize("name", ["state", "nonce", "code_challenge", "scope"])
def test_a_repeated_parameter_is_refused(name: str) -> None:
    with pytest.raises(AuthorizationRefused, match="repeated"):
        read_authorization_request([*_changed(), (name, "other")], CLIENT)


def test_a_code_works_once() -> None:
    pending = PendingLogins()
    code = pending.issue_code(GRANT, 0.0)
    assert pending.redeem(code, CALLBACK, VERIFIER, 1.0) == GRANT
    with pytest.raises(InvalidGrant):
        pending.redeem(code, CALLBACK, VERIFIER, 1.0)


@pytest.mark.parametrize(
    ("redirect_uri", "verifier", "at_s"),
    [
        (CALLBACK + "x", VERIFIER, 1.0),
        (CALLBACK, "w" * 64, 1.0),
        (CALLBACK, "", 1.0),
        (CALLBACK, VERIFIER, CODE_LIFETIME_S + 0.001),
    ],
)
def test_a_failed_exchange_uses_the_code_up(redirect_uri: str, verifier: str, at_s: float) -> None:
    pending = PendingLogins()
    code = pending.issue_code(GRANT, 0.0)
    with pytest.raises(InvalidGrant):
        pending.redeem(code, redirect_uri, verifier, at_s)
    with pytest.raises(InvalidGrant):
        pending.redeem(code, CALLBACK, VERIFIER, 1.0)


def test_a_code_works_until_its_last_moment() -> None:
    pending = PendingLogins()
    assert pending.redeem(pending.issue_code(GRANT, 5.0), CALLBACK, VERIFIER, 5.0 + CODE_LIFETIME_S) == GRANT


def test_a_sign_in_page_works_once_and_not_for_ever() -> None:
    pending = PendingLogins()
    used, late = pending.open(REQUEST, 0.0), pending.open(REQUEST, 0.0)
    assert pending.take(used, 1.0) == REQUEST
    assert pending.take(used, 1.0) is None
    assert pending.take(late, INTERACTION_LIFETIME_S + 1) is None
    assert pending.take("never-issued", 1.0) is None


def test_pending_logins_are_bounded_and_the_oldest_goes() -> None:
    pending = PendingLogins()
    opened = [pending.open(REQUEST, 0.0) for _ in range(MAX_PENDING + 1)]
    assert pending.take(opened[0], 1.0) is None
    assert pending.take(opened[1], 1.0) == REQUEST
    assert pending.take(opened[-1], 1.0) == REQUEST


def test_two_sign_ins_at_once_do_not_meet() -> None:
    pending = PendingLogins()
    other = Grant(AuthorizationRequest(CALLBACK, "state-2", "nonce-2", "openid", CHALLENGE), GUEST, 1_000.0)
    first, second = pending.issue_code(GRANT, 0.0), pending.issue_code(other, 0.0)
    assert pending.redeem(second, CALLBACK, VERIFIER, 1.0).account is GUEST
    assert pending.redeem(first, CALLBACK, VERIFIER, 1.0).account is MEMBER


def test_the_published_example_of_s256_verifies() -> None:
    """RFC 7636 appendix B."""
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert verifier_matches(verifier, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")


@given(st.text(max_size=140))
def test_no_other_verifier_matches(verifier: str) -> None:
    assert verifier_matches(verifier, CHALLENGE) is (verifier == VERIFIER)


def test_a_client_is_known_by_both_its_id_and_secret() -> None:
    assert CLIENT.authenticates("gateway", "s" * 40)
    assert not CLIENT.authenticates("gateway", "s" * 39)
    assert not CLIENT.authenticates("other", "s" * 40)
    assert not CLIENT.authenticates("gateway", "")
