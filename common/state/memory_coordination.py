"""Heartbeats, leases, challenges and sealed values in this process's memory."""

from __future__ import annotations

from collections.abc import Callable

from common.state.coordination import Heartbeat, Lease
from common.state.sealed import Sealed


class Coordination:
    """Implements `HeartbeatStore`, `LeaseStore`, `ChallengeStore` and `SealedStore`.

    What has run out goes with the next write.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._heartbeats: dict[str, tuple[Heartbeat, int]] = {}
        self._leases: dict[str, Lease] = {}
        self._fences: dict[str, int] = {}
        self._challenges: dict[str, tuple[str, int]] = {}
        self._sealed: dict[str, Sealed] = {}

    async def beat(self, replica: str, revision: int, last_error: str, keep_ms: int) -> None:
        """See `HeartbeatStore.beat`."""
        now = self._now_ms()
        self._heartbeats = {name: kept for name, kept in self._heartbeats.items() if now < kept[1]}
        self._heartbeats[replica] = Heartbeat(replica, revision, last_error, now), now + keep_ms

    async def list_heartbeats(self) -> list[Heartbeat]:
        """See `HeartbeatStore.list_heartbeats`."""
        now = self._now_ms()
        return [heartbeat for _, (heartbeat, until) in sorted(self._heartbeats.items()) if now < until]

    async def take_lease(self, name: str, owner: str, keep_ms: int) -> Lease | None:
        """See `LeaseStore.take_lease`."""
        now = self._now_ms()
        held = self._leases.get(name)
        if held is not None and now < held.expires_at_ms:
            return None if held.owner != owner else self._keep(Lease(name, owner, held.fence, now + keep_ms))
        self._fences[name] = self._fences.get(name, 0) + 1
        return self._keep(Lease(name, owner, self._fences[name], now + keep_ms))

    async def renew_lease(self, lease: Lease, keep_ms: int) -> Lease | None:
        """See `LeaseStore.renew_lease`."""
        if not self._is_held(lease):
            return None
        return self._keep(Lease(lease.name, lease.owner, lease.fence, self._now_ms() + keep_ms))

    async def release_lease(self, lease: Lease) -> bool:
        """See `LeaseStore.release_lease`."""
        if not self._is_held(lease):
            return False
        del self._leases[lease.name]
        return True

    async def publish_challenge(self, token: str, answer: str, keep_ms: int) -> None:
        """See `ChallengeStore.publish_challenge`."""
        now = self._now_ms()
        self._challenges = {name: kept for name, kept in self._challenges.items() if now < kept[1]}
        self._challenges[token] = answer, now + keep_ms

    async def read_challenge(self, token: str) -> str | None:
        """See `ChallengeStore.read_challenge`."""
        answer, until = self._challenges.get(token, ("", 0))
        return answer if self._now_ms() < until else None

    async def withdraw_challenge(self, token: str) -> bool:
        """See `ChallengeStore.withdraw_challenge`."""
        _, until = self._challenges.pop(token, ("", 0))
        return self._now_ms() < until

    async def read_sealed(self, name: str) -> Sealed | None:
        """See `SealedStore.read_sealed`."""
        return self._sealed.get(name)

    async def write_sealed(self, name: str, blob: bytes, lease: Lease) -> bool:
        """See `SealedStore.write_sealed`."""
        stored = self._sealed.get(name)
        if stored is not None and stored.fence > lease.fence:
            return False
        self._sealed[name] = Sealed(blob, lease.fence)
        return True

    def _keep(self, lease: Lease) -> Lease:
        self._leases[lease.name] = lease
        return lease

    def _is_held(self, lease: Lease) -> bool:
        held = self._leases.get(lease.name)
        return (
            held is not None
            and (held.owner, held.fence) == (lease.owner, lease.fence)
            and self._now_ms() < held.expires_at_ms
        )
