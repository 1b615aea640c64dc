"""Heads of HTTP/1.1 messages as values. Header names are lower case bytes; values are bytes without outer space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from common.values import hot_value

Headers = tuple[tuple[bytes, bytes], ...]
T = TypeVar("T")

CHUNKED = -1
"""Body length of a chunked body."""
UNTIL_CLOSE = -2
"""Body length of a response that ends with its connection."""


class ProtocolError(Exception):
    """A peer broke the protocol. `code` is a code of `dataplane.errors`; `reason` is for the log, not the peer."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Authority:
    """The host a request names: `host` in lower case, without port, brackets or one trailing dot.

    `sent` is the value as it stood in the request (the upstream of `upstreamHost: "request"` sees it).
    """

    host: str
    port: int | None
    sent: str


class _Lines:
    """What a head's lines say, and what was derived from them."""

    __slots__ = ()

    headers: Headers
    known: dict[Any, Any]

    def values(self, name: bytes) -> tuple[bytes, ...]:
        """All values of a header, in order."""
        by_name = self.known.get(_by_name)
        if by_name is None:
            by_name = self.known[_by_name] = _by_name(self.headers)
        return by_name.get(name, ())

    def value(self, name: bytes) -> bytes | None:
        """The first value of a header."""
        values = self.values(name)
        return values[0] if values else None


def _by_name(headers: Headers) -> Mapping[bytes, tuple[bytes, ...]]:
    found: dict[bytes, tuple[bytes, ...]] = {}
    for name, value in headers:
        found[name] = (*found[name], value) if name in found else (value,)
    return found


@hot_value
class RequestHead(_Lines):
    """One request's head, after the strict gate.

    `target` is the request target as sent, except that an absolute-form target is reduced to its origin form; `path`
    is the part before the first `?`, `query` the rest including that `?` (`""` without one). `*` stays `*`.
    `body_length` is 0, a length, or `CHUNKED`.
    """

    method: str
    path: str
    query: str
    http_1_0: bool
    headers: Headers
    authority: Authority | None
    body_length: int
    keep_alive: bool
    expect_continue: bool = False
    upgrade: str = ""
    """The `Upgrade` value in lower case when `Connection` names `upgrade`; else `""`."""
    known: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    """What `derived` keeps; heads with the same header lines may share it."""

    def derived(self, make: Callable[[Headers], T]) -> T:
        """`make(self.headers)`, made once for as long as these header lines are remembered (`http1.plain`).

        `make` is a pure function of a module (a lambda would be kept anew each time), and nobody changes its result.
        """
        known = self.known
        if make in known:
            return known[make]  # type: ignore[no-any-return]
        made = known[make] = make(self.headers)
        return made


@hot_value
class ResponseHead(_Lines):
    """One response's head. `body_length` is 0 for a message that cannot have a body, a length, `CHUNKED` or
    `UNTIL_CLOSE`; `keep_alive` says whether the connection may carry another exchange after it.
    """

    status: int
    reason: bytes
    headers: Headers
    body_length: int
    keep_alive: bool
    known: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    """What `derived` keeps."""

    def derived(self, make: Callable[[ResponseHead], T]) -> T:
        """`make(self)`, made once for as long as this very head is remembered; otherwise as in `RequestHead`."""
        known = self.known
        if make in known:
            return known[make]  # type: ignore[no-any-return]
        made = known[make] = make(self)
        return made
