"""Where the proofs of an order are shown while the authority looks: the shared state, or the deployment's zone."""

from __future__ import annotations

import asyncio
import ssl
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Literal, Protocol

import httpx

from dataplane.tls.acme.failure import OrderFailed

if TYPE_CHECKING:
    from common.settings.secret import Secret
    from common.state.coordination import ChallengeStore
    from dataplane.tls.acme.authority import Proof

ANSWER_KEPT_MS = 900_000
"""Longer than an order takes; an answer that nobody withdraws, because its replica was killed, ends by itself."""
WRITER_TIMEOUT_S = 60.0
"""The writer answers once the record is served, which takes a zone some time."""


class Showing(Protocol):
    """One kind of challenge."""

    @property
    def kind(self) -> Literal["http-01", "dns-01"]: ...

    async def publish(self, proof: Proof) -> None:
        """Show it; returns when the authority can see it. Raises `OrderFailed` or `StateUnavailable`."""
        ...

    async def withdraw(self, proof: Proof) -> None:
        """Show it no longer, whether or not it was. The same failures."""
        ...


class SharedState:
    """`http-01`: every replica, and every responder, answers from the shared state."""

    kind: Literal["http-01"] = "http-01"

    def __init__(self, state: ChallengeStore) -> None:
        self._state = state

    async def publish(self, proof: Proof) -> None:
        """See `Showing`."""
        await self._state.publish_challenge(proof.token, proof.answer, ANSWER_KEPT_MS)

    async def withdraw(self, proof: Proof) -> None:
        """See `Showing`."""
        await self._state.withdraw_challenge(proof.token)


class ZoneWriter:
    """`dns-01`: the deployment's writer publishes and withdraws the record, since it knows the zone.

    `POST {"action": "publish" | "withdraw", "name": "_acme-challenge.…", "value": "…"}` with a bearer token; any 2xx
    says that it is done. A name may have several values at once, so both fields name what is withdrawn.
    """

    kind: Literal["dns-01"] = "dns-01"

    def __init__(self, url: str, token: Secret, *, timeout_s: float = WRITER_TIMEOUT_S) -> None:
        self._url = url
        self._token = token
        self._timeout_s = timeout_s

    async def publish(self, proof: Proof) -> None:
        """See `Showing`."""
        await self._ask("publish", proof)

    async def withdraw(self, proof: Proof) -> None:
        """See `Showing`."""
        await self._ask("withdraw", proof)

    async def _ask(self, action: Literal["publish", "withdraw"], proof: Proof) -> None:
        what = f"the DNS writer did not {action} {proof.record}"
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                _client() as client,
                client.stream(
                    "POST",
                    self._url,
                    json={"action": action, "name": proof.record, "value": proof.value},
                    headers={"authorization": f"Bearer {self._token.reveal()}"},
                ) as response,
            ):
                # The body of the answer is not read: it says nothing that counts, however long it is.
                status = response.status_code
        except TimeoutError:
            raise OrderFailed(f"{what}: no answer within {self._timeout_s:g} s", unreachable=True) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise OrderFailed(f"{what}: {type(error).__name__}", unreachable=True) from None
        if not 200 <= status < 300:
            raise OrderFailed(f"{what}: it answered {status}", unreachable=status >= 500)


def _client() -> httpx.AsyncClient:
    """For one call: no redirect, cookie, proxy or credential of the environment."""
    return httpx.AsyncClient(
        verify=ssl.create_default_context(),
        headers={"user-agent": "wicketgate", "accept-encoding": "identity"},
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        follow_redirects=False,
        trust_env=False,
        timeout=None,  # noqa: S113 - each call has one budget for all that it does
    )
