"""One form for all documents that say the same: what carries no meaning is sorted, and credentials can be taken out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from common.telemetry.redact import REDACTED, redact_target

Document = Mapping[str, Any]
"""A table that `load_route_table` takes, as a JSON reader gives it."""
Route = dict[str, Any]

REDACTED_CHANGED = "[redacted, changed]"
"""Stands for a credential that is another one than before."""

# Every key of both versions, in the order in which a person would write it.
KEY_ORDER = (
    "version", "hosts", "trustedProxies", "reservedPaths", "defaults",
    "id", "match", "host", "path", "methods", "upstream", "upstreamHost", "rewrite",
    "auth", "mode", "workspace", "param", "requireUuid", "accessCheck", "accessCacheTtlMs", "accessStaleGraceMs",
    "forwardAuthorization", "crossSite", "websocket",
    "timeouts", "connectMs", "uploadMs", "responseMs", "firstByteMs", "bodyMs",
    "maxBodyBytes", "replayMaxBytes", "upstreamAttemptMs",
    "rateLimits", "client", "principal", "max", "windowMs", "bucketMs", "routes",
)  # fmt: skip
SETS = frozenset(("hosts", "trustedProxies", "reservedPaths", "methods"))
"""Lists whose order means nothing. That of `upstream` is the order of attempts (§11.4)."""

_RANK = {key: rank for rank, key in enumerate(KEY_ORDER)}


def canonical(document: Document) -> dict[str, Any]:
    """The document with its keys in `KEY_ORDER`, its sets sorted, and its routes by id: their order means nothing
    either, since matching goes by precedence (§3.3).
    """
    whole: dict[str, Any] = _ordered(document)
    return {**whole, "routes": sorted(whole["routes"], key=lambda route: str(route["id"]))}


def in_order(*objects: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys of all objects, each once, in `KEY_ORDER`."""
    return _sorted_keys(tuple(dict.fromkeys(key for one in objects for key in one)))


@lru_cache(maxsize=1_024)
def _sorted_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    # Tables hold few shapes of objects, many times each.
    return tuple(sorted(keys, key=lambda key: (_RANK.get(key, len(_RANK)), key)))


def redacted(document: Document) -> dict[str, Any]:
    """The document as it may be shown: without the user info that version 1 allows in an upstream's URL."""
    return {**document, "routes": [_with_upstreams(route, _shown(route)) for route in document["routes"]]}


def redacted_pair(before: Route | None, after: Route | None) -> tuple[Route | None, Route | None]:
    """A route before and after, as both may be shown. They are equal exactly when the given ones are: a credential that
    changed is `REDACTED_CHANGED`.
    """
    old, new = _shown(before), _shown(after)
    for index, (was, now) in enumerate(zip(_upstreams(before), _upstreams(after), strict=False)):
        if was != now and old[index] == new[index]:
            new[index] = new[index].replace(REDACTED, REDACTED_CHANGED)
    return before and _with_upstreams(before, old), after and _with_upstreams(after, new)


def _ordered(value: Any, key: str = "") -> Any:
    if isinstance(value, Mapping):
        return {name: _ordered(value[name], name) for name in in_order(value)}
    if isinstance(value, list):
        return sorted(set(value)) if key in SETS else [_ordered(item) for item in value]
    return value


def _upstreams(route: Route | None) -> list[str]:
    if route is None:
        return []
    upstream: str | list[str] = route["upstream"]
    return upstream if isinstance(upstream, list) else [upstream]


def _shown(route: Route | None) -> list[str]:
    return [redact_target(url) for url in _upstreams(route)]


def _with_upstreams(route: Route, shown: list[str]) -> Route:
    return {**route, "upstream": shown if isinstance(route["upstream"], list) else shown[0]}
