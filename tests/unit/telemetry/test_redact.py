"""No credential of a caller, upstream or provider reaches a log (§12.2)."""

from __future__ import annotations

import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.telemetry.redact import (
    EXACT_NAMES,
    NAME_PARTS,
    REDACTED,
    TEXT_MAX,
    bounded,
    escape_controls,
    is_sensitive_name,
    redact_target,
    redact_text,
    safe_target,
    safe_text,
)

MARKER = "m4rK3rZ9"
NAMES = [
    *(
        "access_token",
        "code",
        "code_verifier",
        "id_token",
        "refresh_token",
        "state",
        "token",
        "client_secret",
        "password",
    ),
    *(
        "client_assertion",
        "id_token_hint",
        "session_state",
        "X-Amz-Security-Token",
        "apiKey",
        "api-key",
        "SAMLResponse",
    ),
    *(
        "device_code",
        "user_code",
        "jwt",
        "sig",
        "signature",
        "nonce",
        "passwd",
        "gateway_session",
        "gateway_oidc_state",
    ),
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "shape",
    [
        "/p?{name}={value}",
        "/p?a=1&{name}={value}&b=2",
        "/p?a=1;{name}={value}",
        "/p#{name}={value}",
        "/p;{name}={value}/q",
        "/p/{name}={value}",
        "/p?a=1&{NAME}={value}",
        "/p?{escaped}={value}",
        "/p?{twice}={value}",
        "/p?{name}%3D{value}",
        "/p%3F{name}%3D{value}",
        "/p%253F{name}%253D{value}",
        "/p?{name}%20={value}",
        "/p?{name}[]={value}",
        "/p?next=%2Fcallback%3F{name}%3D{value}%26x%3D1",
        "/p?next=https%3A%2F%2Fapp.example.com%2F%3F{name}%3D{value}",
        "https://app.example.com/cb?{name}={value}",
    ],
)
def test_no_parameter_of_a_credential_survives_wherever_it_stands(name: str, shape: str) -> None:
    target = shape.format(
        name=name,
        NAME=name.upper(),
        value=MARKER,
        escaped="".join(f"%{ord(char):02x}" for char in name),
        twice="".join(f"%25{ord(char):02X}" for char in name),
    )
    assert MARKER not in redact_target(target)
    assert REDACTED in redact_target(target)
    assert MARKER not in safe_text(f"upstream answered 302 to {target} (refused)")


@given(
    name=st.sampled_from(NAMES),
    escaped=st.sets(st.integers(0, 30)),
    upper=st.sets(st.integers(0, 30)),
    rounds=st.integers(0, 3),
    before=st.sampled_from(["/?", "/a?b=c&", "/a;", "/x?u=%2F%3F", "/#"]),
    after=st.sampled_from(["", "&z=1", "#f", ";q=2", "/rest"]),
)
def test_no_spelling_of_a_name_lets_its_value_through(
    name: str, escaped: set[int], upper: set[int], rounds: int, before: str, after: str
) -> None:
    spelled = "".join(
        f"%{ord(char):02X}" if at in escaped else char.upper() if at in upper else char for at, char in enumerate(name)
    )
    for _ in range(rounds):
        spelled = quote(spelled, safe="%") if "%" not in spelled else spelled.replace("%", "%25")
    assert MARKER not in safe_target(f"{before}{spelled}={MARKER}{after}")


