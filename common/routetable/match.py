"""The index that finds a request's route: its cost grows with the depth of the path, not with the number of routes.

    host (exact, then wildcards from the longest suffix, then `*`)
      -> routes that list the method, then routes that list none
        -> a trie over the segments of the path

That order is §3.3's first two rules. The others (literal prefix, number of segments, id) are one rank per route, given
when the index is built. A node of the trie knows the best rank below it, so the search leaves out every branch that
cannot win, and the first hit is usually the last.
"""

from __future__ import annotations

from collections.abc import Iterable

from common.routetable.compiled import Match, Route
from common.routetable.hosts import MAX_HOST_CHARACTERS, bracketed
from common.routetable.paths import AmbiguousPath
from common.routetable.templates import Template, parse_template

__all__ = ["AmbiguousPath", "Entry", "HostRoutes", "Index", "Node", "precedence", "ranked", "search"]

_WORST = 1 << 60
_NO_CHILDREN: dict[str, Node] = {}


class Entry:
    """A route in the index. A lower `rank` is more specific (§3.3, rules 3 to 5)."""

    __slots__ = ("captures", "rank", "route", "segments", "template", "workspace_at")

    def __init__(self, route: Route, template: Template, rank: int) -> None:
        self.route = route
        self.template = template
        self.rank = rank
        self.segments = len(template.literals)
        self.captures = template.placeholders
        self.workspace_at = dict(template.placeholders).get(route.workspace_param or "")
        """Index of the segment that holds the workspace; None for a route without one."""

    def match(self, path: str) -> Match:
        """What the template captures of a path that it matches, as the caller wrote it."""
        parts = path.split("/", self.segments + 1)
        rest = parts[-1] if len(parts) == self.segments + 2 else ""
        return Match(self.route, {name: parts[index + 1] for name, index in self.captures}, rest)


class Node:
    """A place in a trie: what ends here, and where the next segment leads."""

    __slots__ = ("best", "here", "literals", "placeholder", "prefix")

    def __init__(self) -> None:
        self.here: Entry | None = None
        """Its template ends here without a slash: it has this path and all below."""
        self.prefix: Entry | None = None
        """Its template ends here with a slash: it has all below, if only the slash itself."""
        self.literals: dict[str, Node] = _NO_CHILDREN
        self.placeholder: Node | None = None
        self.best = _WORST
        """The lowest rank at this node or below."""

    def add(self, literals: Iterable[str | None], entry: Entry) -> None:
        node = self
        node.best = min(node.best, entry.rank)
        for literal in literals:
            node = node._child(literal)
            node.best = min(node.best, entry.rank)
        if entry.template.is_prefix:
            node.prefix = _better(node.prefix, entry)
        else:
            node.here = _better(node.here, entry)

    def _child(self, literal: str | None) -> Node:
        if literal is None:
            if self.placeholder is None:
                self.placeholder = Node()
            return self.placeholder
        if self.literals is _NO_CHILDREN:
            self.literals = {}
        return self.literals.setdefault(literal, Node())


def _better(known: Entry | None, new: Entry) -> Entry:
    return new if known is None or new.rank < known.rank else known


def search(root: Node, parts: list[str]) -> Entry | None:
    """The best entry for a path, given as its parts between slashes (the first is the empty one before the root)."""
    count = len(parts)
    best: Entry | None = None
    best_rank = _WORST
    untried: list[tuple[Node, int]] = []
    node, depth = root, 1
    while True:
        entry = node.here
        if entry is not None and entry.rank < best_rank:
            best, best_rank = entry, entry.rank
        if depth < count:
            entry = node.prefix
            if entry is not None and entry.rank < best_rank:
                best, best_rank = entry, entry.rank
            part = parts[depth]
            depth += 1
            child = node.literals.get(part)
            other = node.placeholder if part else None
            if other is not None and other.best < best_rank:
                if child is None or child.best >= best_rank:
                    node = other
                    continue
                if other.best < child.best:
                    child, other = other, child
                untried.append((other, depth))
                node = child
                continue
            if child is not None and child.best < best_rank:
                node = child
                continue
        while untried:
            node, depth = untried.pop()
            if node.best < best_rank:
                break
        else:
            return best


class HostRoutes:
    """The routes of one host, wildcard or `*`."""

    __slots__ = ("_any_method", "_by_method")

    def __init__(self) -> None:
        self._by_method: dict[str, Node] = {}
        self._any_method: Node | None = None

    def add(self, literals: tuple[str | None, ...], entry: Entry) -> None:
        methods = entry.route.methods
        if methods is None:
            if self._any_method is None:
                self._any_method = Node()
            self._any_method.add(literals, entry)
            return
        for method in methods:
            self._by_method.setdefault(method, Node()).add(literals, entry)

    def select(self, method: str, parts: list[str]) -> Entry | None:
        root = self._by_method.get(method)
        if root is not None:
            entry = search(root, parts)
            if entry is not None:
                return entry
        return search(self._any_method, parts) if self._any_method is not None else None


class Index:
    """All routes by host, method and path, for one of the two readings."""

    __slots__ = ("_any_host", "_below", "_exact", "_parts")

    def __init__(self, entries: Iterable[Entry], *, loose: bool) -> None:
        self._exact: dict[str, HostRoutes] = {}
        self._below: dict[str, HostRoutes] = {}
        self._any_host: HostRoutes | None = None
        self._parts = 1
        for entry in entries:
            template = entry.template
            self._parts = max(self._parts, entry.segments + 1)
            for routes in self._hosts(entry.route.host):
                routes.add(template.loose if loose else template.literals, entry)

    def _hosts(self, host: str) -> list[HostRoutes]:
        if host == "*":
            if self._any_host is None:
                self._any_host = HostRoutes()
            return [self._any_host]
        if host.startswith("*."):
            return [self._below.setdefault(host[2:], HostRoutes())]
        # An IPv6 host is found with and without its brackets.
        return [self._exact.setdefault(name, HostRoutes()) for name in {host, bracketed(host)}]

    def select(self, host: str | None, method: str, path: str) -> Entry | None:
        """The most specific entry for a request, by §3.3; `path` is in this index's reading."""
        parts = path.split("/", self._parts)
        if host:
            routes = self._exact.get(host)
            if routes is not None:
                entry = routes.select(method, parts)
                if entry is not None:
                    return entry
            # The bound keeps an absurd `Host` of thousands of labels from being cut up label by label.
            if self._below and len(host) <= MAX_HOST_CHARACTERS:
                at = host.find(".")
                while at >= 0:
                    routes = self._below.get(host[at + 1 :])
                    if routes is not None and at > 0:
                        entry = routes.select(method, parts)
                        if entry is not None:
                            return entry
                    at = host.find(".", at + 1)
        return self._any_host.select(method, parts) if self._any_host is not None else None


def ranked(routes: Iterable[Route]) -> list[Entry]:
    """Every route as an entry, most specific first (§3.3, rules 3 to 5)."""
    templates = [(route, parse_template(route.path)) for route in routes]
    templates.sort(key=lambda pair: precedence(pair[0].id, pair[1]))
    return [Entry(route, template, rank) for rank, (route, template) in enumerate(templates)]


def precedence(route_id: str, template: Template) -> tuple[int, int, bool, str]:
    """Sorts the more specific first: longest literal prefix, most segments, ends in a slash, id.

    The slash decides between `/x/{id}/` and `/x/{id}` alone, which are alike by the other rules: without it the first
    could be shadowed whole.
    """
    return -len(template.literal_prefix), -len(template.literals), not template.is_prefix, route_id
