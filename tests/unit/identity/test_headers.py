"""The values that say who calls: unchanged, or not at all, or safely less."""

from __future__ import annotations

import pytest

from common.identity.headers import SubjectUnwritable, sanitized, writable_roles, written_identity
from common.identity.principal import Principal


@pytest.mark.parametrize("subject", ["a", "auth0|1", "x" * 512, "\u00e9\U0001f600", "a b", 'a"\\b', "a\u2028b", "a,b"])
def test_a_subject_is_written_unchanged(subject: str) -> None:
    written = written_identity(Principal(subject), None)
    assert written.fields.subject == subject
    assert dict(written.headers)[b"x-gateway-user-id"] == subject.encode()


@pytest.mark.parametrize(
    "subject",
    ["", "x" * 513, "a\x00b", "a\tb", "a\nb", "a\x1f", "\x7f", "a\x80", "a\x9f", " a", "a ", " ", "a\ud800", "\udfff"],
)
def test_a_subject_that_would_change_on_the_way_is_refused(subject: str) -> None:
    with pytest.raises(SubjectUnwritable):
        written_identity(Principal(subject), None)


def test_a_refusal_does_not_quote_the_subject() -> None:
    with pytest.raises(SubjectUnwritable) as raised:
        written_identity(Principal("alice@example.com\n"), None)
    assert "alice" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("user@example.com", "user@example.com"),
        ("", ""),
        ("a\r\nX-Gateway-Roles: admin", "aX-Gateway-Roles: admin"),
        ("\x00\x1f\x7f\x80\x9f", ""),
        ("a\u00a0b", "a\u00a0b"),
        (" outer ", "outer"),
        ("\x01 outer \x01", "outer"),
        ("lone\ud800", "lone"),
        ("x" * 513, "x" * 512),
        ("\U0001f600" * 600, "\U0001f600" * 512),
        ("x" * 511 + " y", "x" * 511),
        ("\x00" * 10 + "x" * 512, "x" * 512),
    ],
)
def test_email_and_workspace_lose_what_a_header_cannot_carry(text: str, kept: str) -> None:
    assert sanitized(text) == kept
    assert sanitized(sanitized(text)) == kept
    written = written_identity(Principal("a", text), text)
    assert (written.fields.email, written.fields.workspace_id) == (kept, kept)
    assert dict(written.headers).get(b"x-gateway-email", b"") == kept.encode()
    assert dict(written.headers).get(b"x-gateway-workspace-id", b"") == kept.encode()


@pytest.mark.parametrize(
    ("roles", "written"),
    [
        ((), ()),
        (("dev", "admin"), ("admin", "dev")),
        (("a", "a"), ("a",)),
        (("a,b", "c"), ("c",)),
        (("a\nb", "\x9f", "c"), ("c",)),
        (("", " ", " a", "a "), ()),
        (("Zeta", "alpha", "\u00e9", "\U0001f600", "\uffee"), ("Zeta", "alpha", "\u00e9", "\uffee", "\U0001f600")),
        (("\ud800", "a b"), ("a b",)),
    ],
)
def test_roles_are_a_sorted_list_that_reads_one_way(roles: tuple[str, ...], written: tuple[str, ...]) -> None:
    assert writable_roles(roles) == written
    header = dict(written_identity(Principal("a", roles=roles), None).headers).get(b"x-gateway-roles")
    assert header == (",".join(written).encode() if written else None)


def test_what_is_absent_has_no_header() -> None:
    written = written_identity(Principal("a"), None)
    assert written.headers == ((b"x-gateway-authenticated", b"true"), (b"x-gateway-user-id", b"a"))


def test_what_is_remembered_is_never_another_callers() -> None:
    callers = [
        Principal("a", "b"),
        Principal("ab"),
        Principal("a", "", ("b",)),
        Principal("a", roles=("b", "c")),
        Principal("a", roles=("b,c",)),
    ]
    first = [written_identity(caller, workspace) for caller in callers for workspace in (None, "w")]
    again = [written_identity(caller, workspace) for caller in callers for workspace in (None, "w")]
    assert first == again
    assert [entry.fields.email for entry in first][:4] == ["b", "b", "", ""]


def test_a_large_identity_is_written_like_a_small_one() -> None:
    roles = tuple(f"role-{number:04}" for number in range(1_000))
    written = written_identity(Principal("a", roles=roles[::-1]), None)
    assert written.fields.roles == roles
