"""The rules for claims, at their edges (§5.4, CONTRACT "Settled details: Tokens")."""

from __future__ import annotations

from typing import Any

import pytest

from dataplane.oidc.claims import BearerRules, IdTokenRules, check_bearer, check_id_token, email, roles
from dataplane.oidc.errors import TokenRefused

NOW = 1_800_000_000.0
ISSUER = "https://id.example.com"
BEARER = BearerRules(ISSUER, "api", max_age_s=86_400)
ID_TOKEN = IdTokenRules(ISSUER, "gateway")
NONE = object()


def claims(**changes: object) -> dict[str, Any]:
    full = {"iss": ISSUER, "aud": "api", "sub": "alice", "iat": NOW - 10, "exp": NOW + 300, **changes}
    return {name: value for name, value in full.items() if value is not NONE}


def id_claims(**changes: object) -> dict[str, Any]:
    return claims(**{"aud": "gateway", "nonce": "n", **changes})


def refusal(changes: dict[str, object], rules: BearerRules = BEARER) -> str | None:
    try:
        check_bearer(claims(**changes), rules, NOW)
    except TokenRefused as refused:
        return refused.reason
    return None


@pytest.mark.parametrize(
    ("offset", "reason"), [(-120, "expired"), (-59, "expired"), (-5, "expired"), (-4.9, None), (4, None), (120, None)]
)
def test_expiry_is_judged_with_five_seconds_of_tolerance(offset: float, reason: str | None) -> None:
    assert refusal({"exp": NOW + offset}) == reason


@pytest.mark.parametrize("name", ["nbf", "iat"])
@pytest.mark.parametrize(("offset", "reason"), [(-120, None), (-4, None), (4, None), (5, None), (5.1, "invalid")])
def test_a_token_of_the_future_is_refused(name: str, offset: float, reason: str | None) -> None:
    assert refusal({name: NOW + offset}) == reason


@pytest.mark.parametrize("name", ["exp", "nbf", "iat"])
@pytest.mark.parametrize(
    "value",
    [None, True, "1800000300", "", [1_800_000_300], {}, float("nan"), float("inf"), float("-inf"), 1e300, 10**400],
)
def test_a_date_that_is_no_number_is_refused(name: str, value: object) -> None:
    assert refusal({name: value}) == "invalid"


def test_a_date_may_have_a_fraction() -> None:
    assert refusal({"exp": NOW + 300.5, "iat": NOW - 10.5, "nbf": NOW - 0.5}) is None


def test_a_token_without_expiry_is_refused() -> None:
    assert refusal({"exp": NONE}) == "invalid"


@pytest.mark.parametrize(
    "issuer", [NONE, None, "", f"{ISSUER}/", "https://ID.example.com", [ISSUER], "https://evil.example", 5]
)
def test_the_issuer_is_compared_as_text(issuer: object) -> None:
    assert refusal({"iss": issuer}) == "invalid"


@pytest.mark.parametrize("audience", ["api", ["api"], ["other", "api"], ["api", "api"]])
def test_the_audience_may_be_one_of_several(audience: object) -> None:
    assert refusal({"aud": audience}) is None


@pytest.mark.parametrize("audience", [NONE, None, "", "API", "api ", "other", [], ["other"], {"api": 1}, [["api"]], 5])
def test_a_token_for_another_audience_is_refused(audience: object) -> None:
    assert refusal({"aud": audience}) == "invalid"


@pytest.mark.parametrize("subject", [NONE, None, "", 5, ["alice"], {}])
def test_a_token_of_nobody_is_refused(subject: object) -> None:
    assert refusal({"sub": subject}) == "invalid"


def test_the_lifetime_is_bounded_and_not_what_is_left_of_it() -> None:
    assert refusal({"iat": NOW - 86_000, "exp": NOW + 400}) is None
    assert refusal({"iat": NOW - 86_000, "exp": NOW + 401}) == "invalid"
    assert refusal({"iat": NOW - 86_400 * 30, "exp": NOW + 1}) == "invalid"


def test_without_an_issue_time_the_lifetime_is_not_known() -> None:
    assert refusal({"iat": NONE}) == "invalid"
    assert refusal({"iat": NONE}, BearerRules(ISSUER, "api", max_age_s=0)) is None


def test_a_bound_of_zero_lets_a_token_live_long() -> None:
    assert refusal({"iat": NOW - 86_400 * 30, "exp": NOW + 86_400 * 365}, BearerRules(ISSUER, "api", 0)) is None


