"""Keeps the deployment's certificate: serves what is stored, and has it obtained and renewed by one replica at a time.

    every replica, again and again:   read the store ─> serve what is new ─> what is next? (plan) ─> wait
    when something is to be done:     take the lease ─> read again ─> order, or ask the authority ─> store ─> serve

The lease is renewed while work goes on, and the work given up when it is lost; what is written carries the lease's
fence, so a replica that was stopped and woke late overwrites nothing. A store that is away changes nothing: the
certificate in memory serves on, and nothing is ordered. All of it belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from common.state.ports import StateUnavailable
from dataplane.net.tasks import TaskKeeper
from dataplane.tls.acme.lease import LeaseLost, work_under
from dataplane.tls.acme.plan import Step, TakeLease, Wait, next_step
from dataplane.tls.acme.records import Issued, Progress
from dataplane.tls.acme.vault import LEASE, Kept, Overtaken, Vault
from dataplane.tls.certificate import Certificate, CertificateRefused

if TYPE_CHECKING:
    from common.state.ports import State
    from common.telemetry.log import Log
    from dataplane.tls.acme.attempt import Attempts, Wanted

POLL_S = 30.0
"""How often the store is looked at: how late a replica serves what another obtained."""
POLL_WITHOUT_S = 2.0
"""The same while there is nothing to serve."""
LEASE_MS = 60_000
"""Renewed four times in it; a replica that dies in an order holds up the others for so long."""
SURPRISE_MAX_S = 3_600.0


class CertificateKeeper:
    """`start`, then `stop` once."""

    def __init__(
        self,
        wanted: Wanted,
        state: State,
        vault: Vault,
        attempts: Attempts,
        log: Log,
        *,
        owner: str,
        install: Callable[[Certificate], None],
        report: Callable[[str | None], None],
        lease_ms: int = LEASE_MS,
    ) -> None:
        """`owner` names this process among all that may take the lease.

        `install` serves a certificate, or raises `CertificateRefused`. `report` takes what is wrong, for readiness:
        why the newest certificate is not served, or why the last attempt came to nothing; None while all is well.
        """
        self._wanted = wanted
        self._state = state
        self._vault = vault
        self._attempts = attempts
        self._log = log
        self._owner = owner
        self._install = install
        self._report = report
        self._lease_ms = lease_ms
        self._served = ""
        self._told: tuple[str, ...] = ()
        self._surprises = 0
        self._wake = asyncio.Event()
        self._tasks = TaskKeeper(lambda name, error: log.error("a task died", task=name, exc=error))

    async def start(self) -> None:
        """Serve what the store holds, then keep it in the background. Never fails, whatever is away."""
        try:
            await self._look()
            if await self._vault.other_secret():
                self._log.error(
                    "the certificates in the shared state are sealed under another GATEWAY_TLS_STORE_SECRET. Give "
                    "every replica the same one. If it was changed on purpose, there is nothing to do: a certificate "
                    "is ordered and kept beside the old one",
                )
        except StateUnavailable:
            pass  # told by the state itself; the first round comes soon
        self._tasks.spawn(self._keep(), "certificates")

    def look_now(self) -> None:
        """Look at the store now, and not only when the next look is due."""
        self._wake.set()

    async def stop(self) -> None:
        """End an order that is under way: its challenges are withdrawn and its lease is given up, within seconds."""
        await self._tasks.cancel_all()

    async def round(self) -> float:
        """Look, do what is to be done if the lease can be had, and say in how many seconds to look again."""
        step = self._next(await self._look())
        if isinstance(step, TakeLease):
            lease = await self._state.take_lease(LEASE, self._owner, self._lease_ms)
            if lease is not None:
                work = partial(self._attempts.make, lease)
                await work_under(self._state, lease, work, keep_ms=self._lease_ms)
                step = self._next(await self._look())
        most_s = POLL_S if self._served else POLL_WITHOUT_S
        if isinstance(step, Wait):
            return min(most_s, max(0.0, (step.until_ms - self._state.now_ms()) / 1000))
        return most_s

    async def _keep(self) -> None:
        while True:
            wait_s = POLL_WITHOUT_S
            try:
                wait_s = await self.round()
            except StateUnavailable:
                pass  # told by the state itself
            except (LeaseLost, Overtaken):
                self._log.warning("an order was given up: its lease passed on to another replica")
            except Exception as error:  # noqa: BLE001 - a bug in one round must not end all renewals
                self._log.error("the certificate could not be looked after", exc=error)
                # Ever more seldom: what fails behind an order would use up what the authority allows.
                wait_s = min(POLL_S * 2**self._surprises, SURPRISE_MAX_S)
                self._surprises = min(self._surprises + 1, 10)
            else:
                self._surprises = 0
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()

    async def _look(self) -> Kept:
        """Read the store, serve what is new in it, and tell what is wrong with it."""
        kept = await self._vault.read()
        trouble = "; ".join(kept.troubles) or (kept.progress.last_error if kept.progress.failing else None)
        if kept.issued is not None and kept.issued.fingerprint != self._served:
            trouble = self._serve(kept.issued) or trouble
        self._tell(kept.troubles)
        self._report(trouble)
        return kept

    def _serve(self, issued: Issued) -> str | None:
        """Why it is not served; None when it is."""
        try:
            self._install(self._wanted.judge(issued, self._state.now_ms()))
        except CertificateRefused as refused:
            return str(refused)
        self._served = issued.fingerprint
        self._log.info("certificate served", names=self._wanted.names, serial=issued.serial, notAfter=issued.ends)
        return None

    def _tell(self, troubles: tuple[str, ...]) -> None:
        """Log each trouble once, until it is over."""
        for trouble in troubles:
            if trouble not in self._told:
                self._log.error("a stored record is of no use; a new one is made", error=trouble)
        self._told = troubles

    def _next(self, kept: Kept) -> Step:
        return next_step(
            self._state.now_ms(),
            kept.issued,
            kept.progress,
            renew_before_ms=self._wanted.renew_before_ms,
            leased=False,
        )


def renewal_asked(kept: Kept) -> Progress:
    """The progress that has every replica see a renewal as due, whatever went before: what an operator asks for."""
    fingerprint = "" if kept.issued is None else kept.issued.fingerprint
    return replace(kept.progress, refused=0, unreachable=0, retry_at_ms=0, renew_now=fingerprint)
