"""The sealed records of one certificate in the shared state.

Each stands under a name made of what it belongs to: the authority, the certificate's names, the store secret. So
whoever changes one of them begins anew beside the old, replicas of both kinds run side by side, and going back finds
what was there. Nothing of another secret is ever overwritten.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from dataplane.tls.acme.records import Account, Issued, Progress, UnknownRecord
from dataplane.tls.acme.sealing import SealBroken, SealedElsewhere, Sealer

if TYPE_CHECKING:
    from common.state.coordination import Lease
    from common.state.sealed import SealedStore

LEASE = "certificates"
"""The lease under which all of it is written: one order at a time in a deployment."""
MARK = "acme.secret"
"""Sealed under the secret that was used last; tells a changed secret."""
T = TypeVar("T")


class Overtaken(Exception):
    """A record was written under a later lease: whoever holds that one goes on."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What was found, and why a record could not be read. A damaged record counts as absent, and is told."""

    issued: Issued | None
    progress: Progress
    troubles: tuple[str, ...] = ()
    fence: int = 0
    """The highest under which one of them was written."""


class Vault:
    """Reads and writes the records. Every method may raise `StateUnavailable`."""

    def __init__(
        self,
        store: SealedStore,
        sealer: Sealer,
        *,
        directory: str,
        names: Sequence[str],
        account_of: str = "",
        ordered_as: Sequence[str] = (),
    ) -> None:
        """`account_of` is the external account that accounts are bound to, `""` for none.

        `ordered_as` is all else that an attempt depends on: who mends a setting does not wait out the back-off of the
        one that was wrong.
        """
        self._store = store
        self._sealer = sealer
        order = _digest(sealer.key_id, directory, *sorted(names))
        self._certificate = f"acme.certificate.{order}"
        self._progress = f"acme.progress.{_digest(order, account_of, *ordered_as)}"
        self._account = f"acme.account.{_digest(sealer.key_id, directory, account_of)}"

    async def read(self) -> Kept:
        """The certificate and how the last attempts went."""
        troubles: list[str] = []
        issued, fence = await self._open(self._certificate, Issued.from_bytes, troubles)
        progress, second = await self._open(self._progress, Progress.from_bytes, troubles)
        return Kept(issued, progress or Progress(), tuple(troubles), max(fence, second))

    async def read_account(self) -> tuple[Account | None, tuple[str, ...]]:
        """The account, and why it could not be read."""
        troubles: list[str] = []
        account, _ = await self._open(self._account, Account.from_bytes, troubles)
        return account, tuple(troubles)

    async def write_account(self, account: Account, lease: Lease) -> None:
        await self._write(self._account, account.to_bytes(), lease)

    async def write_certificate(self, issued: Issued, lease: Lease) -> None:
        await self._write(self._certificate, issued.to_bytes(), lease)
        await self._write(MARK, b"", lease)

    async def write_progress(self, progress: Progress, lease: Lease) -> None:
        await self._write(self._progress, progress.to_bytes(), lease)

    async def other_secret(self) -> bool:
        """Whether the last certificate of this deployment was sealed under another secret."""
        mark = await self._store.read_sealed(MARK)
        if mark is None:
            return False
        try:
            self._sealer.open(MARK, mark.blob)
        except SealedElsewhere:
            return True
        except SealBroken:
            return False
        return False

    async def _open(self, name: str, read: Callable[[bytes], T], troubles: list[str]) -> tuple[T | None, int]:
        found = await self._store.read_sealed(name)
        if found is None:
            return None, 0
        try:
            return read(self._sealer.open(name, found.blob)), found.fence
        except SealBroken as broken:
            troubles.append(str(broken))
        except UnknownRecord as unknown:
            troubles.append(f"the value {name!r} in the shared state cannot be used: {unknown}")
        return None, found.fence

    async def _write(self, name: str, value: bytes, lease: Lease) -> None:
        if not await self._store.write_sealed(name, self._sealer.seal(name, value), lease):
            raise Overtaken(name)


def _digest(*parts: str) -> str:
    """A short name for some texts; each part is told apart from the next."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
