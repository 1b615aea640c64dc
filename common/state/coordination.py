"""What replicas tell each other through the shared state: heartbeats, leases and challenges (§3.4, §11.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a replica last said of itself. `last_error` is `""` without one; `time_ms` is the server's clock."""

    replica: str
    revision: int
    last_error: str
    time_ms: int


class HeartbeatStore(Protocol):
    """Replicas that are alive."""

    async def beat(self, replica: str, revision: int, last_error: str, keep_ms: int) -> None:
        """Say that a replica is alive; forgotten after `keep_ms` by the server's clock unless said again."""
        ...

    async def list_heartbeats(self) -> list[Heartbeat]:
        """Those that are not forgotten, by replica."""
        ...


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of one owner to do something alone, until `expires_at_ms` by the server's clock.

    `fence` is higher than that of every earlier lease of this name: what is written under a lease carries it, so that
    an owner that was stopped, and woke after its lease had passed on, is told apart.
    """

    name: str
    owner: str
    fence: int
    expires_at_ms: int


class LeaseStore(Protocol):
    """Leases by name."""

    async def take_lease(self, name: str, owner: str, keep_ms: int) -> Lease | None:
        """The lease, when it is free or this owner's (then extended, with its fence); None while another has it."""
        ...

    async def renew_lease(self, lease: Lease, keep_ms: int) -> Lease | None:
        """Extended to now + `keep_ms`; None when it ran out or passed on: stop what is done under it."""
        ...

    async def release_lease(self, lease: Lease) -> bool:
        """Give it up; False when it was not held any more."""
        ...


class ChallengeStore(Protocol):
    """Answers to an authority's challenges, by token."""

    async def publish_challenge(self, token: str, answer: str, keep_ms: int) -> None:
        """Any replica answers with it, for at most `keep_ms`."""
        ...

    async def read_challenge(self, token: str) -> str | None:
        """The answer; None for a token that is not published."""
        ...

    async def withdraw_challenge(self, token: str) -> bool:
        """Answer no longer; False when it was not published."""
        ...
