"""The tables of the shared state, for migrations and for whoever reads them with a query.

They lie in a schema of their own, named by the prefix of the state; the search path finds it. Times are milliseconds
since the epoch by the server's clock. Rows whose time is over are never answered; a sweep removes them.
The data plane does not import this module: it calls the functions that the migrations create.
"""

from __future__ import annotations

from sqlalchemy import ARRAY, BigInteger, CheckConstraint, ForeignKey, Identity, Index, LargeBinary, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

UNLOGGED = {"prefixes": ["UNLOGGED"]}
"""Of what a crash of the server may empty: caches and counters, which Redis would lose as well."""


class Base(DeclarativeBase):
    """All tables."""

    type_annotation_map = {int: BigInteger, str: Text, bytes: LargeBinary}  # noqa: RUF012 (the library's own form)


class SessionRow(Base):
    """A browser's session. `place` is the order of creation. `id_hash` is ordered by its bytes on every server."""

    __tablename__ = "sessions"
    __table_args__ = (Index("sessions_subject", "subject", "place"), Index("sessions_idle_end_ms", "idle_end_ms"))

    id_hash: Mapped[str] = mapped_column(Text(collation="C"), primary_key=True)
    place: Mapped[int] = mapped_column(Identity(always=True))
    subject: Mapped[str]
    email: Mapped[str]
    roles: Mapped[list[str]] = mapped_column(ARRAY(Text))
    created_ms: Mapped[int]
    touched_ms: Mapped[int]
    idle_end_ms: Mapped[int]
    end_ms: Mapped[int]


class DecisionRow(Base):
    """An explicit answer of Access to a question of `decided_ms`. `subject` and `workspace` are digests; both are NULL
    where it is not known whose it is, and the second is empty where no workspace was named.
    """

    __tablename__ = "decisions"
    __table_args__ = (
        Index("decisions_end_ms", "end_ms"),
        Index("decisions_subject", "subject"),
        Index("decisions_workspace", "workspace"),
        UNLOGGED,
    )

    key: Mapped[bytes] = mapped_column(primary_key=True)
    allow: Mapped[bool]
    reason_code: Mapped[str]
    decided_ms: Mapped[int]
    end_ms: Mapped[int]
    subject: Mapped[bytes | None]
    workspace: Mapped[bytes | None]


class DecisionDropsRow(Base):
    """How often decisions were dropped: one row."""

    __tablename__ = "decision_drops"
    __table_args__ = (CheckConstraint("id = 1", name="decision_drops_is_one"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    count: Mapped[int]


class BudgetRow(Base):
    """The window of one key. `counts` holds age and count of each bucket that is not empty, oldest first; ages are
    relative to the bucket `newest`. Without an index on its end, most changes of a row touch no index at all.
    """

    __tablename__ = "budgets"
    __table_args__ = (UNLOGGED,)

    key: Mapped[bytes] = mapped_column(primary_key=True)
    window_ms: Mapped[int] = mapped_column(primary_key=True)
    bucket_ms: Mapped[int] = mapped_column(primary_key=True)
    newest: Mapped[int]
    used: Mapped[int]
    counts: Mapped[list[int]] = mapped_column(ARRAY(BigInteger))
    end_ms: Mapped[int]


class SweepRow(Base):
    """How far the round through the budgets' table is, in pages, and when it began: 0 between two rounds. One row, or
    none before the first.
    """

    __tablename__ = "sweeps"
    __table_args__ = (CheckConstraint("id = 1", name="sweeps_is_one"), UNLOGGED)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    place: Mapped[int]
    began_ms: Mapped[int]


class HeartbeatRow(Base):
    """What a replica last said of itself."""

    __tablename__ = "heartbeats"
    __table_args__ = (UNLOGGED,)

    replica: Mapped[str] = mapped_column(primary_key=True)
    revision: Mapped[int]
    last_error: Mapped[str]
    time_ms: Mapped[int]
    end_ms: Mapped[int]


class LeaseRow(Base):
    """A lease, or what is left of one: the row stays for its fence."""

    __tablename__ = "leases"

    name: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str]
    fence: Mapped[int]
    end_ms: Mapped[int]


class ChallengeRow(Base):
    """The answer to an authority's challenge."""

    __tablename__ = "challenges"

    token: Mapped[str] = mapped_column(primary_key=True)
    answer: Mapped[str]
    end_ms: Mapped[int]


class SealedRow(Base):
    """A value that the server cannot read, and the fence of the lease under which it was written."""

    __tablename__ = "sealed"

    name: Mapped[str] = mapped_column(primary_key=True)
    blob: Mapped[bytes]
    fence: Mapped[int]


class AuthFailureRow(Base):
    """The times of an address's failed authentications at the control plane."""

    __tablename__ = "auth_failures"
    __table_args__ = (Index("auth_failures_end_ms", "end_ms"), UNLOGGED)

    address: Mapped[str] = mapped_column(primary_key=True)
    times: Mapped[list[int]] = mapped_column(ARRAY(BigInteger))
    end_ms: Mapped[int]


class RevisionRow(Base):
    """A revision of the route table. Nobody may change or delete one."""

    __tablename__ = "revisions"

    revision: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    document: Mapped[bytes]
    time_ms: Mapped[int]
    operator: Mapped[str]
    action: Mapped[str]


class PointerRow(Base):
    """The pointer at the active revision: one row, or none in an empty store."""

    __tablename__ = "pointer"
    __table_args__ = (CheckConstraint("id = 1", name="pointer_is_one"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    revision: Mapped[int] = mapped_column(ForeignKey("revisions.revision"))


class AuditRow(Base):
    """An entry of the audit trail. Nobody may change or delete one."""

    __tablename__ = "audit"
    __table_args__ = (
        Index("audit_time_ms", "time_ms", "id"),
        Index("audit_action", "action", "id"),
        Index("audit_operator", "operator", "id"),
        Index("audit_action_operator", "action", "operator", "id"),
    )

    id: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    time_ms: Mapped[int]
    action: Mapped[str]
    target: Mapped[str]
    operator: Mapped[str]
    scope: Mapped[str]
    client: Mapped[str]
    request_id: Mapped[str]