@pytest.mark.parametrize(
    "target",
    [
        *(
            "/",
            "*",
            "/a/b.html",
            "/a?",
            "/a?page=2&sort=name",
            "/a?q=a%20b",
            "/%C3%A4?x=%C3%A4",
            "/a?codec=h264&statement=1",
        ),
        *("/a?x=1&&y=2", "/a?=1", "/a?b#c", "/a;v=1/b", "/a?zip_code=1", "/caf%C3%A9=1", "/a?x==&y=%3D%3D", "/100%"),
    ],
)
def test_a_target_without_credentials_stays_byte_for_byte(target: str) -> None:
    assert safe_target(target) == target


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=200))
def test_redaction_of_anything_ends_and_is_stable(text: str) -> None:
    once = redact_target(text)
    assert redact_target(once) == once
    redact_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://user:{marker}@upstream:3000/path",
        "http://{marker}@upstream",
        "connect to https://user:{marker}@upstream:3000/x?y=1 failed",
        "//user:{marker}@upstream/",
        "http://us%3Aer:p%40{marker}@upstream/",
        "http://user:p@{marker}@upstream/",
        "/go?to=http%3A%2F%2Fuser%3A{marker}%40upstream%2F",
    ],
)
def test_user_info_of_a_url_is_removed(text: str) -> None:
    text = text.format(marker=MARKER)
    assert MARKER not in safe_text(text)
    assert MARKER not in safe_target(text)
    assert "upstream" in safe_text(text) or REDACTED in safe_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Basic {marker}",
        "authorization: bearer {marker}",
        "AUTHORIZATION:Bearer  {marker}",
        "Authorization: Basic\r\n {marker}\r\nAccept: */*",
        "Proxy-Authorization: Digest username={marker}, response={marker}",
        "Authorization: Custom {marker} {marker}",
        "Cookie: a=1; gateway_session={marker}; b=2",
        "Set-Cookie: sid={marker}; HttpOnly",
        "X-Api-Key: {marker}",
        "x-api-key={marker}",
        "headers [(b'authorization', b'Bearer {marker}'), (b'x', b'y')]",
        "headers {{'cookie': 'session={marker}'}}",
        'header "Authorization": "Basic {marker}"',
        "sent Bearer {marker} and got 401",
        "sent bAsIc {marker}== and got 401",
        "sent Basic\t{marker}",
        '{{"access_token": "{marker}", "token_type": "Bearer"}}',
        '{{"access_token":"{marker} with spaces"}}',
        "{{'client_secret': '{marker}'}}",
        "password = {marker}",
        'password="two words {marker}"',
        "token: {marker}",
        "('cookie', 'a={marker}')",
        "Referer: https://app.example.com/cb?code={marker}&state={marker}",
        "grant_type=authorization_code&code={marker}&code_verifier={marker}",
        "token eyJhbGciOiJIUzI1NiJ9.{marker}.{marker} is expired",
        "/verify/eyJhbGciOiJub25lIn0.{marker}.",
    ],
)
def test_no_credential_survives_in_a_message_or_an_upstreams_error(text: str) -> None:
    """A redactor once removed the word Basic and kept the secret."""
    assert MARKER not in safe_text(text.format(marker=MARKER))


@pytest.mark.parametrize(
    "text",
    [
        "bearer token expired",
        "the Bearer token has no exp, and its Basic authentication failed",
        "connection refused by http://app:3000 after 5000 ms",
        "issuer is https://id.example.com, not https://other.example.com",
        "routes[2].match.path: must begin with /",
        "status 502: upstream closed (reset)",
        "bearer token: expired",
        "the code verifier: mismatch, so no token.",
        "GATEWAY_SESSION_SECRET: is not set; GATEWAY_ACCESS_TOKEN: a route asks Access",
        "no authorization, no cookie, 401",
        "Überlauf: naïve 漢字 ✓",
    ],
)
def test_a_message_without_credentials_stays_as_it_is(text: str) -> None:
    assert safe_text(text) == text


def test_a_password_may_be_a_short_word() -> None:
    assert safe_text("password: letmein") == "password: [redacted]"
    assert safe_text("token=letmein") == "token=[redacted]"


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a\r\nb", r"a\r\nb"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x00\x7f\x9b", r"\x00\x7f\x9b"),
        ("\u2028\u202e\ufeff", r"\u2028\u202e\ufeff"),
        ("\ud800", r"\ud800"),
        ("tab\tq", r"tab\tq"),
        ("plain ä 漢", "plain ä 漢"),
        ("no\u00a0break", "no\u00a0break"),
    ],
)
def test_what_steers_a_terminal_or_breaks_a_line_is_escaped(text: str, escaped: str) -> None:
    assert escape_controls(text) == escaped


