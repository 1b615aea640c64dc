"""One order, from the request to the full chain (RFC 8555 §7.4): nothing of it outlives a failure."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from acme.crypto_util import make_csr

from common.state.ports import StateUnavailable
from dataplane.tls.acme.authority import make_key
from dataplane.tls.acme.failure import OrderFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from common.telemetry.log import Log
    from dataplane.tls.acme.authority import Authority, Proof
    from dataplane.tls.acme.challenges import Showing

SHOWN_WITHIN_S = 300.0
"""From the first challenge to the last: authorities look from several places, and again when one sees nothing."""
LONGEST_POLL_S = 30.0
WITHDRAW_WHEN_GIVEN_UP_S = 5.0


async def obtain(authority: Authority, showing: Showing, names: Sequence[str], log: Log) -> tuple[bytes, bytes]:
    """A fresh P-256 key and the chain for `names`, both PEM. The account is known to the authority already.

    `OrderFailed` says why there is none; `StateUnavailable` when the challenges cannot be published. Whatever was
    published is withdrawn, also when this is cancelled. An order that came to nothing is left to expire there.
    """
    key = make_key()
    order = await authority.order(make_csr(key, list(names)))
    published: list[Proof] = []
    try:
        # One after the other: two values of one record could overtake each other in a writer.
        for proof in authority.proofs(order, showing.kind):
            published.append(proof)
            await showing.publish(proof)
        for proof in published:
            await authority.accept(proof)
        await _until_shown(authority, published)
    finally:
        await _withdraw(showing, published, log)
    return key, await authority.finalize(order)


async def _until_shown(authority: Authority, proofs: Sequence[Proof]) -> None:
    try:
        async with asyncio.timeout(SHOWN_WITHIN_S):
            for proof in proofs:
                while (wait_s := await authority.shown(proof)) is not None:  # noqa: ASYNC110 - nobody tells us
                    await asyncio.sleep(min(wait_s, LONGEST_POLL_S))
    except TimeoutError:
        raise OrderFailed(f"the authority did not finish its challenges within {SHOWN_WITHIN_S:g} s") from None


async def _withdraw(showing: Showing, proofs: list[Proof], log: Log) -> None:
    """Each of them, whatever becomes of the others; bounded in time when the work is being given up."""
    task = asyncio.current_task()
    given_up = task is not None and task.cancelling() > 0
    try:
        async with asyncio.timeout(WITHDRAW_WHEN_GIVEN_UP_S if given_up else None):
            while proofs:
                try:
                    await showing.withdraw(proofs[-1])
                except (OrderFailed, StateUnavailable) as failure:
                    _tell_left(proofs[-1], showing, str(failure), log)
                proofs.pop()
    except TimeoutError:
        for proof in proofs:
            _tell_left(proof, showing, "no answer in time", log)


def _tell_left(proof: Proof, showing: Showing, reason: str, log: Log) -> None:
    log.warning(
        "a challenge was not withdrawn; remove it where it was published",
        name=proof.name,
        challenge=showing.kind,
        error=reason,
    )
