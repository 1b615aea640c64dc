"""Heartbeats, leases and challenges on Redis (`common.state.coordination`)."""

from __future__ import annotations

from common.state.coordination import Heartbeat, Lease
from common.state.redis.asking import Asking
from common.state.redis.keys import key_part
from common.state.redis.records import Foreign, heartbeat_payload, read_heartbeat_record
from common.state.redis.scripts import BEAT, LIST_HEARTBEATS, RENEW_LEASE, TAKE_LEASE


class RedisCoordination:
    """Implements `HeartbeatStore`, `LeaseStore` and `ChallengeStore`."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def beat(self, replica: str, revision: int, last_error: str, keep_ms: int) -> None:
        """See `HeartbeatStore.beat`."""
        asking, keys = self._asking, self._asking.keys
        with asking.measure("beat"):
            now = await asking.script(
                BEAT,
                (keys.heartbeat(replica), keys.replicas),
                key_part(replica),
                heartbeat_payload(replica, revision, last_error),
                keep_ms,
            )
            asking.clock.heard(now)

    async def list_heartbeats(self) -> list[Heartbeat]:
        """See `HeartbeatStore.list_heartbeats`."""
        asking, keys = self._asking, self._asking.keys
        with asking.measure("list_heartbeats") as measured:
            foreign, *values = await asking.script(LIST_HEARTBEATS, (keys.replicas,), keys.replica_prefix)
            measured.found_foreign(foreign)
            found = []
            for value in values:
                try:
                    found.append(read_heartbeat_record(value))
                except Foreign:
                    measured.found_foreign()
            return sorted(found, key=lambda heartbeat: heartbeat.replica)

    async def take_lease(self, name: str, owner: str, keep_ms: int) -> Lease | None:
        """See `LeaseStore.take_lease`."""
        asking = self._asking
        with asking.measure("take_lease") as measured:
            foreign, *taken = await asking.script(TAKE_LEASE, asking.keys.lease(name), owner, keep_ms)
            measured.found_foreign(foreign)
            return Lease(name, owner, *taken) if taken else None

    async def renew_lease(self, lease: Lease, keep_ms: int) -> Lease | None:
        """See `LeaseStore.renew_lease`."""
        with self._asking.measure("renew_lease"):
            end = await self._hold(lease, keep_ms)
            return Lease(lease.name, lease.owner, lease.fence, end) if end else None

    async def release_lease(self, lease: Lease) -> bool:
        """See `LeaseStore.release_lease`."""
        with self._asking.measure("release_lease"):
            return bool(await self._hold(lease, 0))

    async def _hold(self, lease: Lease, keep_ms: int) -> int:
        held, _ = self._asking.keys.lease(lease.name)
        end: int = await self._asking.script(RENEW_LEASE, (held,), f"l1 {lease.fence} {lease.owner}", keep_ms)
        return end

    async def publish_challenge(self, token: str, answer: str, keep_ms: int) -> None:
        """See `ChallengeStore.publish_challenge`."""
        asking = self._asking
        with asking.measure("publish_challenge"):
            key = asking.keys.challenge(token).encode()
            # A key is gone when the clock has passed its time; the challenge is over when the clock has reached it.
            await asking.command(key, "SET", key, f"c1 {answer}", "PX", max(keep_ms - 1, 1))

    async def read_challenge(self, token: str) -> str | None:
        """See `ChallengeStore.read_challenge`."""
        asking = self._asking
        with asking.measure("read_challenge") as measured:
            value = await asking.text(asking.keys.challenge(token).encode(), measured)
            if value is None or value.startswith(b"c1 "):
                return None if value is None else value[3:].decode("utf-8", "replace")
            measured.found_foreign()
            return None

    async def withdraw_challenge(self, token: str) -> bool:
        """See `ChallengeStore.withdraw_challenge`."""
        asking = self._asking
        with asking.measure("withdraw_challenge"):
            key = asking.keys.challenge(token).encode()
            return bool(await asking.command(key, "DEL", key))