@pytest.mark.parametrize("nonce", ["n", "", None, 5])
def test_a_token_with_a_nonce_is_an_id_token(nonce: object) -> None:
    assert refusal({"nonce": nonce}) == "invalid"
    assert refusal({"nonce": nonce}, BearerRules(ISSUER, "api", 86_400, reject_nonce=False)) is None


def test_a_logout_token_is_no_access_token() -> None:
    assert refusal({"events": {"http://schemas.openid.net/event/backchannel-logout": {}}}) == "invalid"
    assert refusal({"events": {"other": {}}}) is None


@pytest.mark.parametrize(
    ("value", "accepted"),
    [("access", True), (["id", "access"], True), ("Access", False), ("", False), (None, False), (NONE, False),
     ({"access": 1}, False), ([["access"]], False), (True, False)],
)  # fmt: skip
def test_a_required_claim_must_say_what_is_required(value: object, accepted: bool) -> None:
    rules = BearerRules(ISSUER, "api", 86_400, required=(("token_use", "access"),))
    assert (refusal({"token_use": value}, rules) is None) == accepted


def test_every_required_claim_is_required() -> None:
    rules = BearerRules(ISSUER, "api", 86_400, required=(("typ", "Bearer"), ("level", "2"), ("verified", "true")))
    assert refusal({"typ": "Bearer", "level": 2, "verified": True}, rules) is None
    assert refusal({"typ": "Bearer", "level": 2, "verified": "false"}, rules) == "invalid"
    assert refusal({"typ": "Bearer", "level": 3, "verified": True}, rules) == "invalid"
    assert refusal({"typ": "Bearer"}, rules) == "invalid"


def test_an_id_token_of_this_login_is_accepted() -> None:
    check_id_token(id_claims(), ID_TOKEN, "n", NOW)
    check_id_token(id_claims(aud=["gateway"]), ID_TOKEN, "n", NOW)
    check_id_token(id_claims(aud=["gateway", "api"], azp="gateway"), ID_TOKEN, "n", NOW)


@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": NONE}, {"nonce": ""}, {"nonce": "N"}, {"nonce": "nn"}, {"nonce": None}, {"nonce": ["n"]},
        {"aud": "api"}, {"aud": []}, {"aud": ["gateway", "api"]}, {"aud": ["gateway", "gateway"]},
        {"aud": ["gateway", "api"], "azp": "api"}, {"azp": "api"}, {"azp": None},
        {"iss": "https://evil.example"}, {"sub": NONE}, {"exp": NONE}, {"exp": NOW - 5}, {"iat": NONE},
        {"iat": NOW + 6}, {"nbf": NOW + 6},
    ],
)  # fmt: skip
def test_an_id_token_of_another_login_client_or_time_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(TokenRefused):
        check_id_token(id_claims(**changes), ID_TOKEN, "n", NOW)


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("roles", {"roles": ["a", "b"]}, ("a", "b")),
        ("roles", {"roles": "admin"}, ("admin",)),
        ("roles", {"roles": ""}, ()),
        ("roles", {"roles": []}, ()),
        ("roles", {}, ()),
        ("roles", {"roles": None}, ()),
        ("roles", {"roles": 5}, ()),
        ("roles", {"roles": {"a": 1}}, ()),
        ("roles", {"roles": ["a", 5, None, "", ["b"], "c"]}, ("a", "c")),
        ("realm_access.roles", {"realm_access": {"roles": ["a"]}}, ("a",)),
        ("realm_access.roles", {"realm_access": ["roles"]}, ()),
        ("realm_access.roles", {"realm_access": "roles"}, ()),
        ("realm_access.roles", {"realm_access": {}}, ()),
        ("a.b.c", {"a": {"b": {"c": "d"}}}, ("d",)),
        ("https://example.com/roles", {"https://example.com/roles": ["a"]}, ("a",)),
        ("a.b", {"a.b": ["whole"], "a": {"b": ["nested"]}}, ("whole",)),
        ("", {"": "odd"}, ("odd",)),
    ],
)
def test_roles_are_found_at_a_dotted_path(path: str, value: dict[str, Any], found: tuple[str, ...]) -> None:
    assert roles(value, path) == found


@pytest.mark.parametrize(("value", "found"), [("a@b.c", "a@b.c"), ("", ""), (None, ""), (5, ""), (["a@b.c"], "")])
def test_an_email_is_text_or_absent(value: object, found: str) -> None:
    assert email({"email": value}) == found
    assert email({}) == ""