@given(st.text())
def test_an_escaped_text_is_one_line_of_utf8(text: str) -> None:
    shown = escape_controls(text)
    assert len(shown.splitlines()) <= 1
    shown.encode("utf-8")
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in shown)


def test_a_long_text_is_cut_and_says_by_how_much() -> None:
    assert bounded("x" * TEXT_MAX) == "x" * TEXT_MAX
    assert bounded("x" * (TEXT_MAX + 1)) == "x" * TEXT_MAX + "…[1 more]"


@pytest.mark.parametrize("length", [TEXT_MAX - 30, TEXT_MAX - 10, TEXT_MAX, 2 * TEXT_MAX - 8, 2 * TEXT_MAX])
def test_a_cut_uncovers_no_credential(length: int) -> None:
    """Text that is cut before it is redacted may lose the end by which a credential is known."""
    text = "x" * length + f" http://user:{MARKER}@upstream/?access_token={MARKER} Authorization: Basic\r\n {MARKER}"
    assert MARKER not in safe_text(text)
    assert MARKER not in safe_target("/" + text)


@pytest.mark.parametrize("before", ["", "/?", "%41", "a=b", "\n"])
@pytest.mark.parametrize("after", ["", "=", ":", "@", "%"])
@pytest.mark.parametrize(
    "unit",
    [
        *(
            "a",
            "=",
            "%",
            "%25",
            "a:",
            "://",
            "://a@",
            "bearer ",
            "cookie:\n ",
            "cookie ",
            "eyJ",
            "eyJaaaaaaaaaa.",
            "&a=%3d",
        ),
        *("a%41 ", 'a:"', "-.", "-", "[", "a=", "a='", " ", "\n", "é", "token", "token=", "x-api-key"),
    ],
)
def test_a_megabyte_made_to_be_slow_costs_little(unit: str, before: str, after: str) -> None:
    """A caller chooses its target and an upstream its errors: neither may hold the loop for long."""
    text = before + unit * (4_000 // len(unit)) + after

    def cost_s() -> float:
        started = time.process_time()
        safe_text(text)
        safe_target(text)
        safe_text(text * 200)
        return time.process_time() - started

    # The least of some: a collection of everything that the tests keep may fall into one of them.
    assert min(cost_s() for _ in range(3)) < 0.1


def test_a_flood_of_parameters_is_not_looked_at_to_its_end() -> None:
    target = "/p?" + "&".join(["a=%3d"] * 100) + f"&access_token={MARKER}"
    assert redact_target(target).endswith(REDACTED)
    assert MARKER not in redact_target(target)


def test_names_are_told_apart_without_case_and_separators() -> None:
    for name in (
        "Set-Cookie",
        "x_api_key",
        "ACCESS.TOKEN",
        "clientSecret",
        "refresh-token",
        "X-" + "y" * 80 + "-Token",
    ):
        assert is_sensitive_name(name), name
    for name in ("code", "state", "status", "path", "route", "key"):
        assert not is_sensitive_name(name), name
    assert all(part.isalnum() and part.islower() for part in (*NAME_PARTS, *EXACT_NAMES))


def test_a_parameter_too_nested_or_too_escaped_to_be_looked_at_is_removed() -> None:
    nested = "/p?a=" + "b=" * 40 + f"access_token={MARKER}"
    escaped = "/p?a=" + "%41" * 700 + f"%26access_token%3D{MARKER}"
    assert redact_target(nested) == f"/p?a={REDACTED}"
    assert redact_target(escaped) == f"/p?{REDACTED}"
    assert redact_target("/p?a=" + "b=" * 20) == "/p?a=" + "b=" * 20
    assert redact_target("/p?a=" + "%C3%A4" * 200) == "/p?a=" + "%C3%A4" * 200
