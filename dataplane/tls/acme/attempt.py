"""What is done under the lease: an order that ends in a stored certificate, or in a failure that all replicas know."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from common.state.ports import StateUnavailable
from dataplane.tls.acme.authority import Authority, AuthoritySettings
from dataplane.tls.acme.failure import AccountGone, OrderFailed
from dataplane.tls.acme.obtain import obtain
from dataplane.tls.acme.plan import HOUR_MS, AskAuthority, Order, after_advice, after_failure, next_step
from dataplane.tls.acme.records import Account, Advice, Issued, Progress
from dataplane.tls.acme.vault import Kept, Overtaken, Vault
from dataplane.tls.certificate import Certificate, CertificateRefused, read_certificate

if TYPE_CHECKING:
    from common.state.coordination import Lease
    from common.state.ports import State
    from common.telemetry.log import Log
    from dataplane.tls.acme.challenges import Showing

SAVE_AGAIN_S = 2.0
CLOCK_SKEW_MS = 600_000
"""How far the authority's clock may be ahead."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The certificate that a deployment wants, and of whom."""

    names: tuple[str, ...]
    authority: AuthoritySettings
    renew_before_ms: int

    def judge(self, issued: Issued, now_ms: int) -> Certificate:
        """The certificate as it can be served; `CertificateRefused` says why it cannot."""
        # Not every authority dates back: one whose clock is ahead of this one's would seem to issue for the future.
        now_ms = max(now_ms, min(issued.not_before_ms, now_ms + CLOCK_SKEW_MS))
        source = f"the certificate of {urlsplit(self.authority.directory).hostname}"
        return read_certificate(issued.chain_pem, issued.key_pem, now_s=now_ms / 1000, chain_source=source)


class Attempts:
    """One replica's attempts. `make` does what is due, at most one thing, so that nothing turns in circles."""

    def __init__(
        self,
        wanted: Wanted,
        state: State,
        vault: Vault,
        showing: Showing,
        log: Log,
        *,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._wanted = wanted
        self._state = state
        self._vault = vault
        self._showing = showing
        self._log = log
        self._chance = chance

    async def make(self, lease: Lease) -> None:
        """Read what is stored, and do what it calls for under this lease.

        A failure of the authority is stored, not raised. Raises `Overtaken` when a later lease has written, and
        `StateUnavailable`.
        """
        kept = await self._vault.read()
        if kept.fence > lease.fence:
            raise Overtaken
        now_ms = self._state.now_ms()
        step = next_step(now_ms, kept.issued, kept.progress, renew_before_ms=self._wanted.renew_before_ms, leased=True)
        if isinstance(step, Order):
            await self._order(lease, kept, step.why)
        elif isinstance(step, AskAuthority) and kept.issued is not None:
            advice = await self._advice(kept.issued)
            progress = after_advice(self._state.now_ms(), kept.progress, kept.issued, advice)
            await self._vault.write_progress(progress, lease)

    async def _order(self, lease: Lease, kept: Kept, why: str) -> None:
        names = self._wanted.names
        self._log.info("ordering a certificate", names=names, why=why, authority=self._wanted.authority.directory)
        try:
            issued = await self._obtained(lease)
        except (OrderFailed, StateUnavailable) as error:
            failure = error if isinstance(error, OrderFailed) else OrderFailed(str(error), unreachable=True)
            progress = after_failure(self._state.now_ms(), kept.progress, failure, self._chance())
            self._log.warning(
                "no certificate was obtained",
                names=names,
                error=str(failure),
                refused=progress.refused,
                unreachable=progress.unreachable,
                nextAttemptS=round((progress.retry_at_ms - self._state.now_ms()) / 1000),
            )
            await self._save(partial(self._vault.write_progress, progress, lease))
            return
        await self._save(partial(self._vault.write_certificate, issued, lease))
        # Whatever the plan thinks of the new certificate (a clock may be wrong), the next is not ordered at once.
        apart_ms = min(HOUR_MS, (issued.not_after_ms - issued.not_before_ms) // 6)
        progress = Progress(retry_at_ms=self._state.now_ms() + apart_ms)
        await self._save(partial(self._vault.write_progress, progress, lease))
        self._log.info("a certificate was obtained", names=names, serial=issued.serial, notAfter=issued.ends)

    async def _obtained(self, lease: Lease) -> Issued:
        known, troubles = await self._vault.read_account()
        for trouble in troubles:
            self._log.error("the stored account is of no use; a new one is made", error=trouble)
        try:
            key, chain = await self._obtain_as(known, lease)
        except AccountGone:
            if known is None:
                raise
            self._log.warning("the authority does not know this deployment's account any more; a new one is made")
            key, chain = await self._obtain_as(None, lease)
        try:
            issued = Issued.of(key, chain)
            certificate = self._wanted.judge(issued, self._state.now_ms())
        except (ValueError, CertificateRefused) as error:
            raise OrderFailed(f"what the authority issued cannot be served: {error}") from None
        missing = set(self._wanted.names) - set(certificate.names)
        if missing:
            raise OrderFailed(f"what the authority issued is not for {', '.join(sorted(missing))}")
        return issued

    async def _obtain_as(self, known: Account | None, lease: Lease) -> tuple[bytes, bytes]:
        with closing(Authority(self._wanted.authority, known)) as authority:
            account = await authority.account()
            if account != known:
                await self._vault.write_account(account, lease)
            return await obtain(authority, self._showing, self._wanted.names, self._log)

    async def _advice(self, issued: Issued) -> Advice | None:
        try:
            with closing(Authority(self._wanted.authority, None)) as authority:
                renew_at_s, ask_in_s = await authority.renewal_time(issued.chain_pem)
        except OrderFailed as failure:
            self._log.warning("the authority did not say when to renew", error=str(failure))
            return None
        ask_again_ms = self._state.now_ms() + round(ask_in_s * 1000)
        return Advice(issued.fingerprint, round((renew_at_s or 0) * 1000), ask_again_ms)

    async def _save(self, write: Callable[[], Awaitable[None]]) -> None:
        """Write what was hard to get, again and again while the store is away; a lost lease ends it."""
        while True:
            try:
                await write()
            except StateUnavailable:
                await asyncio.sleep(SAVE_AGAIN_S)
            else:
                return
