"""A route table that requests are matched against: frozen, built whole, shared by everything that reads it."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

from common.routetable.compiled import Match, Route, TrustedProxies
from common.routetable.hosts import bracketed
from common.routetable.match import Entry, Index, ranked
from common.routetable.paths import AmbiguousPath, decoded_once, is_plain, read_path
from common.routetable.toplevel import GATEWAY_PATHS
from common.values import remember

__all__ = ["AmbiguousPath", "RouteTable"]


FOUND_MAX = 1024
FOUND_MAX_CHARS = 256
"""A longer path is looked up each time: what callers make up takes less than two megabytes."""


class Found(NamedTuple):
    """Where a request leads: to an endpoint or path of the gateway's that nothing is forwarded to, or to a route."""

    reserved: bool
    match: Match | None


_RESERVED = Found(reserved=True, match=None)


@dataclass(frozen=True, slots=True)
class RouteTable:
    """A valid table. Its routes were checked together by `load`: none is ambiguous with another (§3.2)."""

    version: int
    routes: tuple[Route, ...]
    """In the order of the file."""
    hosts: frozenset[str] = frozenset()
    """The names of the gateway; empty: every name is."""
    reserved_paths: tuple[str, ...] = ()
    """As configured, without the gateway's own endpoints."""
    trusted_proxies: TrustedProxies = ()
    _index: _Matcher = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_index", _Matcher(self))

    def match(self, host: str | None, path: str, method: str) -> Match | None:
        """The route of a request, None when no route matches (§3.3).

        `host` is in lower case, without port and trailing dot, None for a request without one; `path` is as sent,
        without its query, or `*`. Raises `AmbiguousPath` for a path that is refused, or whose two readings lead to
        different routes or workspaces: 400.
        """
        return self._index.match(host, path, method)

    def find(self, host: str | None, path: str, method: str) -> Found:
        """`is_reserved` of the path on a name of the gateway, else what `match` says. Raises as `match` does.

        What the same few requests find is remembered: most callers ask for few paths again and again.
        """
        return self._index.find(host, path, method)

    def owns_host(self, host: str | None) -> bool:
        """The host is a name of the gateway. So is the missing one: what is reserved is forwarded under no pretext."""
        return self._index.owns(host)

    def is_reserved(self, path: str) -> bool:
        """The path is an endpoint of the gateway, a configured reserved path, or below one, by its loosest reading.

        A path that `match` refuses is not reserved: the caller gets its 400 there.
        """
        return self._index.is_reserved(path)


class _Matcher:
    """Everything derived from a table that a lookup needs."""

    __slots__ = ("_everything_reserved", "_found", "_loose", "_names", "_plain_suffices", "_reserved", "_strict")

    def __init__(self, table: RouteTable) -> None:
        entries = ranked(table.routes)
        self._strict = Index(entries, loose=False)
        escaped = any(entry.template.literals != entry.template.loose for entry in entries)
        self._loose = Index(entries, loose=True) if escaped else self._strict
        self._plain_suffices = not any(_meets_plain(entry) for entry in entries)
        self._names = frozenset(name for host in table.hosts for name in (host, bracketed(host)))
        self._found: OrderedDict[tuple[str | None, str, str], Found] = OrderedDict()
        self._everything_reserved = "/" in table.reserved_paths
        # By first segment: the path itself, and what every path below it starts with.
        self._reserved: dict[str, list[tuple[str, str]]] = {}
        for path in (*GATEWAY_PATHS, *table.reserved_paths):
            prefix = decoded_once(path)
            below = prefix if prefix.endswith("/") else f"{prefix}/"
            self._reserved.setdefault(_first_segment(prefix), []).append((prefix, below))

    def owns(self, host: str | None) -> bool:
        return not self._names or not host or host in self._names

    def find(self, host: str | None, path: str, method: str) -> Found:
        key = host, path, method
        found = self._found.get(key)
        if found is None:
            reserved = self.owns(host) and self.is_reserved(path)
            found = _RESERVED if reserved else Found(reserved=False, match=self.match(host, path, method))
            if len(path) + len(method) <= FOUND_MAX_CHARS:
                remember(self._found, key, found, FOUND_MAX)
        return found

    def match(self, host: str | None, path: str, method: str) -> Match | None:
        if self._plain_suffices and is_plain(path):
            entry = self._strict.select(host, method, path)
            return None if entry is None else entry.match(path)
        if path == "*":
            # §3.1: only a route of `/` claims a request for the server as a whole.
            entry = self._strict.select(host, method, "/")
            return None if entry is None else Match(entry.route, {}, "")
        readings = read_path(path)
        entry = self._strict.select(host, method, readings.strict)
        if entry is not self._loose.select(host, method, readings.loosest):
            raise AmbiguousPath("the path's two readings select different routes")
        if entry is None:
            return None
        at = entry.workspace_at
        if at is not None and _segment(readings.loosest, at) != decoded_once(_segment(readings.strict, at)):
            raise AmbiguousPath("the path's two readings select different workspaces")
        return entry.match(path)

    def is_reserved(self, path: str) -> bool:
        if not is_plain(path):
            try:
                path = read_path(path).loosest
            except AmbiguousPath:
                return False
        if self._everything_reserved:
            return True
        candidates = self._reserved.get(_first_segment(path))
        return candidates is not None and any(path == prefix or path.startswith(below) for prefix, below in candidates)


def _meets_plain(entry: Entry) -> bool:
    """A literal of the template is written with escapes of characters that a plain path may hold as they stand.

    `/a%3Ab` is such a one: `/a:b` is plain, and its loosest reading leads to that route.
    """
    pairs = zip(entry.template.literals, entry.template.loose, strict=True)
    return any(literal != loose and is_plain(f"/{loose}") for literal, loose in pairs)


def _first_segment(path: str) -> str:
    return path.split("/", 2)[1]


def _segment(path: str, index: int) -> str:
    """The segment at `index` of a path that has it."""
    return path.split("/", index + 2)[index + 1]
