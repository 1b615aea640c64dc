"""What an upstream is told of a caller: the values of the identity headers (§7.1, §7.4, CONTRACT §7.1).

    Principal, workspace -> written_identity -> IdentityFields -> headers, and the same fields into the signature

The values are made once, here, and both the headers and the signed payload are written from them. So a value can
neither be read differently by the two nor lose a byte on the wire that the signature covers.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from common.identity.principal import Principal
from common.values import remember

VALUE_MAX_CHARS = 512
"""Code points of a subject, an email and a workspace id (§7.1)."""

USER_ID = b"x-gateway-user-id"
EMAIL = b"x-gateway-email"
ROLES = b"x-gateway-roles"
WORKSPACE_ID = b"x-gateway-workspace-id"
AUTHENTICATED = b"x-gateway-authenticated"
SIGNATURE = b"x-gateway-signature"

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")  # Unicode's category Cc


class SubjectUnwritable(ValueError):
    """A subject that no header can carry unchanged. Rewriting it could merge two callers, so it is refused."""


@dataclass(frozen=True, slots=True)
class IdentityFields:
    """A caller as headers and signature state it; `""` and `()` stand for what is absent."""

    subject: str
    email: str = ""
    workspace_id: str = ""
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WrittenIdentity:
    """A caller's values, and the headers that carry them: UTF-8, without the signature, none for what is absent.

    `lines` are those headers as they are sent.
    """

    fields: IdentityFields
    headers: tuple[tuple[bytes, bytes], ...]
    lines: bytes


def written_identity(principal: Principal, workspace_id: str | None) -> WrittenIdentity:
    """What is written of a caller, a function of its arguments alone. Raises `SubjectUnwritable`."""
    subject, email, roles = principal.subject, principal.email, principal.roles
    key = subject, email, roles, workspace_id
    written = _remembered.get(key)
    if written is None:
        written = _write(principal, workspace_id)
        if len(subject) + len(email) + sum(map(len, roles)) + len(workspace_id or "") <= _REMEMBERED_MAX_CHARS:
            remember(_remembered, key, written, _REMEMBERED_MAX)
    return written


def _write(principal: Principal, workspace_id: str | None) -> WrittenIdentity:
    fields = IdentityFields(
        subject=_writable_subject(principal.subject),
        email=sanitized(principal.email),
        workspace_id=sanitized(workspace_id or ""),
        roles=writable_roles(principal.roles),
    )
    headers = [(AUTHENTICATED, b"true"), (USER_ID, fields.subject.encode())]
    if fields.email:
        headers.append((EMAIL, fields.email.encode()))
    if fields.roles:
        headers.append((ROLES, ",".join(fields.roles).encode()))
    if fields.workspace_id:
        headers.append((WORKSPACE_ID, fields.workspace_id.encode()))
    return WrittenIdentity(fields, tuple(headers), b"".join([b"%b: %b\r\n" % header for header in headers]))


# A caller repeats, and the values cost some microseconds to make. Both bounds together keep this under 12 MiB.
_REMEMBERED_MAX = 1024
_REMEMBERED_MAX_CHARS = 1024
_remembered: OrderedDict[tuple[str, str, tuple[str, ...], str | None], WrittenIdentity] = OrderedDict()


def sanitized(text: str) -> str:
    """Text without control characters and without what no UTF-8 header can carry, at most 512 code points.

    Outer spaces go too: HTTP strips them from a header value (RFC 9110 §5.5), and the signature covers what arrives.
    """
    kept = _encodable(_CONTROL.sub("", text)).strip(" ")
    return kept[:VALUE_MAX_CHARS].rstrip(" ")


def writable_roles(roles: Iterable[str]) -> tuple[str, ...]:
    """The roles that a comma-separated header states without doubt: sorted by code point, each once.

    A role is dropped when it holds a comma or a control character, when it is empty, or when it begins or ends with a
    space: a reader that trims the list's items would take ` admin` for `admin`.
    """
    return tuple(sorted({role for role in roles if _is_writable_role(role)}))


def _is_writable_role(role: str) -> bool:
    return bool(role) and "," not in role and role.strip(" ") == role and _is_plain(role)


def _writable_subject(subject: str) -> str:
    if not subject:
        raise SubjectUnwritable("the subject is empty")
    if len(subject) > VALUE_MAX_CHARS:
        raise SubjectUnwritable(f"the subject is longer than {VALUE_MAX_CHARS} characters")
    if not _is_plain(subject):
        raise SubjectUnwritable("the subject holds a character that a header cannot carry")
    if subject.strip(" ") != subject:
        raise SubjectUnwritable("the subject begins or ends with a space, which a header cannot carry")
    return subject


def _is_plain(text: str) -> bool:
    return _CONTROL.search(text) is None and _encodable(text) == text


def _encodable(text: str) -> str:
    """Text without lone surrogates, which JSON can spell and UTF-8 cannot."""
    return text if text.isascii() else text.encode("utf-8", "ignore").decode()
