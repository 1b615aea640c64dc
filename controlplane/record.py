"""What becomes known of one request on its way through the API, for its log line and its metrics."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any, cast

_KEY = "wicketgate.record"


@dataclass(slots=True)
class Record:
    """One request. `client` is the address of the socket: no forwarding header is believed."""

    request_id: str
    client: str
    operator: str = ""
    scope: str = ""
    error: str = ""
    detail: str = ""
    failure: Exception | None = None
    operation: str = ""
    status: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


def keep_record(scope: MutableMapping[str, Any], record: Record) -> None:
    """Let everything that handles this request find its record."""
    scope[_KEY] = record


def record_of(scope: MutableMapping[str, Any]) -> Record:
    """The record of the request that this scope belongs to."""
    return cast(Record, scope[_KEY])
