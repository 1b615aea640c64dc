"""Sealed values on Redis (`common.state.sealed`)."""

from __future__ import annotations

from common.state.coordination import Lease
from common.state.redis.asking import Asking
from common.state.redis.records import Foreign, read_sealed_record
from common.state.redis.scripts import WRITE_SEALED
from common.state.sealed import Sealed


class RedisSealed:
    """Implements `SealedStore`."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def read_sealed(self, name: str) -> Sealed | None:
        """See `SealedStore.read_sealed`."""
        asking = self._asking
        with asking.measure("read_sealed") as measured:
            value = await asking.text(asking.keys.sealed(name).encode(), measured)
            try:
                return None if value is None else read_sealed_record(value)
            except Foreign:
                measured.found_foreign()
                return None

    async def write_sealed(self, name: str, blob: bytes, lease: Lease) -> bool:
        """See `SealedStore.write_sealed`."""
        asking = self._asking
        with asking.measure("write_sealed") as measured:
            foreign, written = await asking.script(WRITE_SEALED, (asking.keys.sealed(name),), blob, lease.fence)
            measured.found_foreign(foreign)
            return bool(written)
