"""Opens the shared state that a URL names."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import urlsplit

from common.state.memory import MemoryState
from common.state.ports import State


def wall_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def open_state(url: str, *, now_ms: Callable[[], int] = wall_clock_ms) -> State:
    """The state behind `url`; nothing is dialled yet, so this never waits and never fails for an absent server.

    `now_ms` is the clock of a state without a server of its own. A scheme that is not known raises `ValueError`, whose
    text names the scheme alone: the rest of the URL may hold a password.
    """
    scheme = urlsplit(url).scheme
    if scheme == "memory":
        return MemoryState(now_ms)
    raise ValueError(f"no shared state is known for the scheme {scheme!r}; memory://local is")
