"""Values on Redis: what is written, and what is read back or told apart as not ours.

A value begins with the letter of its kind and the format's version, such as `s1 ` for a session. `Foreign` is what a
reader raises for anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from common.state.coordination import Heartbeat
from common.state.ports import Decision, NewSession, Session
from common.state.redis.keys import subject_digest
from common.state.sealed import Sealed
from common.state.table_store import AuditEntry, NewAuditEntry


class Foreign(ValueError):
    """A value that this software did not write, or of which a part is missing."""


def session_payload(new: NewSession) -> bytes:
    """The part of a session's record that never changes: the digest of its subject, and the rest as JSON."""
    return subject_digest(new.subject).encode() + b" " + _json((new.subject, new.email, new.roles))


def read_session_record(id_hash: str, value: bytes) -> Session:
    """`s1 <created> <touched> <idle end> <end> <digest> <JSON>` as a session."""
    try:
        mark, created, touched, idle_end, end, digest, body = value.split(b" ", 6)
        subject, email, roles = orjson.loads(body)
        session = Session(id_hash, subject, email, tuple(roles), int(created), int(touched), int(idle_end), int(end))
    except (ValueError, TypeError, AttributeError):
        raise Foreign("a session") from None
    times = (created, touched, idle_end, end)
    if mark != b"s1" or len(digest) != 32 or not all(time.isdigit() and len(time) <= 15 for time in times):
        raise Foreign("a session")
    if not isinstance(roles, list) or not _are_text(subject, email, *roles):
        raise Foreign("a session")
    return session


def read_decision_record(value: bytes, now: int) -> Decision | None:
    """`d1 <asked> <0 or 1> <reason>` as a decision at a time; None for one that was asked for later than that."""
    try:
        mark, asked, allow, reason = value.split(b" ", 3)
        decision = Decision(allow == b"1", reason.decode(), now - int(asked))
    except ValueError:
        raise Foreign("a decision") from None
    if mark != b"d1" or allow not in (b"0", b"1") or not asked.isdigit() or len(asked) > 15:
        raise Foreign("a decision")
    return decision if decision.age_ms >= 0 else None


def heartbeat_payload(replica: str, revision: int, last_error: str) -> bytes:
    return _json((replica, revision, last_error))


def read_heartbeat_record(value: bytes) -> Heartbeat:
    """`h1 <time> <JSON>` as a heartbeat."""
    try:
        mark, time_ms, body = value.split(b" ", 2)
        replica, revision, last_error = orjson.loads(body)
        heartbeat = Heartbeat(replica, revision, last_error, int(time_ms))
    except (ValueError, TypeError, AttributeError):
        raise Foreign("a heartbeat") from None
    if mark != b"h1" or not time_ms.isdigit() or len(time_ms) > 15:
        raise Foreign("a heartbeat")
    if type(revision) is not int or not _are_text(replica, last_error):
        raise Foreign("a heartbeat")
    return heartbeat


def read_sealed_record(value: bytes) -> Sealed:
    """`e1 <fence> <blob>` as a sealed value."""
    parts = value.split(b" ", 2)
    if len(parts) != 3 or parts[0] != b"e1" or not parts[1].isdigit() or len(parts[1]) > 15:
        raise Foreign("a sealed value")
    return Sealed(parts[2], int(parts[1]))


def audit_payload(entry: NewAuditEntry) -> bytes:
    return _json((entry.action, entry.target, entry.operator, entry.scope, entry.client, entry.request_id))


def read_audit_record(value: bytes) -> AuditEntry:
    """`a1 <id> <time> <JSON>` as an entry of the audit trail."""
    try:
        mark, number, time_ms, body = value.split(b" ", 3)
        told: list[Any] = orjson.loads(body)
        entry = AuditEntry(int(number), int(time_ms), *told)
    except (ValueError, TypeError, AttributeError):
        raise Foreign("an audit entry") from None
    if mark != b"a1" or not _are_text(*told):
        raise Foreign("an audit entry")
    return entry


def _json(values: Sequence[object]) -> bytes:
    """`ValueError` for a text that UTF-8 cannot hold."""
    try:
        return orjson.dumps(values)
    except TypeError as error:
        raise ValueError(f"the state cannot hold this value: {error}") from None


def _are_text(*values: object) -> bool:
    return all(isinstance(value, str) for value in values)
