"""What can go wrong with an upstream before its response head, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FailureKind = Literal["connect", "tls", "timeout", "attempt", "reset", "malformed"]


@dataclass(frozen=True, slots=True)
class Failure:
    """`reason` is for the log. `connect_timeout`: the connection was not there in time (504 rather than 502).

    `stale`: a kept-alive connection closed before any byte of a response had come. `sent`: bytes of the request may
    have left.
    """

    kind: FailureKind
    reason: str
    connect_timeout: bool = False
    stale: bool = False
    sent: bool = False


class UpstreamUnreachable(Exception):
    """No connection could be established; not a byte of the request has left."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure
