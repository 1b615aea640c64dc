"""What replicas share and the server must not read: certificates and keys, sealed before they come here (§11.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from common.state.coordination import Lease


@dataclass(frozen=True, slots=True)
class Sealed:
    """A sealed value and the fence of the lease under which it was written."""

    blob: bytes
    fence: int


class SealedStore(Protocol):
    """Sealed values by name. They do not expire."""

    async def read_sealed(self, name: str) -> Sealed | None:
        """The value; None where none was written."""
        ...

    async def write_sealed(self, name: str, blob: bytes, lease: Lease) -> bool:
        """Write under a lease; False, and nothing changed, when a value with a higher fence is there: the lease had
        passed on.
        """
        ...
