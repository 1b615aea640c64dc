"""Where a request goes at its upstream: path and query, the same that the identity signature covers (§11.1)."""

from __future__ import annotations

import re
from functools import lru_cache

from common.routetable.compiled import Match, Upstream
from common.routetable.templates import REST

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


def upstream_path(upstream: Upstream, match: Match, path: str) -> str:
    """The path as the upstream receives it: its base path, then the request's path or the route's rewrite of it.

    Captured values keep the caller's escapes (§11.1.1). `*` (of `OPTIONS *`) names the server, not a path: it stays.
    """
    if path == "*":
        return path
    rewrite = match.route.rewrite
    return upstream.base_path + (path if rewrite is None else _rewritten(rewrite, match))


def _rewritten(template: str, match: Match) -> str:
    literal, *pieces = _pieces(template)
    parts = [literal]
    for name, text in zip(pieces[::2], pieces[1::2], strict=True):
        parts += (match.rest if name == REST else match.params[name], text)
    return "".join(parts)


@lru_cache(maxsize=1024)
def _pieces(template: str) -> tuple[str, ...]:
    """A template's literals and names in turn: `/v1/{id}/x` is `("/v1/", "id", "/x")`."""
    return tuple(_PLACEHOLDER.split(template))
