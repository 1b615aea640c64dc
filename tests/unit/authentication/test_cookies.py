"""The two cookies: their attributes to the byte, and a login cookie that nobody but the gateway writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.settings.secret import Secret
from common.state.ports import Session
from dataplane.authentication.cookies import (
    COOKIE_MAX_BYTES,
    PENDING_MAX,
    LoginCookie,
    clear_session_cookie,
    set_session_cookie,
    values_of,
)
from dataplane.authentication.redirects import REDIRECT_MAX
from dataplane.oidc.login import PendingLogin, new_pending_login

NOW = 1_800_000_000
COOKIE = LoginCookie(Secret("a secret of the deployment, 32 bytes"), secure=True)


def value(line: bytes) -> str:
    return line.decode("ascii").partition(";")[0].partition("=")[2]


def pending(count: int, redirect: str = "/") -> list[PendingLogin]:
    return [new_pending_login(redirect, NOW + number) for number in range(count)]


def session(idle_left_ms: int, left_ms: int) -> Session:
    return Session("h", "alice", "", (), 0, NOW, NOW + idle_left_ms, NOW + left_ms)


@pytest.mark.parametrize(
    ("idle", "age", "seconds"),
    [(28_800_000, 86_400_000, 28_800), (28_800_000, 9_999, 9), (1_999, 86_400_000, 1), (0, 0, 0), (-5, 10, 0)],
)
def test_the_session_cookie_never_outlives_its_session(idle: int, age: int, seconds: int) -> None:
    line = set_session_cookie("the-id", session(idle, age), secure=True)
    assert line == f"gateway_session=the-id; HttpOnly; SameSite=Lax; Path=/; Max-Age={seconds}; Secure".encode()


def test_the_session_cookie_is_taken_away_with_the_same_attributes() -> None:
    assert clear_session_cookie(secure=True) == b"gateway_session=; HttpOnly; SameSite=Lax; Path=/; Max-Age=0; Secure"
    assert clear_session_cookie(secure=False) == b"gateway_session=; HttpOnly; SameSite=Lax; Path=/; Max-Age=0"


def test_the_login_cookie_has_its_attributes() -> None:
    name, _, attributes = COOKIE.write(pending(1)).partition(b"; ")
    assert name.startswith(b"gateway_oidc_state=")
    assert attributes == b"HttpOnly; SameSite=Lax; Path=/auth; Max-Age=600; Secure"


def test_without_logins_the_cookie_goes() -> None:
    assert COOKIE.write([]) == b"gateway_oidc_state=; HttpOnly; SameSite=Lax; Path=/auth; Max-Age=0; Secure"


def test_what_was_written_is_read() -> None:
    logins = pending(3, "/a?b=c,d;e#f%20")
    assert COOKIE.read([value(COOKIE.write(logins))], NOW) == tuple(logins)


def test_of_many_logins_the_newest_four_stay() -> None:
    logins = pending(PENDING_MAX + 3)
    assert COOKIE.read([value(COOKIE.write(logins))], NOW) == tuple(logins[-4:])


def test_two_hundred_logins_that_nobody_finishes_leave_one_small_cookie() -> None:
    held: tuple[PendingLogin, ...] = ()
    for number in range(200):
        line = COOKIE.write((*held, new_pending_login(f"/page/{number}", NOW)))
        assert len(line) <= COOKIE_MAX_BYTES
        held = COOKIE.read([value(line)], NOW)
    assert [each.redirect for each in held] == [f"/page/{number}" for number in range(196, 200)]


@pytest.mark.parametrize("length", [1, 500, 560, 600, 700, 1_000, 1_500, REDIRECT_MAX])
def test_the_cookie_fits_every_browser_and_keeps_the_newest_login(length: int) -> None:
    logins = pending(4, "/" + "a" * (length - 1))
    line = COOKIE.write(logins)
    assert len(line) <= COOKIE_MAX_BYTES
    held = COOKIE.read([value(line)], NOW)
    assert held
    assert held == tuple(logins[-len(held) :])


@pytest.mark.parametrize(("age", "live"), [(0, True), (600, True), (601, False), (-30, True)])
def test_a_login_that_takes_longer_than_ten_minutes_is_over(age: int, live: bool) -> None:
    line = value(COOKIE.write([new_pending_login("/", NOW)]))
    assert bool(COOKIE.read([line], NOW + age)) == live


def test_a_cookie_signed_with_another_secret_is_none() -> None:
    other = LoginCookie(Secret("another secret of a deployment, 32"), secure=True)
    assert COOKIE.read([value(other.write(pending(1)))], NOW) == ()


@given(st.data())
def test_a_changed_cookie_is_none(data: st.DataObject) -> None:
    line = value(COOKIE.write(pending(2)))
    at = data.draw(st.integers(0, len(line) - 1))
    other = data.draw(st.characters(min_codepoint=0x20, max_codepoint=0xFF).filter(lambda c: c != line[at]))
    assert COOKIE.read([line[:at] + other + line[at + 1 :]], NOW) == ()


@given(st.one_of(st.text(), st.from_regex(r"[A-Za-z0-9_-]*\.?[A-Za-z0-9_-]*", fullmatch=True)))
def test_any_text_may_be_read(text: str) -> None:
    assert COOKIE.read([text], NOW) == ()


def test_a_signed_value_of_another_shape_is_none() -> None:
    for payload in ("", "e30", "W10", "WzFd", "W1tdXQ", "!!!"):
        assert COOKIE.read([f"{payload}.{COOKIE._tag(payload)}"], NOW) == ()


def test_of_several_login_cookies_every_one_that_is_ours_counts() -> None:
    """A cookie that a sibling host planted must not hide the login that was started here."""
    mine, planted = pending(1), pending(1)
    values = ["junk", value(COOKIE.write(planted)), value(COOKIE.write(mine))]
    assert set(COOKIE.read(values, NOW)) == {*mine, *planted}
    assert COOKIE.read(["junk"] * 50 + values, NOW) == ()


def test_the_values_of_a_repeated_cookie_are_given_once_each_and_in_order() -> None:
    pairs = [("a", "1"), ("b", "x"), ("a", "2"), ("a", "1"), ("A", "3")]
    assert values_of(pairs, "a") == ("1", "2")
    assert values_of([], "a") == ()
