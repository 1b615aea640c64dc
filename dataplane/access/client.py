"""`AccessClient`: one decision, from a cache, from a call that is under way, or from Access itself (§6)."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from common.state.ports import DecisionKey
from common.telemetry.outage import OutageLog
from common.values import remember
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
    from dataplane.access.shared import SharedDecisions
    from dataplane.metrics import GatewayMetrics

Outcome = AccessDecision | AccessFailure
_Said = tuple[str, str | None, str, tuple[str, ...]]
"""Subject, workspace, route and roles."""

# The questions of the last callers are kept as they are sent: less than a megabyte.
_QUESTIONS_MAX = 512
_QUESTION_MAX_BYTES = 512


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

    __slots__ = ("asked_at", "asked_at_ms", "order", "task", "waiters")

    def __init__(self, asked_at: float, asked_at_ms: int, order: int) -> None:
        self.asked_at = asked_at
        self.asked_at_ms = asked_at_ms
        """By the clock of the shared state, where there is one."""
        self.order = order
        self.waiters = 0
        self.task: asyncio.Task[Outcome]


class AccessClient:
    """Decisions of one Access service, for one event loop.

    `timeout_s` bounds a call from its start to the end of its answer, whatever the transport does. `breaker` is this
    client's own. `shared` are the decisions of all replicas, None where there is one process. `clock` gives monotonic
    seconds.
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
        shared: SharedDecisions | None = None,
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
        self._questions: OrderedDict[_Said, tuple[bytes, bytes]] = OrderedDict()
        self._calls: dict[bytes, _Call] = {}
        self._running: set[asyncio.Task[Outcome]] = set()
        self._asked = 0
        # Without a cache of its own a process keeps nothing elsewhere either.
        self._shared = shared if cache_max else None
        self._forgotten = 0
        self._forgotten_at = -math.inf
        self._outage = OutageLog(log, gone="access is unavailable", back="access answers again")

    def at_hand(
        self, subject: str, workspace_id: str | None, route: Route, roles: tuple[str, ...]
    ) -> AccessDecision | None:
        """What `decide` would answer from this process's memory, at once; None where it may have to ask."""
        known = self._questions.get((subject, workspace_id, route.id, roles))
        return None if known is None else self._fresh(known[1], route)

    async def decide(
        self, subject: str, workspace_id: str | None, route: Route, roles: tuple[str, ...], *, fresh: bool = False
    ) -> AccessDecision:
        """Access's explicit decision, no older than the route's lifetime; while Access is unavailable, its last allow
        within lifetime and grace (`stale`).

        `fresh` asks now: nothing kept and no call that began earlier answers, and an outage is never bridged (§6.2).
        Raises `GatewayError("access_unavailable")` where there is no decision. A caller that is cancelled takes
        nothing from others who wait for the same answer.
        """
        said = subject, workspace_id, route.id, roles
        asked, inputs = self._questions.get(said) or self._question(said)
        if not fresh and (kept := self._fresh(inputs, route)) is not None:
            return kept
        key = DecisionKey(inputs, subject, workspace_id)
        shares = self._shared is not None and route.access_cache_ttl_ms > 0
        if shares and not fresh and self._joinable(inputs, route) is None:
            await self._look(key, route)
            if (kept := self._fresh(inputs, route)) is not None:
                return kept
        return await self._ask(key, asked, route, fresh=fresh)

    def _question(self, said: _Said) -> tuple[bytes, bytes]:
        """A question, and the key under which its decision is kept."""
        try:
            asked = question(*said)
        except ValueError as error:
            raise GatewayError("internal_error", str(error)) from error
        both = asked, decision_key(self._service, asked)
        return remember(self._questions, said, both, _QUESTIONS_MAX) if len(asked) <= _QUESTION_MAX_BYTES else both

    def forget(self) -> None:
        """Let nothing that was asked before now answer any more, kept here or shared: decisions were dropped. Calls on
        their way answer those who wait for them, and nobody after.
        """
        self._cache.clear()
        self._calls.clear()
        self._forgotten = self._asked
        self._forgotten_at = self._clock()

    async def close(self) -> None:
        """Cancel every call and wait for its end."""
        if self._shared is not None:
            await self._shared.close()
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _fresh(self, inputs: bytes, route: Route) -> AccessDecision | None:
        """What is kept here and may answer instead of Access."""
        kept = self._cache.get(inputs)
        if kept is None or not is_fresh(kept, self._clock(), route.access_cache_ttl_ms):
            return None
        self._metrics.access_cache.inc("hit")
        return kept.decision

    async def _look(self, key: DecisionKey, route: Route) -> None:
        """Keep what replicas share of a decision, unless what is kept here is later."""
        found = None if self._shared is None else await self._shared.find(key)
        if found is not None and found.asked_at > self._forgotten_at:
            keep_until = found.asked_at + _keep_ms(route) / 1000
            self._cache.put(key.inputs, Kept(found.decision, found.asked_at, 0, keep_until), self._clock())

    def _joinable(self, inputs: bytes, route: Route) -> _Call | None:
        """A call whose answer will still be fresh: with a lifetime of 0 each request asks by itself."""
        call = self._calls.get(inputs)
        if call is None or (self._clock() - call.asked_at) * 1000 >= route.access_cache_ttl_ms:
            return None
        return call

    async def _ask(self, key: DecisionKey, asked: bytes, route: Route, *, fresh: bool) -> AccessDecision:
        call = None if fresh else self._joinable(key.inputs, route)
        how = "miss" if call is None else "shared"
        if call is None:
            call = self._start(key, asked, _keep_ms(route))
        if call is None:
            outcome: Outcome = AccessFailure("breaker_open", "Access failed repeatedly and is not asked for now")
        else:
            outcome = await self._wait(key.inputs, call)
        if isinstance(outcome, AccessFailure):
            if route.access_stale_grace_ms > 0 and not fresh and (call is not None or not route.access_cache_ttl_ms):
                # Since it was looked for, if it was, another replica may have had an answer: an allow, or a denial that
                # ends what is kept here.
                await self._look(key, route)
            bridged = None if fresh else self._bridge(key.inputs, route)
            if bridged is None:
                self._count_lookup(how, fresh=fresh)
                raise GatewayError("access_unavailable", str(outcome))
            return bridged
        self._count_lookup(how, fresh=fresh)
        return outcome

    def _count_lookup(self, how: str, *, fresh: bool) -> None:
        if not fresh:
            self._metrics.access_cache.inc(how)

    def _bridge(self, inputs: bytes, route: Route) -> AccessDecision | None:
        """What may answer after a failure: a decision that another call brought meanwhile, or the outage grace."""
        if (decision := self._fresh(inputs, route)) is not None:
            return decision
        kept, now = self._cache.get(inputs), self._clock()
        if kept is None or not may_bridge(kept, now, route.access_cache_ttl_ms, route.access_stale_grace_ms):
            return None
        self._metrics.access_cache.inc("stale")
        self._metrics.access_stale.inc(route.id)
        self._metrics.access_stale_age.observe(now - kept.asked_at, route.id)
        return STALE_ALLOW

    def _start(self, key: DecisionKey, asked: bytes, keep_ms: int) -> _Call | None:
        """Send a question; None when the breaker refuses."""
        now = self._clock()
        ticket = self._breaker.admit(now)
        if ticket is None:
            return None
        self._asked += 1
        call = _Call(now, 0 if self._shared is None else self._shared.now_ms(), self._asked)
        task = asyncio.get_running_loop().create_task(self._run(key, call, asked, ticket, keep_ms))
        call.task = task
        self._calls[key.inputs] = call
        self._running.add(task)

        def ended(_: asyncio.Task[Outcome]) -> None:
            self._running.discard(task)
            self._unlist(key.inputs, call)
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
                self._unlist(key, call)
                call.task.cancel()
        if call.task.cancelled():
            return AccessFailure("reset", "the call to Access was stopped")
        return call.task.result()

    def _unlist(self, key: bytes, call: _Call) -> None:
        """Let nobody join the call any more."""
        if self._calls.get(key) is call:
            del self._calls[key]

    async def _run(self, key: DecisionKey, call: _Call, asked: bytes, ticket: int, keep_ms: int) -> Outcome:
        outcome = await self._post(asked)
        now = self._clock()
        self._metrics.access_duration.observe(now - call.asked_at)
        if isinstance(outcome, AccessDecision):
            self._keep(key, call, outcome, now, keep_ms)
            self._metrics.access_requests.inc("allow" if outcome.allow else "deny")
        else:
            self._metrics.access_requests.inc("rejected" if outcome.rejected else "unavailable")
        self._unlist(key.inputs, call)
        self._tell_breaker(outcome, ticket, now)
        return outcome

    def _keep(self, key: DecisionKey, call: _Call, decision: AccessDecision, now: float, keep_ms: int) -> None:
        if call.order <= self._forgotten:
            return
        self._cache.put(key.inputs, Kept(decision, call.asked_at, call.order, call.asked_at + keep_ms / 1000), now)
        if self._shared is not None and keep_ms > 0:
            self._shared.keep(key, decision, asked_at_ms=call.asked_at_ms, keep_ms=keep_ms)

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


def _keep_ms(route: Route) -> int:
    """How long a decision may be of use, from its question on."""
    return route.access_cache_ttl_ms + route.access_stale_grace_ms
