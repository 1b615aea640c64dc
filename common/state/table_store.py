"""Revisions of the route table in the shared state, the pointer at the active one, and the audit trail (§3.4, §12.7).

Revisions are immutable and numbered from 1 without a gap; only the pointer moves, and only to a revision that is
written with it. So the newest revision is the active one, and a rollback is a new revision with an old document.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ActiveTable:
    """What the pointer names. `revision` is 0 while the store is empty; `document` is None where it is known."""

    revision: int
    document: bytes | None


@dataclass(frozen=True, slots=True)
class NewAuditEntry:
    """Who does what; the store adds `id` and time."""

    action: str
    target: str
    operator: str
    scope: str
    client: str
    request_id: str


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One entry of the trail. `id` rises with each entry; `time_ms` is the server's clock, and never falls: where that
    was set back, it stands still until it has caught up.
    """

    id: int
    time_ms: int
    action: str
    target: str
    operator: str
    scope: str
    client: str
    request_id: str


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries are asked for; `""` and None admit all. By the server's clock, `from_ms` is in and `to_ms` out."""

    action: str = ""
    operator: str = ""
    from_ms: int | None = None
    to_ms: int | None = None


ALL_ENTRIES = AuditFilter()


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Entries, newest first. `next_before` asks for those that follow; None when there are none.

    A page may hold fewer than were asked for, or none, although others follow: a store looks through a bounded number
    of entries at a time.
    """

    entries: tuple[AuditEntry, ...]
    next_before: int | None


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision without its document."""

    revision: int
    time_ms: int
    operator: str
    action: str


@dataclass(frozen=True, slots=True)
class PointerMove:
    """Whether the pointer moved, and the revision that is active now."""

    moved: bool
    revision: int


class RouteTableReader(Protocol):
    """What the data plane may do with the table: read it."""

    async def read_table(self, known_revision: int = 0) -> ActiveTable:
        """The pointer, and the document it names unless that is `known_revision`: one operation, so the two agree."""
        ...


class RouteTableWriter(RouteTableReader, Protocol):
    """What the control plane may do with it. The data plane's credentials can do none of this (§12.8)."""

    async def move_pointer(self, expected: int, document: bytes, entry: NewAuditEntry) -> PointerMove:
        """Write revision `expected` + 1 with its audit entry and point at it, if `expected` is active; else change
        nothing. Of any number of callers with one `expected`, one moves it. All of it happens, or none.
        """
        ...

    async def read_revision(self, revision: int) -> tuple[Revision, bytes] | None:
        """A revision with its document; None when there is none of this number."""
        ...

    async def list_revisions(self, before: int | None, limit: int) -> list[Revision]:
        """At most `limit` revisions below `before` (None: from the newest), newest first."""
        ...

    async def append_audit(self, entry: NewAuditEntry) -> AuditEntry:
        """Record what was done to something else than the table."""
        ...

    async def list_audit(self, before: int | None, limit: int, only: AuditFilter = ALL_ENTRIES) -> AuditPage:
        """At most `limit` (1 or more) entries with an id below `before` (None: from the newest), newest first. A page
        costs the same wherever it lies, however long the trail and whatever is asked for.
        """
        ...
