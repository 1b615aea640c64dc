"""A lease kept while work goes on under it, and the work given up when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from common.state.ports import StateUnavailable

if TYPE_CHECKING:
    from common.state.coordination import Lease
    from common.state.ports import State


class LeaseLost(Exception):
    """The lease ran out or passed on while the work went on; the work was cancelled."""


async def work_under(state: State, lease: Lease, work: Callable[[], Awaitable[None]], *, keep_ms: int) -> None:
    """Do `work` under a lease that is renewed meanwhile, and give the lease up at the end, whatever the end.

    `LeaseLost` when it is not this owner's any more, by the server's word or by its clock while the server does not
    answer: then the work is cancelled first. What the work raises comes out as it is.
    """
    worker = asyncio.ensure_future(work())
    keeper = asyncio.ensure_future(_keep(state, lease, keep_ms))
    try:
        await asyncio.wait((worker, keeper), return_when=asyncio.FIRST_COMPLETED)
        if worker.done():
            await worker
        else:
            raise LeaseLost
    finally:
        for task in (worker, keeper):
            task.cancel()
        await asyncio.gather(worker, keeper, return_exceptions=True)
        with contextlib.suppress(StateUnavailable):
            await state.release_lease(lease)


async def _keep(state: State, lease: Lease, keep_ms: int) -> None:
    """Renew, four times in the time it lasts; returns when it is lost."""
    held: Lease | None = lease
    while held is not None and state.now_ms() < held.expires_at_ms:
        await asyncio.sleep(keep_ms / 4_000)
        with contextlib.suppress(StateUnavailable):
            held = await state.renew_lease(held, keep_ms)
