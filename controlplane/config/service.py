"""Revisions of the route table, over the shared state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from common.routetable.warnings import PermissiveSetting
from common.settings.gateway import GatewaySettings
from common.state.table_store import NewAuditEntry, Revision, RouteTableWriter
from controlplane.config.documents import may_hold_credentials, shown_document
from controlplane.config.judge import Judged, Terms, compare, judge
from controlplane.config.rooms import Room, Rooms
from controlplane.config.workers import Result, WorkEnded, Workers
from controlplane.errors import RETRY_AFTER_S, ApiError, counted, retry_after

if TYPE_CHECKING:
    from controlplane.authentication import Caller


@dataclass(frozen=True, slots=True)
class Validated:
    """A table that was not written, beside the active one. `difference` is the JSON of a `TableDiff`, None for an
    invalid table.
    """

    judged: Judged
    difference: bytes | None
    active: int


@dataclass(frozen=True, slots=True)
class Stored:
    """A revision that was written."""

    revision: int
    warnings: tuple[PermissiveSetting, ...]


class ConfigService:
    """Belongs to one event loop, which it never holds up: documents are worked on elsewhere."""

    def __init__(
        self,
        state: RouteTableWriter,
        gateways: GatewaySettings,
        protected_routes: frozenset[str] = frozenset(),
        workers: Workers | None = None,
    ) -> None:
        self._state = state
        self._terms = Terms(
            gateways.route_defaults,
            gateways.surroundings,
            production=gateways.production,
            access_named=bool(gateways.access_url),
            protected=protected_routes,
        )
        self._workers = workers or Workers()
        self._rooms = Rooms()
        self._writing = asyncio.Lock()

    def close(self) -> None:
        """Judge no more; what is being judged is ended."""
        self._workers.close()

    def room(self, caller: Caller) -> AbstractContextManager[Room]:
        """Room for the documents of one request; 503 when there is none."""
        return self._rooms.enter(caller)

    async def active(self, room: Room) -> tuple[int, bytes | None]:
        """The active revision and its document; 0 and None while there is none."""
        found = await self._state.read_table()
        room.holds(len(found.document or b""))
        return found.revision, found.document

    async def revision(self, number: int, room: Room) -> tuple[Revision, bytes]:
        """A revision with its document; 404 when there is none of this number."""
        found = await self._state.read_revision(number)
        if found is None:
            raise ApiError("not_found", f"There is no revision {number}.")
        room.holds(len(found[1]))
        return found

    async def shown(self, document: bytes, room: Room) -> bytes:
        """The document for a reader; see `shown_document`."""
        if not may_hold_credentials(document):
            return document
        return await self._work(room, len(document), shown_document, document)

    async def revisions(self, before: int | None, limit: int) -> list[Revision]:
        """At most `limit` revisions below `before`, newest first."""
        return await self._state.list_revisions(before, limit)

    async def validate(self, document: bytes, room: Room) -> Validated:
        """What a write of this document would meet."""
        active, current = await self.active(room)
        judged = await self._judge(document, current, room)
        if judged.problems:
            return Validated(judged, None, active)
        names = (f"revision {active}", "this table")
        return Validated(judged, await self._compare(current, document, names, room), active)

    async def difference(self, before: int | None, after: int | None, room: Room) -> tuple[int, int, bytes]:
        """What turns a revision (None: the one before the other; 0: the empty store) into another (None: the active
        one): their numbers, and the JSON of a `TableDiff`; 404 where there is none of a number.
        """
        if after is None:
            after, newer = await self.active(room)
            if newer is None:
                raise ApiError("not_found", "There is no route table yet.", headers={"etag": '"0"'})
        else:
            newer = (await self.revision(after, room))[1]
        before = after - 1 if before is None else before
        older = (await self.revision(before, room))[1] if before else None
        return before, after, await self._compare(older, newer, (f"revision {before}", f"revision {after}"), room)

    async def write(self, document: bytes, expected: int, caller: Caller, room: Room) -> Stored:
        """Make the document the revision after `expected`, if that is active; raises `ApiError` and writes nothing
        otherwise, or when the document is no valid table, or touches a protected route.
        """
        entry = caller.entry("config.write", f"revision {expected + 1}")
        return await self._move(document, expected, entry, room)

    async def roll_back(self, revision: int, expected: int, caller: Caller, room: Room) -> Stored:
        """Write an earlier revision's document again, under the same conditions as any other."""
        _, document = await self.revision(revision, room)
        entry = caller.entry("config.rollback", f"revision {expected + 1}, the table of revision {revision}")
        return await self._move(document, expected, entry, room)

    async def _move(self, document: bytes, expected: int, entry: NewAuditEntry, room: Room) -> Stored:
        # One writer of this process at a time: of those that read one revision, one is judged and the others are told.
        async with self._writing:
            active, current = await self.active(room)
            if active != expected:
                raise _conflict(active, expected)
            judged = await self._judge(document, current, room)
            if judged.problems:
                message = f"The route table has {counted(len(judged.problems))}."
                raise ApiError("invalid_config", message, judged.problems)
            if judged.protected or judged.active_invalid:
                raise ApiError("protected_route", _protected(judged, active), revision=active)
            # Whoever wrote meanwhile makes this fail: what was compared is what is replaced.
            move = await self._state.move_pointer(expected, document, entry)
            if not move.moved:
                raise _conflict(move.revision, expected)
            return Stored(move.revision, judged.warnings)

    async def _judge(self, document: bytes, active: bytes | None, room: Room) -> Judged:
        beside = active if self._terms.protected else None
        size = len(document) + len(beside or b"")
        return await self._work(room, size, judge, document, beside, self._terms)

    async def _compare(self, before: bytes | None, after: bytes, names: tuple[str, str], room: Room) -> bytes:
        size = len(before or b"") + len(after)
        return await self._work(room, size, compare, before, after, names)

    async def _work(self, room: Room, size: int, function: Callable[..., Result], *arguments: object) -> Result:
        try:
            return await self._workers.run(size, function, *arguments, first=room.first)
        except WorkEnded as ended:
            # Most likely there was no memory left for it.
            message = f"The table could not be worked on: {ended}. Nothing was written; try again."
            raise ApiError("overloaded", message, headers=retry_after(RETRY_AFTER_S)) from ended


def _conflict(active: int, expected: int) -> ApiError:
    now = f"Revision {active} is active" if active else "No revision is active"
    return ApiError("revision_conflict", f"{now}, not {expected}. Read it, and decide again.", revision=active)


def _protected(judged: Judged, active: int) -> str:
    if judged.active_invalid:
        return (
            f"Revision {active}, which is active, is no valid table under this environment, so whether protected "
            "routes stay as they are cannot be told. Give the control plane the gateways' values, or write once "
            "without GATEWAY_PROTECTED_ROUTES."
        )
    return f"Protected routes may not be removed or changed: {', '.join(judged.protected)}."
