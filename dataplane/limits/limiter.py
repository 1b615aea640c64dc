"""Asking the store of budgets, and what holds while it is away (§9)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from common.ready import DONE, Ready
from common.state.ports import StateUnavailable
from common.telemetry.outage import OutageLog
from dataplane.errors import GatewayError

if TYPE_CHECKING:
    from common.settings.gateway import RateLimitFallback
    from common.state.budgets import BudgetCheck, BudgetResult, BudgetStore
    from common.telemetry.log import Log
    from dataplane.exchange import Exchange
    from dataplane.limits.fields import BudgetFields
    from dataplane.metrics import GatewayMetrics

# The store's time-out is half a second: a request may wait for it while that is news, not for the whole outage.
_FAILURES_BEFORE_REST = 3
_REST_S = 1.0


class Limiter:
    """Asks the store, and knows what holds while it is away (`GATEWAY_RATE_LIMIT_FALLBACK`).

    After three failures in a row the store is left alone: one request a second asks it, the others do not wait for
    its time-out. `local` counts while `fallback` is `local`; it may be the store itself.
    """

    def __init__(
        self,
        store: BudgetStore,
        local: BudgetStore,
        *,
        fallback: RateLimitFallback,
        metrics: GatewayMetrics,
        log: Log,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._local = local
        self._fallback = fallback
        self._metrics = metrics
        self._clock = clock
        self._failures = 0
        self._ask_again_at = 0.0
        self._outage = OutageLog(
            log,
            gone=f"limits: the shared state does not answer; the fallback is {fallback}",
            back="limits: the shared state answers again; its budgets hold",
        )

    def enforce(
        self, x: Exchange, checks: Sequence[BudgetCheck], fields: BudgetFields, route_id: str
    ) -> Awaitable[None]:
        """Count the request and add to its response what is left; or raise `too_many_requests`, with the first refusal.

        `fields` are those of the checks' budgets, in their order; `route_id` labels the refusal. While the store is
        away the fallback decides: `rate_limit_unavailable`, or no limit. `DONE` where nothing is to be waited for.
        """
        asked = None
        if self._failures < _FAILURES_BEFORE_REST or self._is_asked_again():
            asked = self._store.check_budgets(checks)
            if isinstance(asked, Ready):
                if self._failures:
                    self._answered()
                self._judge(x, asked[0], fields, route_id)
                return DONE
        return self._enforce(asked, x, checks, fields, route_id)

    async def _enforce(
        self,
        asked: Awaitable[Sequence[BudgetResult]] | None,
        x: Exchange,
        checks: Sequence[BudgetCheck],
        fields: BudgetFields,
        route_id: str,
    ) -> None:
        results: Sequence[BudgetResult] | None = None
        if asked is not None:
            try:
                results = await asked
            except StateUnavailable as failure:
                self._failed(failure)
            else:
                if self._failures:
                    self._answered()
        if results is None:
            results = await self._without_store(checks)
        if results is not None:
            self._judge(x, results, fields, route_id)

    def _judge(self, x: Exchange, results: Sequence[BudgetResult], fields: BudgetFields, route_id: str) -> None:
        for result in results:
            if not result[0]:  # allowed: by its place, which takes half the time
                place = results.index(result)
                self._metrics.rate_limited.inc(fields.scopes[place], route_id)
                raise fields.refusal(place, max(1, -(-result.retry_after_ms // 1000)))
        fields.add_to(x.response_headers, results)

    def _failed(self, failure: StateUnavailable) -> None:
        self._failures += 1
        self._ask_again_at = self._clock() + _REST_S
        self._outage.failed(str(failure))

    def _answered(self) -> None:
        self._failures = 0
        self._outage.answered()

    def _is_asked_again(self) -> bool:
        now = self._clock()
        if now < self._ask_again_at:
            return False
        # Moved before the answer is there: those that come while this one waits do not wait with it.
        self._ask_again_at = now + _REST_S
        return True

    async def _without_store(self, checks: Sequence[BudgetCheck]) -> Sequence[BudgetResult] | None:
        """What the fallback says; None where no limit holds."""
        self._metrics.rate_limit_fallback.inc(self._fallback)
        if self._fallback == "deny":
            raise GatewayError("rate_limit_unavailable", "the shared state cannot be asked")
        return await self._local.check_budgets(checks) if self._fallback == "local" else None
