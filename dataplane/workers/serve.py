"""One data plane in this process until it is told to end: `gateway run` alone, or one of several workers."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import uvloop

from common.state.ports import StateMisconfigured
from common.telemetry.line_writer import LineWriter
from common.telemetry.log import Log
from dataplane.gateway import Gateway
from dataplane.spans import open_spans
from dataplane.tls.certificate import CertificateRefused

if TYPE_CHECKING:
    from common.settings.gateway import GatewaySettings

# A request leaves hardly a cycle behind, and each of the collector's rounds over the old objects (sessions, decisions)
# is a pause for all requests. With CPython's own thresholds it takes 3 % of a bare request's time. The young ones are
# more than all requests at once make that the usual bound lets in (some 16 to 30 each), on new connections (some 20
# each): below that, each burst would be walked through while it is under way, for a sixth of a request's time.
COLLECT_YOUNG_EVERY = 60_000
COLLECT_OLDER_EVERY = 10


def serve_alone(settings: GatewaySettings, stdout: int) -> int:
    """Serve until SIGTERM or SIGINT, drain, and return the exit code. A second signal ends the process at once."""
    writer = LineWriter(stdout)
    log = Log(writer.write, level=settings.log_level)

    async def main() -> int:
        loop = asyncio.get_running_loop()
        writer.attach(loop)
        ended = asyncio.Event()

        def end(number: signal.Signals) -> None:
            if ended.is_set():
                log.warning("ended at once by a second signal: open requests are cut", signal=number.name)
                writer.close()
                os._exit(128 + number)
            ended.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end, number)
        return await serve(Gateway(settings, log, spans=open_spans(os.environ, log)), log, ended)

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main())
    finally:
        writer.close()


async def serve(
    gateway: Gateway,
    log: Log,
    ended: asyncio.Event,
    *,
    sockets: Sequence[socket.socket] = (),
    tls_sockets: Sequence[socket.socket] = (),
    on_ready: Callable[[], None] = lambda: None,
) -> int:
    """Start, call `on_ready`, serve until `ended` is set, drain; the exit code. SIGHUP reloads meanwhile."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: _report(log, context))
    sys.unraisablehook = lambda told: _report_unraisable(log, told)
    loop.add_signal_handler(signal.SIGHUP, _reload, gateway, log)
    try:
        await gateway.start(sockets, tls_sockets)
    except StateMisconfigured as refused:
        log.error(f"the shared state refuses this gateway: {refused}")
        await gateway.stop()
        return 1
    except CertificateRefused as refused:
        log.error(f"a certificate cannot be used: {refused}")
        await gateway.stop()
        return 1
    except OSError as error:
        log.error("cannot listen: free the address or set GATEWAY_HOST, GATEWAY_PORT and GATEWAY_TLS_PORT", exc=error)
        await gateway.stop()
        return 1
    spare_collector()
    on_ready()
    await ended.wait()
    await gateway.stop()
    return 0


def raise_descriptor_limit() -> None:
    """As many descriptors as the system grants: each request holds two, and the usual soft limit is 1 024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def spare_collector() -> None:
    """Leave what the start has made out of garbage collection, and collect the rest less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_YOUNG_EVERY, COLLECT_OLDER_EVERY, COLLECT_OLDER_EVERY)


def _reload(gateway: Gateway, log: Log) -> None:
    log.info("reload asked for", signal="SIGHUP")
    gateway.tasks.spawn(gateway.reload(), "reload")


def _report_unraisable(log: Log, told: sys.UnraisableHookArgs) -> None:
    """What is raised where nothing can take it, as an event, not as lines on standard error that a caller may fill: a
    name in a TLS handshake that is not ASCII is such an error of Python's `ssl`, which then refuses the handshake.
    """
    frames = traceback.extract_tb(told.exc_traceback)[-6:]
    where = [f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}" for frame in frames]
    write = log.debug if told.exc_type is UnicodeDecodeError else log.error
    write("an error that nothing could take", error=told.exc_type.__name__, frames=where)


def _report(log: Log, context: dict[str, Any]) -> None:
    """What the loop has to say of a failure that nothing else caught, as one event."""
    error = context.get("exception")
    fields = {"exc": error} if isinstance(error, BaseException) else {}
    log.error(str(context.get("message", "failure in the event loop")), **fields)
