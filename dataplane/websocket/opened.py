"""One open WebSocket, from the caller's 101 to its record."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import random
from typing import TYPE_CHECKING

from dataplane.websocket.relay import ABNORMAL, POLICY, Verdict
from dataplane.websocket.revalidation import schedule

if TYPE_CHECKING:
    from common.telemetry.log import Log
    from dataplane.exchange import Exchange
    from dataplane.metrics import GatewayMetrics
    from dataplane.net.tasks import TaskKeeper
    from dataplane.net.timers import TimerWheel
    from dataplane.websocket.connections import Place
    from dataplane.websocket.relay import Relay
    from dataplane.websocket.revalidation import Revalidation


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every open WebSocket of a process shares. `revalidate_s` 0: none is checked again."""

    wheel: TimerWheel
    tasks: TaskKeeper
    revalidation: Revalidation
    revalidate_s: float
    metrics: GatewayMetrics
    log: Log


class OpenWebSocket:
    """Keeps a relay authorized, waits for its end, and records it. `x` is the exchange of its handshake."""

    __slots__ = ("_around", "_check", "_opened_at", "_period_s", "_place", "_relay", "_timer", "_x")

    def __init__(self, x: Exchange, relay: Relay, place: Place, around: Surroundings) -> None:
        self._x = x
        self._relay = relay
        self._place = place
        self._around = around
        self._opened_at = around.wheel.clock()
        self._check: asyncio.Task[None] | None = None
        self._timer = around.wheel.timer()
        self._period_s = 0.0
        if around.revalidate_s:
            plan = schedule(around.revalidate_s, random)  # only spreads load
            self._period_s = plan.period_s
            self._timer.set(plan.first_s, self.revalidate)
        place.opened(self)

    async def run(self) -> None:
        """Wait for the end of both sides; then nothing of it is left. Cancelling cuts them."""
        try:
            await self._relay.done
        finally:
            self.release()

    def release(self) -> None:
        """Let go of everything and record the end."""
        self._timer.cancel()
        if self._check is not None:
            self._check.cancel()
        self._relay.release()
        self._place.leave()
        self._record()

    def close(self, verdict: Verdict) -> None:
        """Close both sides; nothing where they are closing already."""
        self._relay.close(verdict)

    def revalidate(self) -> None:
        """Check now whether the connection may go on; the next check is a period after this one's end."""
        if self._check is None or self._check.done():
            self._check = self._around.tasks.spawn(self._revalidate(), "revalidation of a WebSocket")

    async def _revalidate(self) -> None:
        x = self._x
        try:
            objection = await self._around.revalidation.objection(x)
        except Exception as error:  # noqa: BLE001 (a check that breaks vouches for nothing)
            objection = f"the check broke: {type(error).__name__}"
            self._around.log.error("a revalidation broke", requestId=x.request_id, error=type(error).__name__)
        if objection:
            self.close(Verdict("revalidation", POLICY, "no longer allowed", objection))
        elif self._period_s:
            self._timer.set(self._period_s, self.revalidate)

    def _record(self) -> None:
        x, relay, around = self._x, self._relay, self._around
        verdict = relay.verdict or Verdict("drain", ABNORMAL, detail="cut: the gateway stopped")
        around.metrics.websocket_closed.inc(x.route_id, verdict.reason)
        around.log.info(
            "websocket closed",
            requestId=x.request_id,
            traceId=x.trace.trace_id,
            spanId=x.trace.span_id,
            client=x.forwarding.client,
            host=x.forwarding.host,
            route=x.route_id,
            subject=None if x.principal is None else x.principal.subject,
            workspaceId=x.workspace_id,
            upstream=x.upstream_origin,
            reason=verdict.reason,
            code=verdict.code,
            detail=verdict.detail or None,
            durationMs=round((around.wheel.clock() - self._opened_at) * 1000, 3),
            bytesIn=relay.down.bytes_passed,
            bytesOut=relay.up.bytes_passed,
            messagesIn=relay.down.frames.messages,
            messagesOut=relay.up.frames.messages,
        )
