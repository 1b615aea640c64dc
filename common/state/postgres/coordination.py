"""Heartbeats, leases and challenges on Postgres (`common.state.coordination`)."""

from __future__ import annotations

from common.state.coordination import Heartbeat, Lease
from common.state.postgres.asking import Asking


class PostgresCoordination:
    """Implements `HeartbeatStore`, `LeaseStore` and `ChallengeStore`."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def beat(self, replica: str, revision: int, last_error: str, keep_ms: int) -> None:
        """See `HeartbeatStore.beat`."""
        with self._asking.measure("beat"):
            now = await self._asking.value("SELECT beat($1, $2, $3, $4)", replica, revision, last_error, keep_ms)
            self._asking.clock.heard(now)

    async def list_heartbeats(self) -> list[Heartbeat]:
        """See `HeartbeatStore.list_heartbeats`."""
        with self._asking.measure("list_heartbeats"):
            found = [Heartbeat(*row) for row in await self._asking.rows("SELECT * FROM list_heartbeats()")]
            return sorted(found, key=lambda heartbeat: heartbeat.replica)

    async def take_lease(self, name: str, owner: str, keep_ms: int) -> Lease | None:
        """See `LeaseStore.take_lease`."""
        with self._asking.measure("take_lease"):
            rows = await self._asking.rows("SELECT * FROM take_lease($1, $2, $3)", name, owner, keep_ms)
            return Lease(name, owner, *rows[0]) if rows else None

    async def renew_lease(self, lease: Lease, keep_ms: int) -> Lease | None:
        """See `LeaseStore.renew_lease`."""
        with self._asking.measure("renew_lease"):
            end = await self._hold(lease, keep_ms)
            return None if end is None else Lease(lease.name, lease.owner, lease.fence, end)

    async def release_lease(self, lease: Lease) -> bool:
        """See `LeaseStore.release_lease`."""
        with self._asking.measure("release_lease"):
            return await self._hold(lease, 0) is not None

    async def _hold(self, lease: Lease, keep_ms: int) -> int | None:
        end: int | None = await self._asking.value(
            "SELECT renew_lease($1, $2, $3, $4)", lease.name, lease.owner, lease.fence, keep_ms
        )
        return end

    async def publish_challenge(self, token: str, answer: str, keep_ms: int) -> None:
        """See `ChallengeStore.publish_challenge`."""
        with self._asking.measure("publish_challenge"):
            await self._asking.rows("SELECT publish_challenge($1, $2, $3)", token, answer, keep_ms)

    async def read_challenge(self, token: str) -> str | None:
        """See `ChallengeStore.read_challenge`."""
        with self._asking.measure("read_challenge"):
            answer: str | None = await self._asking.value("SELECT read_challenge($1)", token)
            return answer

    async def withdraw_challenge(self, token: str) -> bool:
        """See `ChallengeStore.withdraw_challenge`."""
        with self._asking.measure("withdraw_challenge"):
            return bool(await self._asking.value("SELECT withdraw_challenge($1)", token))
