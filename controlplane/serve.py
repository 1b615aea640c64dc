"""`gateway-control`: listen, answer, and end without cutting anyone off."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from typing import TYPE_CHECKING

from common.serving import Server, hand_on_logs, listening_socket
from common.state.open import StateOptions, open_state
from common.state.ports import StateMisconfigured
from common.telemetry.state_watch import StateMetrics
from controlplane.app import ControlPlane, control_plane
from controlplane.metrics import ControlMetrics

if TYPE_CHECKING:
    from common.settings.control import ControlSettings
    from common.state.ports import ControlState
    from common.telemetry.log import Log

STATE_TIMEOUT_LEAST_S = 5.0
"""A gateway's budget is a caller's patience; here it is that of an operator, and a table may have 8 MiB."""
OF_ONE_HOST = 0.25
"""The share of all connections that one host may have: whoever opens all that they can shuts out themselves."""


def run(settings: ControlSettings) -> int:
    """Serve until SIGTERM or SIGINT; the exit code."""
    import uvloop

    from common.telemetry.line_writer import LineWriter
    from common.telemetry.log import Log

    writer = LineWriter(sys.stdout.fileno())
    log = Log(writer.write, level=settings.gateways.log_level)

    async def attached() -> int:
        hand_on_logs(log)
        writer.attach(asyncio.get_running_loop())
        return await serve(settings, log)

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(attached())
    finally:
        writer.close()


def open_control_state(settings: ControlSettings, log: Log, metrics: ControlMetrics) -> ControlState:
    """The state of the settings, not started."""
    url = settings.store.state_url.reveal()
    backend = url.partition(":")[0]
    return open_state(
        url,
        StateOptions(
            prefix=settings.store.key_prefix,
            timeout_s=max(settings.gateways.state_timeout_s, STATE_TIMEOUT_LEAST_S),
            redis_sentinel_master=settings.gateways.redis_sentinel_master,
            postgres_pool_max=settings.gateways.postgres_pool_max,
        ),
        watch=StateMetrics(metrics, log, backend),
    )


async def serve(settings: ControlSettings, log: Log) -> int:
    """Run until SIGTERM or SIGINT; the exit code. A second signal does not wait for open requests."""
    try:
        sock = listening_socket(settings.host, settings.port)
    except OSError as error:
        reason = error.strerror or str(error)
        log.error("cannot listen: free the address or set GATEWAY_CONTROL_HOST and _PORT", error=reason)
        return 1
    metrics = ControlMetrics()
    with sock:
        state = open_control_state(settings, log, metrics)
        try:
            await state.start()
        except StateMisconfigured as refused:
            log.error(f"the shared state refuses this control plane: {refused}")
            await state.close()
            return 1
        plane = control_plane(settings, state, log, metrics)
        try:
            await _run(plane, settings, sock, log)
        finally:
            plane.close()
            await state.close()
    log.info("stopped")
    return 0


class _Server(Server):
    """Says to whoever waits for replicas that the process ends."""

    def __init__(self, plane: ControlPlane, settings: ControlSettings) -> None:
        super().__init__(plane.app, drain_s=settings.gateways.shutdown_timeout_s, of_one_host=OF_ONE_HOST)
        self._plane = plane

    def end(self) -> None:
        super().end()
        self._plane.drain()


async def _run(plane: ControlPlane, settings: ControlSettings, sock: socket.socket, log: Log) -> None:
    server = _Server(plane, settings)
    server.end_at_signals()
    host, port = sock.getsockname()[:2]
    operators = sorted({token.operator for token in settings.tokens})
    log.info(
        "listening", host=host, port=port, pid=os.getpid(), backend=plane.process.state.backend, operators=operators
    )
    await server.serve(sockets=[sock])
