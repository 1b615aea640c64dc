"""`gateway-control`: listen, answer, and end without cutting anyone off."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING

import uvicorn

from common.state.open import StateOptions, open_state
from common.state.ports import StateMisconfigured
from common.telemetry.state_watch import StateMetrics
from controlplane.app import ControlPlane, control_plane
from controlplane.metrics import ControlMetrics

if TYPE_CHECKING:
    from common.settings.control import ControlSettings
    from common.state.ports import ControlState
    from common.telemetry.log import Log

_BACKLOG = 1_024


class _Server(uvicorn.Server):
    """A uvicorn server whose signals are handled here: a stop that was asked for ends with exit code 0."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def run(settings: ControlSettings) -> int:
    """Serve until SIGTERM or SIGINT; the exit code."""
    import uvloop

    from common.telemetry.line_writer import LineWriter
    from common.telemetry.log import Log

    writer = LineWriter(sys.stdout.fileno())
    log = Log(writer.write, level=settings.gateways.log_level)

    async def attached() -> int:
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
            timeout_s=settings.gateways.state_timeout_s,
            redis_sentinel_master=settings.gateways.redis_sentinel_master,
            postgres_pool_max=settings.gateways.postgres_pool_max,
        ),
        watch=StateMetrics(metrics, log, backend),
    )


async def serve(settings: ControlSettings, log: Log) -> int:
    """Run until SIGTERM or SIGINT; the exit code. A second signal does not wait for open requests."""
    try:
        sock = listen(settings.host, settings.port)
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


async def _run(plane: ControlPlane, settings: ControlSettings, sock: socket.socket, log: Log) -> None:
    server = _Server(
        uvicorn.Config(
            plane.app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            # The address of the socket is what failures are counted by: no header may claim another.
            proxy_headers=False,
            timeout_graceful_shutdown=max(1, round(settings.gateways.shutdown_timeout_s)),
        )
    )

    def end() -> None:
        server.force_exit = server.should_exit
        server.should_exit = True
        plane.drain()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    host, port = sock.getsockname()[:2]
    operators = sorted({token.operator for token in settings.tokens})
    log.info(
        "listening", host=host, port=port, pid=os.getpid(), backend=plane.process.state.backend, operators=operators
    )
    await server.serve(sockets=[sock])


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; raises `OSError`."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock
