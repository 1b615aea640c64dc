"""Revisions of the route table, over the shared state."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import orjson

from common.routetable.diff import TableDifference, table_difference
from common.routetable.load import load_route_table
from common.routetable.problems import Problem, RouteTableInvalid
from common.routetable.table import RouteTable
from common.routetable.toplevel import wide_ranges
from common.routetable.warnings import PermissiveSetting, permissive_settings
from common.settings.gateway import GatewaySettings
from common.state.table_store import NewAuditEntry, Revision, RouteTableWriter
from controlplane.config.protected import protected_changes
from controlplane.errors import ApiError, counted

if TYPE_CHECKING:
    from controlplane.authentication import Caller

JUDGES = 2
"""Tables judged at a time: each holds the interpreter for a good part of its time."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a gateway would make of a document: the table, or every problem."""

    table: RouteTable | None
    problems: tuple[Problem, ...]
    warnings: tuple[PermissiveSetting, ...]


@dataclass(frozen=True, slots=True)
class Validated:
    """A table that was not written, beside the active one."""

    judged: Judged
    protected: tuple[str, ...]
    difference: TableDifference | None
    active: int


@dataclass(frozen=True, slots=True)
class Stored:
    """A revision that was written."""

    revision: int
    warnings: tuple[PermissiveSetting, ...]


class ConfigService:
    """Belongs to one event loop; judging happens in threads of its own, so that other requests go on meanwhile."""

    def __init__(
        self, state: RouteTableWriter, gateways: GatewaySettings, protected_routes: frozenset[str] = frozenset()
    ) -> None:
        self._state = state
        self._gateways = gateways
        self._protected = protected_routes
        self._judges = ThreadPoolExecutor(JUDGES, thread_name_prefix="judge")
        self._active: tuple[int, Judged] | None = None

    def close(self) -> None:
        """Judge no more; what is being judged is not waited for."""
        self._judges.shutdown(wait=False, cancel_futures=True)

    async def active(self) -> tuple[int, bytes | None]:
        """The active revision and its document; 0 and None while there is none."""
        found = await self._state.read_table()
        return found.revision, found.document

    async def revision(self, number: int) -> tuple[Revision, bytes]:
        """A revision with its document; 404 when there is none of this number."""
        found = await self._state.read_revision(number)
        if found is None:
            raise ApiError("not_found", f"There is no revision {number}.")
        return found

    async def revisions(self, before: int | None, limit: int) -> list[Revision]:
        """At most `limit` revisions below `before`, newest first."""
        return await self._state.list_revisions(before, limit)

    async def validate(self, document: bytes) -> Validated:
        """What a write of this document would meet."""
        judged = await self._judge(document)
        active, current = await self.active()
        if judged.table is None:
            return Validated(judged, (), None, active)
        protected: tuple[str, ...] = ()
        if self._protected and current is not None:
            protected = await self._changed(active, current, judged.table)
        names = (f"revision {active}", "this table")
        return Validated(judged, protected, await self._compare(current, document, names), active)

    async def difference(self, before: int | None, after: int | None) -> tuple[int, int, TableDifference]:
        """What turns a revision (None: the one before the other; 0: the empty store) into another (None: the active
        one), with the numbers of both; 404 where there is none of a number.
        """
        if after is None:
            after, newer = await self.active()
            if newer is None:
                raise ApiError("not_found", "There is no route table yet.", headers={"etag": '"0"'})
        else:
            newer = (await self.revision(after))[1]
        before = after - 1 if before is None else before
        older = (await self.revision(before))[1] if before else None
        return before, after, await self._compare(older, newer, (f"revision {before}", f"revision {after}"))

    async def write(self, document: bytes, expected: int, caller: Caller) -> Stored:
        """Make the document the revision after `expected`, if that is active; raises `ApiError` and writes nothing
        otherwise, or when the document is no valid table, or touches a protected route.
        """
        entry = caller.entry("config.write", f"revision {expected + 1}")
        return await self._move(document, expected, entry)

    async def roll_back(self, revision: int, expected: int, caller: Caller) -> Stored:
        """Write an earlier revision's document again, under the same conditions as any other."""
        _, document = await self.revision(revision)
        entry = caller.entry("config.rollback", f"revision {expected + 1}, the table of revision {revision}")
        return await self._move(document, expected, entry)

    async def _move(self, document: bytes, expected: int, entry: NewAuditEntry) -> Stored:
        active, current = await self.active()
        if active != expected:
            raise _conflict(active, expected)
        judged = await self._judge(document)
        if judged.table is None:
            message = f"The route table has {counted(len(judged.problems))}."
            raise ApiError("invalid_config", message, judged.problems)
        if self._protected and current is not None:
            touched = await self._changed(active, current, judged.table)
            if touched:
                message = f"Protected routes may not be removed or changed: {', '.join(touched)}."
                raise ApiError("protected_route", message, revision=active)
        move = await self._state.move_pointer(expected, document, entry)
        if not move.moved:
            raise _conflict(move.revision, expected)
        self._active = (move.revision, judged)
        return Stored(move.revision, judged.warnings)

    async def _changed(self, active: int, document: bytes, after: RouteTable) -> tuple[str, ...]:
        """The protected routes of the active table that `after` has no more, or otherwise."""
        if self._active is None or self._active[0] != active:
            self._active = (active, await self._judge(document))
        before = self._active[1].table
        if before is None:
            message = (
                f"Revision {active}, which is active, is no valid table under this environment, so whether protected "
                "routes stay as they are cannot be told. Give the control plane the gateways' values, or write once "
                "without GATEWAY_PROTECTED_ROUTES."
            )
            raise ApiError("protected_route", message, revision=active)
        return protected_changes(before, after, self._protected)

    async def _compare(self, before: bytes | None, after: bytes, names: tuple[str, str]) -> TableDifference:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._judges, partial(compare, before, after, names))

    async def _judge(self, document: bytes) -> Judged:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._judges, partial(judge, document, self._gateways))


def judge(document: bytes, gateways: GatewaySettings) -> Judged:
    """Load a document as a gateway of this deployment does. Takes its time: for a thread."""
    try:
        table = load_route_table(document, gateways.route_defaults)
    except RouteTableInvalid as invalid:
        return Judged(None, invalid.problems, ())
    if gateways.production and not gateways.trusted_proxies:
        problems = wide_ranges(table.trusted_proxies)
        if problems:
            return Judged(None, problems, ())
    warnings = permissive_settings(table, gateways.surroundings)
    if gateways.production and not gateways.access_url and any(route.access_check for route in table.routes):
        unsure = "routes ask Access, and a gateway without GATEWAY_ACCESS_URL and its token refuses this table"
        warnings = (PermissiveSetting("", "GATEWAY_ACCESS_URL", unsure), *warnings)
    return Judged(table, (), warnings)


def compare(before: bytes | None, after: bytes, names: tuple[str, str]) -> TableDifference:
    """What turns a valid document (None: the empty store's) into another. Takes its time: for a thread."""
    return table_difference(None if before is None else orjson.loads(before), orjson.loads(after), names=names)


def _conflict(active: int, expected: int) -> ApiError:
    now = f"Revision {active} is active" if active else "No revision is active"
    return ApiError("revision_conflict", f"{now}, not {expected}. Read it, and decide again.", revision=active)
