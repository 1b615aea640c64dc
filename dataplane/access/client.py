"""`AccessClient`: one decision, from the cache, from a call that is under way, or from Access itself (§6)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from common.telemetry.outage import OutageLog
from dataplane.access.breaker import Breaker
from dataplane.access.cache import DecisionCache, Kept, is_fresh, may_bridge
from dataplane.access.keys import decision_key, service_digest
from dataplane.access.protocol import (
    STALE_ALLOW,
    AccessDecision,
    AccessFailure,
    TransportFailureKind,
    parse_decision,
    question,
)
from dataplane.errors import GatewayError

if TYPE_CHECKING:
    from common.routetable.compiled import Route
    from common.telemetry.log import Log
    from dataplane.metrics import GatewayMetrics

Outcome = AccessDecision | AccessFailure


class AccessTransportError(Exception):
    """No complete answer came. `reason` is for the log."""

    def __init__(self, kind: TransportFailureKind, reason: str) -> None:
        super().__init__(reason)
        self.kind: TransportFailureKind = kind
        self.reason = reason


class AccessTransport(Protocol):
    """`POST {GATEWAY_ACCESS_URL}/v1/decisions` with the token, as JSON."""

    async def post_decision(self, body: bytes) -> tuple[int, bytes]:
        """Status and body of one complete answer, redirects not followed; else `AccessTransportError`.

        An answer that is cut or longer than `ANSWER_MAX_BYTES` is an error. Cancelling gives the connection up.
        """
        ...


class _Call:
    """A question on its way to Access, with those who wait for its answer."""

    __slots__ = ("asked_at", "order", "task", "waiters")

    def __init__(self, asked_at: float, order: int) -> None:
        self.asked_at = asked_at
        self.order = order
        self.waiters = 0
        self.task: asyncio.Task[Outcome]


class AccessClient:
    """Decisions of one Access service, for one event loop.

    `timeout_s` bounds a call from its start to the end of its answer, whatever the transport does. `breaker` is this
    client's own. `clock` gives monotonic seconds.
    """

    def __init__(
        self,
        transport: AccessTransport,
        *,
        url: str,
        timeout_s: float,
        cache_max: int,
        breaker: Breaker,
        metrics: GatewayMetrics,
        log: Log,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = transport
        self._service = service_digest(url)
        self._timeout_s = timeout_s
        self._cache = DecisionCache(cache_max)
        self._breaker = breaker
        self._metrics = metrics
        self._log = log
        self._clock = clock
        self._calls: dict[bytes, _Call] = {}
        self._running: set[asyncio.Task[Outcome]] = set()
        self._asked = 0
        self._outage = OutageLog(log, gone="access is unavailable", back="access answers again")

    async def decide(
        self, subject: str, workspace_id: str | None, route: Route, roles: Sequence[str], *, fresh: bool = False
    ) -> AccessDecision:
        """Access's explicit decision, no older than the route's lifetime; while Access is unavailable, its last allow
        within lifetime and grace (`stale`).

        `fresh` asks now: nothing kept and no call that began earlier answers, and an outage is never bridged (§6.2).
        Raises `GatewayError("access_unavailable")` where there is no decision. A caller that is cancelled takes
        nothing from others who wait for the same answer.
        """
        try:
            asked = question(subject, workspace_id, route.id, roles)
        except ValueError as error:
            raise GatewayError("internal_error", str(error)) from error
        key = decision_key(self._service, asked)
        if not fresh:
            kept = self._cache.get(key)
            if kept is not None and is_fresh(kept, self._clock(), route.access_cache_ttl_ms):
                self._metrics.access_cache.inc("hit")
                return kept.decision
        return await self._ask(key, asked, route, fresh=fresh)

    async def close(self) -> None:
        """Cancel every call and wait for its end."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _ask(self, key: bytes, asked: bytes, route: Route, *, fresh: bool) -> AccessDecision:
        now = self._clock()
        call = None if fresh else self._calls.get(key)
        # A call is joined while its answer would still be fresh: with a lifetime of 0 each request asks by itself.
        if call is not None and (now - call.asked_at) * 1000 < route.access_cache_ttl_ms:
            how = "shared"
        else:
            how = "miss"
            call = self._start(key, asked, now, route.access_cache_ttl_ms + route.access_stale_grace_ms)
        if call is None:
            outcome: Outcome = AccessFailure("breaker_open", "Access failed repeatedly and is not asked for now")
        else:
            outcome = await self._wait(key, call)
        if isinstance(outcome, AccessFailure):
            bridged = None if fresh else self._bridge(key, route)
            if bridged is None:
                self._count_lookup(how, fresh=fresh)
                raise GatewayError("access_unavailable", str(outcome))
            return bridged
        self._count_lookup(how, fresh=fresh)
        return outcome

    def _count_lookup(self, how: str, *, fresh: bool) -> None:
        if not fresh:
            self._metrics.access_cache.inc(how)

    def _bridge(self, key: bytes, route: Route) -> AccessDecision | None:
        """What may answer after a failure: a decision that another call brought meanwhile, or the outage grace."""
        kept = self._cache.get(key)
        if kept is None:
            return None
        now = self._clock()
        if is_fresh(kept, now, route.access_cache_ttl_ms):
            self._metrics.access_cache.inc("hit")
            return kept.decision
        if not may_bridge(kept, now, route.access_cache_ttl_ms, route.access_stale_grace_ms):
            return None
        self._metrics.access_cache.inc("stale")
        self._metrics.access_stale.inc(route.id)
        self._metrics.access_stale_age.observe(now - kept.asked_at, route.id)
        return STALE_ALLOW

    def _start(self, key: bytes, asked: bytes, now: float, keep_ms: int) -> _Call | None:
        """Send a question; None when the breaker refuses."""
        ticket = self._breaker.admit(now)
        if ticket is None:
            return None
        self._asked += 1
        call = _Call(now, self._asked)
        task = asyncio.get_running_loop().create_task(self._run(key, call, asked, ticket, keep_ms))
        call.task = task
        self._calls[key] = call
        self._running.add(task)

        def ended(_: asyncio.Task[Outcome]) -> None:
            self._running.discard(task)
            self._forget(key, call)
            # A task that was cancelled, even before its first step, gives back the place of a probe.
            self._breaker.released(ticket)
            if not task.cancelled():
                task.exception()  # a bug is raised in those who wait; with nobody left it is not worth a warning

        task.add_done_callback(ended)
        return call

    async def _wait(self, key: bytes, call: _Call) -> Outcome:
        call.waiters += 1
        try:
            # `wait` leaves the task alone when this caller is cancelled.
            await asyncio.wait((call.task,))
        finally:
            call.waiters -= 1
            if call.waiters == 0 and not call.task.done():
                self._forget(key, call)
                call.task.cancel()
        if call.task.cancelled():
            return AccessFailure("reset", "the call to Access was stopped")
        return call.task.result()

    def _forget(self, key: bytes, call: _Call) -> None:
        """Let nobody join the call any more."""
        if self._calls.get(key) is call:
            del self._calls[key]

    async def _run(self, key: bytes, call: _Call, asked: bytes, ticket: int, keep_ms: int) -> Outcome:
        outcome = await self._post(asked)
        now = self._clock()
        self._metrics.access_duration.observe(now - call.asked_at)
        if isinstance(outcome, AccessDecision):
            self._cache.put(key, Kept(outcome, call.asked_at, call.order, call.asked_at + keep_ms / 1000), now)
            self._metrics.access_requests.inc("allow" if outcome.allow else "deny")
        else:
            self._metrics.access_requests.inc("rejected" if outcome.rejected else "unavailable")
        self._forget(key, call)
        self._tell_breaker(outcome, ticket, now)
        return outcome

    async def _post(self, asked: bytes) -> Outcome:
        try:
            async with asyncio.timeout(self._timeout_s):
                status, body = await self._transport.post_decision(asked)
        except TimeoutError:
            return AccessFailure("timeout", f"Access did not answer within {self._timeout_s:g} s")
        except AccessTransportError as error:
            return AccessFailure(error.kind, error.reason)
        except OSError as error:
            return AccessFailure("connect", f"Access could not be reached: {type(error).__name__}")
        return parse_decision(status, body)

    def _tell_breaker(self, outcome: Outcome, ticket: int, now: float) -> None:
        """Report to the breaker and the log, and publish the breaker's state."""
        was_open = self._breaker.open
        if isinstance(outcome, AccessDecision):
            self._breaker.succeeded(ticket)
            self._outage.answered()
        elif outcome.rejected:
            self._breaker.released(ticket)
        else:
            self._breaker.failed(ticket, now)
            self._outage.failed(str(outcome))
        if self._breaker.open != was_open:
            self._metrics.access_breaker_open.set(int(self._breaker.open))
            if self._breaker.open:
                self._log.warning("access breaker opened")
