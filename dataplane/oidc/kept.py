"""A document of the provider, kept: fetched when first needed, fetched anew when old, served on during an outage.

    fresh for `fresh_s` -> refetched by the next request that needs it -> on failure served for `stale_s` more -> gone

The request that finds it old waits for the new one, so a withdrawn key is refused from then on. Once a fetch has
failed, nobody waits any more while the old document may serve: it is fetched in the background, at most once in
`RETRY_S`, until that works.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from common.telemetry.outage import OutageLog
from dataplane.oidc.errors import ProviderUnavailable

if TYPE_CHECKING:
    from common.telemetry.log import Log

T = TypeVar("T")

RETRY_S = 2.0
"""Pause after a failed fetch: short, since it is how long a provider that is back may go unnoticed."""


class Kept(Generic[T]):
    """One document, shared by every request. `name` says in the log what it is."""

    def __init__(
        self,
        name: str,
        fetch: Callable[[], Awaitable[T]],
        *,
        fresh_s: float,
        stale_s: float,
        clock: Callable[[], float],
        log: Log,
    ) -> None:
        self._name = name
        self._fetch = fetch
        self._fresh_s = fresh_s
        self._stale_s = stale_s
        self._clock = clock
        self._outage = OutageLog(
            log, gone=f"identity provider: no {name}", back=f"identity provider: {name} available again"
        )
        self._value: T | None = None
        self._fetched_at = 0.0
        self._failure: ProviderUnavailable | None = None
        self._failed_at = 0.0
        self._flight: asyncio.Task[None] | None = None

    @property
    def failing(self) -> bool:
        """Whether the last fetch failed."""
        return self._failure is not None

    @property
    def fetching(self) -> bool:
        """Whether a fetch is under way."""
        return self._flight is not None

    def fresh(self) -> T | None:
        """The document, when it may be used without asking anyone."""
        if self._value is not None and self._clock() - self._fetched_at < self._fresh_s:
            return self._value
        return None

    def usable(self) -> T | None:
        """The document, while it is fresh or within its outage grace."""
        if self._value is not None and self._clock() - self._fetched_at < self._fresh_s + self._stale_s:
            return self._value
        return None

    async def get(self) -> T:
        """The document as new as it has to be; `ProviderUnavailable` when there is none that may be used."""
        value = self.fresh()
        if value is not None:
            return value
        if self._failure is None:
            return await self.refetch()
        value = self.usable()
        pausing = self._clock() - self._failed_at < RETRY_S
        if value is not None:
            if not pausing:
                self._depart()
            return value
        if pausing and self._flight is None:
            raise ProviderUnavailable(str(self._failure))
        return await self.refetch()

    async def refetch(self) -> T:
        """Fetch now, or join the fetch that is under way. On failure the old document serves while it may."""
        # Shielded: a caller that leaves must not end the fetch for the others.
        await asyncio.shield(self._depart())
        value = self.usable()
        if value is not None:
            return value
        raise ProviderUnavailable(str(self._failure))

    async def close(self) -> None:
        """End a fetch that is under way."""
        if self._flight is not None:
            self._flight.cancel()
            await asyncio.gather(self._flight, return_exceptions=True)

    def _depart(self) -> asyncio.Task[None]:
        if self._flight is None:
            self._flight = asyncio.get_running_loop().create_task(self._fly(), name=f"fetch {self._name}")
        return self._flight

    async def _fly(self) -> None:
        try:
            value = await self._fetch()
        except ProviderUnavailable as failure:
            self._outage.failed(str(failure))
            self._failure = failure
            self._failed_at = self._clock()
        else:
            self._outage.answered()
            self._failure = None
            self._value = value
            self._fetched_at = self._clock()
        finally:
            self._flight = None
