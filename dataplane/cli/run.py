"""`gateway run`: one data plane from the environment, until it is told to end."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import sys
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from common.settings.gateway import GatewaySettings
    from common.telemetry.log import Log

HELP = """Run the data plane in this process, configured by GATEWAY_* variables.

\b
Examples:
  GATEWAY_CONFIG=routes.json gateway run
  GATEWAY_ENV=production GATEWAY_CONFIG=/etc/gateway/routes.json gateway run

SIGTERM and SIGINT drain: open requests finish within GATEWAY_SHUTDOWN_TIMEOUT_MS, then the process ends with 0.
Wrong settings end it with 1 before it listens, every problem named. The variables are listed in docs/configuration.md.
"""


def register(app: typer.Typer) -> None:
    @app.command("run", help=HELP)
    def run() -> None:
        from common.settings.errors import SettingsInvalid
        from common.settings.load import load_gateway_settings

        try:
            settings = load_gateway_settings(os.environ)
        except SettingsInvalid as invalid:
            for problem in invalid.problems:
                typer.echo(f"gateway: {problem}", err=True)
            raise typer.Exit(1) from None
        raise typer.Exit(serve(settings))


def serve(settings: GatewaySettings) -> int:
    """Run until SIGTERM or SIGINT; the exit code."""
    import uvloop

    from common.telemetry.line_writer import LineWriter
    from common.telemetry.log import Log

    raise_descriptor_limit()
    writer = LineWriter(sys.stdout.fileno())
    log = Log(writer.write, level=settings.log_level)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(settings, log, writer.attach))
    finally:
        writer.close()


def raise_descriptor_limit() -> None:
    """As many descriptors as the system grants: each request holds two, and the usual soft limit is 1 024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


# A request leaves hardly a cycle behind, and each of the collector's rounds over the old objects (sessions, decisions)
# is a pause for all requests. With CPython's own thresholds it takes 3 % of a bare request's time.
COLLECT_YOUNG_EVERY = 10_000
COLLECT_OLDER_EVERY = 20


def spare_collector() -> None:
    """Leave what the start has made out of garbage collection, and collect the rest less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_YOUNG_EVERY, COLLECT_OLDER_EVERY, COLLECT_OLDER_EVERY)


async def _serve(settings: GatewaySettings, log: Log, attach: Any) -> int:
    from common.state.ports import StateMisconfigured
    from dataplane.gateway import Gateway

    loop = asyncio.get_running_loop()
    attach(loop)
    loop.set_exception_handler(lambda _, context: report(log, context))
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    gateway = Gateway(settings, log)
    try:
        await gateway.start()
    except StateMisconfigured as refused:
        log.error(f"the shared state refuses this gateway: {refused}")
        await gateway.stop()
        return 1
    except OSError as error:
        log.error("cannot listen: free the address or set GATEWAY_HOST and GATEWAY_PORT", exc=error)
        await gateway.stop()
        return 1
    spare_collector()
    await ended.wait()
    await gateway.stop()
    return 0


def report(log: Log, context: dict[str, Any]) -> None:
    """What the loop has to say of a failure that nothing else caught, as one event."""
    error = context.get("exception")
    fields = {"exc": error} if isinstance(error, BaseException) else {}
    log.error(str(context.get("message", "failure in the event loop")), **fields)
