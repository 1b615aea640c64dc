"""Sealed values on Postgres (`common.state.sealed`)."""

from __future__ import annotations

from common.state.coordination import Lease
from common.state.postgres.asking import Asking
from common.state.sealed import Sealed


class PostgresSealed:
    """Implements `SealedStore`."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def read_sealed(self, name: str) -> Sealed | None:
        """See `SealedStore.read_sealed`."""
        with self._asking.measure("read_sealed"):
            rows = await self._asking.rows("SELECT * FROM read_sealed($1)", name)
            return Sealed(*rows[0]) if rows else None

    async def write_sealed(self, name: str, blob: bytes, lease: Lease) -> bool:
        """See `SealedStore.write_sealed`."""
        with self._asking.measure("write_sealed"):
            return bool(await self._asking.value("SELECT write_sealed($1, $2, $3)", name, blob, lease.fence))
